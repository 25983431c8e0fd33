/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From call sites to the messages of pprof's format. Private to the exporter. */
#ifndef SONDE_EXPORT_PPROF_BUILD_H
#define SONDE_EXPORT_PPROF_BUILD_H

#include "core/str.h"
#include "model/stacks.h"

struct sonde_profile;

/* Of @n sites of @lens, which must outlive it. 0 or -ENOMEM. */
int sonde_profile_new(struct sonde_profile **out, enum sonde_lens_id lens,
		      const struct sonde_site_group *g, size_t n);
void sonde_profile_free(struct sonde_profile **p);
/* When it begins (UTC, 0: not known) and how long it is. */
void sonde_profile_time(struct sonde_profile *p, uint64_t begin_ns, uint64_t length_ns);
/* Appended to @out. 0 or -ENOMEM. */
int sonde_profile_pack(const struct sonde_profile *p, struct sonde_str *out);

#endif
