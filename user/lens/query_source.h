/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where queries come from, as the plan has it: for whoever loads, shows or records a plan. */
#ifndef SONDE_LENS_QUERY_SOURCE_H
#define SONDE_LENS_QUERY_SOURCE_H

#include "attach/plan.h"
#include "lens/lens.h"

/* Does the plan probe handlers of a daemon? */
bool sonde_query_has_handlers(const struct sonde_plan *plan);

/* One sentence without a full stop: the source and why. Returns @buf. */
const char *sonde_query_source_text(const struct sonde_plan *plan,
				    const struct sonde_lens_opts *opts, char *buf, size_t size);

#endif
