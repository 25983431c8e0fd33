/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plan of a session for people: what is written, what is read, what cannot be seen. */
#ifndef SONDE_CLI_PLAN_VIEW_H
#define SONDE_CLI_PLAN_VIEW_H

#include <stdio.h>

#include "cli/observe.h"

/* What carrying out the plan puts into the targets. */
struct sonde_plan_writes {
	size_t sites; /* breakpoint bytes: one a site and process */
	size_t pages; /* text pages that become private copies */
};
struct sonde_plan_writes sonde_plan_writes(const struct sonde_session_plan *p);

/* The lenses that these options switch on. */
bool sonde_plan_uses_lens(const struct sonde_session_opts *opts, const struct sonde_lens *lens);

/* Each lens with its hooks: link, event, and the reason where it is not the first choice. */
void sonde_plan_print_lenses(FILE *out, const struct sonde_session_opts *opts,
			     const struct sonde_session_plan *p);
/* What a hit costs the target, once for each kind of link; nothing without a calibration. */
void sonde_plan_print_costs(FILE *out, const struct sonde_session_plan *p);
/* Each probe site, or nothing where there is none. */
void sonde_plan_print_sites(FILE *out, const struct sonde_session_plan *p);
/* The lines "writes into target" and "reads". */
void sonde_plan_print_touch(FILE *out, const struct sonde_session_opts *opts,
			    const struct sonde_session_plan *p);
void sonde_plan_print_blind_spots(FILE *out, const struct sonde_session_opts *opts);

#endif
