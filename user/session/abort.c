// SPDX-License-Identifier: GPL-2.0-or-later
/* See abort.h. Time and distributions come in, the answer goes out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "session/abort.h"

/* Queries that a figure needs: ten beyond the quantile. */
static const struct {
	const char *name;
	double q; /* 0: none */
	uint64_t queries;
} figures[SONDE_ABORT__MAX] = {
	[SONDE_ABORT_MEAN] = {"mean", 0, 20},	      [SONDE_ABORT_P50] = {"p50", 0.5, 20},
	[SONDE_ABORT_P95] = {"p95", 0.95, 200},	      [SONDE_ABORT_P99] = {"p99", 0.99, 1000},
	[SONDE_ABORT_P999] = {"p99.9", 0.999, 10000}, [SONDE_ABORT_RATE] = {"rate", 0, 0},
};

const char *sonde_abort_name(enum sonde_abort_figure figure)
{
	return figures[figure].name;
}

const char *sonde_abort_fmt(char *buf, size_t size, enum sonde_abort_figure figure, double v)
{
	if (figure != SONDE_ABORT_RATE)
		return sonde_fmt_ns(buf, size, v);
	snprintf(buf, size, "%.4g/s", v);
	return buf;
}

static int refuse(struct sonde_str *why, const char *rule, size_t len)
{
	sonde_str_addf(
		why,
		"'%.*s' is no condition: write FIGURE>BOUND or FIGURE<BOUND, figures mean, p50, "
		"p95, p99, p99.9, rate, bounds +10%% (against before attach), 5ms, 100 (queries a "
		"second)",
		(int)len, rule);
	return -EINVAL;
}

/* "+10%" or "-20%": the share; a sign is needed, so that 10% is not taken for a bound. */
static bool parse_relative(const char *s, struct sonde_abort_rule *r)
{
	char digits[32];
	size_t n = strlen(s);
	double v;

	if ((*s != '+' && *s != '-') || n < 3 || s[n - 1] != '%' || n - 2 >= sizeof(digits))
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)n - 2, s + 1);
	if (sonde_parse_real(digits, &v) || v > 100000)
		return false;
	r->relative = true;
	r->bound = (*s == '-' ? -v : v) / 100;
	return r->bound > -1;
}

static bool parse_bound(const char *s, struct sonde_abort_rule *r)
{
	uint64_t ns;

	if (parse_relative(s, r))
		return true;
	if (r->figure == SONDE_ABORT_RATE)
		return !sonde_parse_real(s, &r->bound);
	if (sonde_parse_duration(s, &ns))
		return false;
	r->bound = (double)ns;
	return true;
}

static int parse_rule(const char *s, size_t len, struct sonde_abort_rule *out,
		      struct sonde_str *why)
{
	size_t name = strcspn(s, "<>"), f = 0;
	struct sonde_abort_rule r = {0};
	char bound[48];

	if (name >= len || len - name - 1 >= sizeof(bound))
		return refuse(why, s, len);
	while (f < SONDE_ABORT__MAX &&
	       (strlen(figures[f].name) != name || memcmp(figures[f].name, s, name)))
		f++;
	snprintf(bound, sizeof(bound), "%.*s", (int)(len - name - 1), s + name + 1);
	r.figure = (enum sonde_abort_figure)f;
	r.below = s[name] == '<';
	if (f == SONDE_ABORT__MAX || !parse_bound(bound, &r))
		return refuse(why, s, len);
	*out = r;
	return 0;
}

int sonde_abort_parse(const char *text, struct sonde_abort_rules *out, struct sonde_str *why)
{
	struct sonde_abort_rules rules = {.n = 0};

	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		int err;

		if (rules.n == SONDE_ABORT_MAX) {
			sonde_str_addf(why, "there are more than %d conditions", SONDE_ABORT_MAX);
			return -EINVAL;
		}
		err = parse_rule(s, len, &rules.rules[rules.n++], why);
		if (err)
			return err;
		s += len;
		if (!*s)
			break;
	}
	*out = rules;
	return 0;
}

bool sonde_abort_is_relative(const struct sonde_abort_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rules->rules[i].relative)
			return true;
	return false;
}

int sonde_abort_init(struct sonde_abort *a, const struct sonde_abort_rules *rules)
{
	*a = (struct sonde_abort){.rules = rules};
	if (!sonde_hist_init(&a->before) && !sonde_hist_init(&a->now))
		return 0;
	sonde_abort_fini(a);
	return -ENOMEM;
}

void sonde_abort_fini(struct sonde_abort *a)
{
	sonde_hist_fini(&a->before);
	sonde_hist_fini(&a->now);
	*a = (struct sonde_abort){0};
}

void sonde_abort_baseline(struct sonde_abort *a, const struct sonde_hist *h, uint64_t ns)
{
	sonde_hist_reset(&a->before);
	sonde_hist_merge(&a->before, h);
	a->before_ns = ns;
}

/* Are there enough queries for the figure? */
static bool enough(enum sonde_abort_figure f, const struct sonde_hist *h)
{
	return h->count >= figures[f].queries;
}

static bool has_before(const struct sonde_abort *a, enum sonde_abort_figure f)
{
	return a->before_ns && a->before.count && enough(f, &a->before);
}

bool sonde_abort_has_baseline(const struct sonde_abort *a, const char **figure)
{
	for (size_t i = 0; i < a->rules->n; i++) {
		const struct sonde_abort_rule *r = &a->rules->rules[i];

		if (!r->relative)
			continue;
		*figure = figures[r->figure].name;
		if (!has_before(a, r->figure))
			return false;
	}
	return true;
}

static double value(enum sonde_abort_figure f, const struct sonde_hist *h, uint64_t ns)
{
	if (f == SONDE_ABORT_RATE)
		return (double)h->count / ((double)ns / 1e9);
	if (figures[f].q > 0)
		return (double)sonde_hist_quantile(h, figures[f].q);
	return sonde_hist_mean(h);
}

/* A relative rule without enough before attach never holds: that is said when it is found. */
static bool holds(const struct sonde_abort *a, const struct sonde_abort_rule *r, double *is,
		  double *was)
{
	double bound = r->bound;

	*was = 0;
	if (!enough(r->figure, &a->now))
		return false;
	*is = value(r->figure, &a->now, a->now_ns);
	if (r->relative) {
		if (!has_before(a, r->figure))
			return false;
		*was = value(r->figure, &a->before, a->before_ns);
		bound = *was * (1 + r->bound);
	}
	return r->below ? *is < bound : *is > bound;
}

/* Is what was gathered enough for every rule? */
static bool ripe(const struct sonde_abort *a)
{
	if (a->now_ns < SONDE_ABORT_MIN_NS)
		return false;
	for (size_t i = 0; i < a->rules->n; i++)
		if (!enough(a->rules->rules[i].figure, &a->now))
			return false;
	return true;
}

const struct sonde_abort_rule *sonde_abort_update(struct sonde_abort *a, const struct sonde_hist *h,
						  uint64_t ns, double *is, double *was)
{
	const struct sonde_abort_rule *found = NULL;

	if (h)
		sonde_hist_merge(&a->now, h);
	a->now_ns += ns;
	if (a->now_ns < SONDE_ABORT_MIN_NS)
		return NULL;
	for (size_t i = 0; i < a->rules->n && !found; i++)
		if (holds(a, &a->rules->rules[i], is, was))
			found = &a->rules->rules[i];
	if (found || ripe(a)) {
		sonde_hist_reset(&a->now);
		a->now_ns = 0;
	}
	return found;
}
