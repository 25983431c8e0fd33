/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call stacks as tables: who allocated, whose live memory grows, and who took page faults. */
#ifndef SONDE_SHOW_SITES_H
#define SONDE_SHOW_SITES_H

#include <stdio.h>

#include "model/stacks.h"

/*
 * The @rows sites of most bytes, each with its callers, and those of most time in page faults,
 * whichever were counted. 0 or -errno: -ENOMEM, or -ENODATA (logged) where nothing was counted by
 * call site.
 */
int sonde_sites_print(FILE *out, const struct sonde_stack_table *t, size_t rows);
/*
 * Sites whose live bytes grow over the recording, steepest first. -ENODATA (logged, with the
 * reason) where that cannot be told.
 */
int sonde_growth_print(FILE *out, const struct sonde_stack_table *t, size_t rows);

#endif
