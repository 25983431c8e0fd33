/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What doctor says, for programs. */
#ifndef SONDE_CLI_DOCTOR_JSON_H
#define SONDE_CLI_DOCTOR_JSON_H

#include "cli/observe.h"

/* One JSON document on stdout. @opts and @p are NULL where no target was named. 0 or -ENOMEM
 * (logged). */
int sonde_doctor_json(const struct sonde_features *f, const struct sonde_session_opts *opts,
		      const struct sonde_session_plan *p);

/* The feature without which nothing can be attached here, or NULL. */
const char *sonde_doctor_missing(const struct sonde_features *f);

#endif
