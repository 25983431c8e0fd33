/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --abort-if: conditions on the latency and the rate of queries under which sonde lets its target
 * go. A condition compares the queries of the last seconds with a bound, or with those before
 * attach. Judged is whatever is whole: at least SONDE_ABORT_MIN_NS, and enough queries for the
 * figure (ten beyond a percentile), so that a p99 of five queries ends nothing.
 */
#ifndef SONDE_SESSION_ABORT_H
#define SONDE_SESSION_ABORT_H

#include <stdbool.h>

#include "core/str.h"
#include "model/hist.h"

#define SONDE_ABORT_MAX	   8
#define SONDE_ABORT_MIN_NS 2000000000ull

enum sonde_abort_figure {
	SONDE_ABORT_MEAN,
	SONDE_ABORT_P50,
	SONDE_ABORT_P95,
	SONDE_ABORT_P99,
	SONDE_ABORT_P999,
	SONDE_ABORT_RATE,
	SONDE_ABORT__MAX
};

struct sonde_abort_rule {
	enum sonde_abort_figure figure;
	bool below;    /* "<", else ">"                                                        */
	bool relative; /* bound is the share by which it may differ from before attach (0.1)   */
	double bound;  /* else ns, or queries a second                                         */
};

struct sonde_abort_rules {
	struct sonde_abort_rule rules[SONDE_ABORT_MAX];
	size_t n;
};

/*
 * "p99>+10%", "mean>5ms", "rate<-20%", "rate<100", several with commas between. 0, or -EINVAL with
 * the reason appended to @why.
 */
int sonde_abort_parse(const char *text, struct sonde_abort_rules *out, struct sonde_str *why);
/* Is there one that needs the figures before attach? */
bool sonde_abort_is_relative(const struct sonde_abort_rules *rules);

struct sonde_abort {
	const struct sonde_abort_rules *rules;
	struct sonde_hist before, now; /* since the last judgement */
	uint64_t before_ns, now_ns;    /* how long they are of */
};

/* 0 or -ENOMEM; @rules are borrowed. */
int sonde_abort_init(struct sonde_abort *a, const struct sonde_abort_rules *rules);
void sonde_abort_fini(struct sonde_abort *a);
/* What was before attach: queries of @ns. */
void sonde_abort_baseline(struct sonde_abort *a, const struct sonde_hist *h, uint64_t ns);
/* Does it hold enough for every relative rule? Else which figure lacks queries (*figure). */
bool sonde_abort_has_baseline(const struct sonde_abort *a, const char **figure);
/*
 * An interval of @ns with the queries of @h. The first rule that holds, or NULL; *is and *was are
 * the figures then (*was 0 where the rule is absolute). What was judged is forgotten.
 */
const struct sonde_abort_rule *sonde_abort_update(struct sonde_abort *a, const struct sonde_hist *h,
						  uint64_t ns, double *is, double *was);
/* "p99", "rate", ... */
const char *sonde_abort_name(enum sonde_abort_figure figure);
/* A figure with its unit, in @buf. */
const char *sonde_abort_fmt(char *buf, size_t size, enum sonde_abort_figure figure, double v);

#endif
