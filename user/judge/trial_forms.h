/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queries by form (fingerprint) and by what they cost. Two readings: the first counts, so that the
 * forms of most time and the classes by cost are known; the second fills their latencies. Classes
 * are made of the time before the change alone, and a form stays in its class whatever becomes of
 * it: "the heaviest 5 %" are the same queries on both sides.
 */
#ifndef SONDE_JUDGE_TRIAL_FORMS_H
#define SONDE_JUDGE_TRIAL_FORMS_H

#include "judge/trial.h"
#include "model/span.h"

#define SONDE_CLASSES 3

struct sonde_form {
	uint64_t id;
	char *text;
	double *count;	     /* [n_servers * 2]: queries before and after the change           */
	double n[2], sum[2]; /* of all servers: queries and ns                                 */
	int class;	     /* -1: none                                                       */
	int own;	     /* source of its own, -1: not among those of most time            */
};

struct sonde_forms {
	struct sonde_form *form;
	size_t n, cap;
	uint32_t *slots; /* open addressing by id; value less 1 is an index */
	size_t n_slots;
	size_t n_servers;
	int class_source[SONDE_CLASSES];   /* -1: the class is empty */
	double class_share[SONDE_CLASSES]; /* of the queries before */
	size_t class_forms[SONDE_CLASSES];
};

void sonde_forms_init(struct sonde_forms *f, size_t n_servers);
void sonde_forms_fini(struct sonde_forms *f);
/* Was this query answered, and nothing of sonde's in its way? Others have no latency. */
bool sonde_forms_counts(const struct sonde_span *s);
/* First reading. @period: 0 before, 1 after. 0 or -ENOMEM. */
int sonde_forms_count(struct sonde_forms *f, size_t server, int period, const struct sonde_span *s);
/* The same of a histogram of @n queries that took @sum ns, by its label. */
int sonde_forms_count_label(struct sonde_forms *f, size_t server, int period, const char *label,
			    double n, double sum);
/* And of a form's histogram; @id SONDE_FORMS_OTHER: of the forms that are not told apart. */
#define SONDE_FORMS_OTHER 1
int sonde_forms_count_id(struct sonde_forms *f, size_t server, int period, uint64_t id,
			 const char *text, double n, double sum);
/* Between the readings: the @most forms of most time and the classes become sources and metrics of
 * @t. 0 or -ENOMEM. */
int sonde_forms_choose(struct sonde_forms *f, struct sonde_trial *t, size_t most);
/* Second reading. 0 or what sonde_windows_add_value says. */
int sonde_forms_put(const struct sonde_forms *f, struct sonde_trial *t, size_t server,
		    size_t window, const struct sonde_span *s);
/* Is this form told apart, or in a class? */
bool sonde_forms_has(const struct sonde_forms *f, uint64_t id);
int sonde_forms_put_hist(const struct sonde_forms *f, struct sonde_trial *t, size_t server,
			 size_t window, uint64_t id, const struct sonde_hist *h);
/*
 * How unlike the mixes of forms of two servers are in a period: the share of queries that would
 * have to be others, 0 to 1. NAN: of one nothing is known.
 */
double sonde_forms_apart(const struct sonde_forms *f, size_t a, size_t b, int period);

#endif
