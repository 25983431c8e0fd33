/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Latency by form of query where not all traces were kept: from the recording's histograms, which
 * hold every query that reached sonde, and with the number of those that did not.
 */
#ifndef SONDE_SHOW_REPORT_FORMS_H
#define SONDE_SHOW_REPORT_FORMS_H

#include <stdio.h>

#include "model/snapshot.h"

/* The text of a form by its id, in @buf; "" where it is not known. */
typedef const char *sonde_form_text(void *ctx, uint64_t id, char *buf, size_t size);

/* Nothing where the recording has no such histograms. */
void sonde_report_forms(FILE *out, const struct sonde_snapshot *s, size_t rows,
			sonde_form_text *text, void *ctx);

#endif
