/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a recording or a live session says about itself: an ordered list of key and text. Keys are
 * dotted ("kernel.release", "target.0.build_id"); values that are structured are JSON text. Nothing in
 * here is personal: of the target's environment only allocator variables are kept.
 */
#ifndef SONDE_MODEL_META_H
#define SONDE_MODEL_META_H

#include <stdbool.h>
#include <stddef.h>

#include "core/clock.h"

struct sonde_meta_row {
	char *key, *value;
};

struct sonde_meta {
	struct sonde_meta_row *rows;
	size_t n, cap;
};

void sonde_meta_fini(struct sonde_meta *m);
/* Set or replace. 0 or -ENOMEM. */
int sonde_meta_set(struct sonde_meta *m, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* NULL if there is none; owned by @m. */
const char *sonde_meta_find(const struct sonde_meta *m, const char *key);
/*
 * The clocks by which monotonic times become UTC: keys "clock.mono_ns" and "clock.real_ns". Whoever
 * drives a visitor sets them before begin. Find: false if they are missing or malformed.
 */
int sonde_meta_set_clock(struct sonde_meta *m, const struct sonde_clockpair *clock);
bool sonde_meta_clock(const struct sonde_meta *m, struct sonde_clockpair *out);

#endif
