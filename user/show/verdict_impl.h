/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts of a verdict's text, by file. */
#ifndef SONDE_SHOW_VERDICT_IMPL_H
#define SONDE_SHOW_VERDICT_IMPL_H

#include "show/verdict.h"

/* "14.0 d", "6.0 h", "10 min" */
const char *sonde_verdict_span(char *buf, size_t size, double ns);
/* verdict_cautions.c */
void sonde_verdict_print_cautions(FILE *out, const struct sonde_verdict_doc *d);
/* verdict_trade.c */
void sonde_verdict_print_why(FILE *out, const struct sonde_verdict_doc *d);
void sonde_verdict_print_trade(FILE *out, const struct sonde_verdict_doc *d);

#endif
