/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text report: a visitor that gathers a whole recording and then says what it found, the answer
 * first, every figure with its unit, source and age, and what cannot be told said plainly.
 *
 *   sonde_report_new(&rep, &opts);
 *   sonde_reader_visit(r, &filter, sonde_report_visitor(rep));
 *   sonde_report_print(rep, stdout);
 *   sonde_report_free(&rep);
 */
#ifndef SONDE_SHOW_REPORT_H
#define SONDE_SHOW_REPORT_H

#include <stdio.h>

#include "model/visitor.h"
#include "show/report_forms.h"

struct sonde_report_opts {
	uint32_t slowest;  /* queries listed; 0: 10                     */
	uint32_t rows;	   /* fingerprints listed; 0: 15                */
	double tail_share; /* with any of these three only they are printed; 0: not asked for */
	int by;		   /* enum sonde_query_key + 1 */
	uint64_t running_ns;
	sonde_form_text *form_text; /* the text of a form of query; NULL: ids are printed */
	void *form_ctx;
	bool all; /* threads, mappings and sites of faults: all */
};

struct sonde_report;

/* @opts may be NULL. 0 or -ENOMEM. */
int sonde_report_new(struct sonde_report **out, const struct sonde_report_opts *opts);
const struct sonde_visitor *sonde_report_visitor(struct sonde_report *rep);
/* 0, or -errno not logged where @out could not be written: its owner knows its name. */
int sonde_report_print(struct sonde_report *rep, FILE *out);
void sonde_report_free(struct sonde_report **rep);

#endif
