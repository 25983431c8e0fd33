// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Splits the change of a mean, or of the slowest queries, into parts; see trial_why.h. Errors come
 * from the joint block bootstrap that the quantiles have theirs from. A draw of the tail finds its
 * own slowest 1 % anew.
 */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "judge/stats_dist.h"
#include "judge/trial_figures.h"
#include "judge/trial_impl.h"
#include "judge/trial_why.h"

#define PARTS	       SONDE_PART__MAX
#define TAIL_RESAMPLES 200
#define LEAST_SHARE    0.0005 /* a smaller tail is a handful of accidents */
#define MIN_WINDOWS    8

/* Mean parts of each server and period, and the same of a resample. */
struct means {
	double part[PARTS], all;
};

struct split {
	const struct sonde_trial_work *k;
	const struct sonde_why_data *d;
	const struct sonde_trial_cell *latency; /* [n_servers] of all queries                    */
	bool tail;
	double share;
	double *prefix;	 /* mean: [server][n + 1][PARTS + 1] sums over `order`                   */
	uint32_t *times; /* tail: [n_windows] how often a window was drawn                       */
	struct means *m; /* [server][period]                                                     */
};

/* ---- means ---- */

static size_t row_of(const struct split *s, size_t server, size_t at)
{
	size_t n = s->k->n[SONDE_BEFORE] + s->k->n[SONDE_AFTER] + 1;

	return (server * n + at) * (PARTS + 1);
}

static int make_prefix(struct split *s)
{
	const struct sonde_why_data *d = s->d;
	size_t n = s->k->n[SONDE_BEFORE] + s->k->n[SONDE_AFTER];

	s->prefix = calloc(row_of(s, d->n_servers, 0) + 1, sizeof(*s->prefix));
	if (!s->prefix)
		return -ENOMEM;
	for (size_t v = 0; v < d->n_servers; v++) {
		for (size_t i = 0; i < n; i++) {
			size_t from = v * d->n_windows + s->k->order[i];
			double *was = &s->prefix[row_of(s, v, i)], *now = was + PARTS + 1;

			for (size_t p = 0; p < PARTS; p++)
				now[p] = was[p] + d->part[from * PARTS + p];
			now[PARTS] = was[PARTS] + d->count[from];
		}
	}
	return 0;
}

static void finish_means(struct means *m, double n)
{
	m->all = 0;
	for (size_t p = 0; p < PARTS; p++) {
		m->part[p] = n > 0 ? m->part[p] / n : NAN;
		m->all += m->part[p];
	}
}

static void mean_of(const struct split *s, size_t server, const struct sonde_range *r, size_t n,
		    struct means *out)
{
	double count = 0;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		const double *a = &s->prefix[row_of(s, server, r[i].from)];
		const double *b = &s->prefix[row_of(s, server, r[i].to)];

		for (size_t p = 0; p < PARTS; p++)
			out->part[p] += b[p] - a[p];
		count += b[PARTS] - a[PARTS];
	}
	finish_means(out, count);
}

/* ---- the tail ---- */

static void tail_of(struct split *s, size_t server, int period, const struct sonde_range *r,
		    size_t n, struct means *out)
{
	const struct sonde_why_cell *c = &s->d->cell[server * 2 + (size_t)period];
	double all = 0, most, have = 0;

	memset(s->times, 0, s->d->n_windows * sizeof(*s->times));
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		for (uint32_t w = r[i].from; w < r[i].to; w++) {
			uint32_t window = s->k->order[w];

			s->times[window]++;
			all += s->latency[server].den[window];
		}
	}
	most = fmax(1, ceil(s->share * all));
	for (size_t i = 0; i < c->n && have < most; i++) {
		double weight = fmin(s->times[c->slow[i].window], most - have);

		for (size_t p = 0; p < PARTS && weight > 0; p++)
			out->part[p] += weight * (double)c->slow[i].part[p];
		have += weight;
	}
	finish_means(out, have);
}

static int descending(const void *a, const void *b)
{
	uint64_t x = ((const struct sonde_why_slow *)a)->ns;
	uint64_t y = ((const struct sonde_why_slow *)b)->ns;

	return x > y ? -1 : x < y;
}

static double answered(const struct split *s, size_t server, int period)
{
	struct sonde_range r = sonde_work_period(s->k, period);
	double n = 0;

	for (uint32_t i = r.from; i < r.to; i++)
		n += s->latency[server].den[s->k->order[i]];
	return n;
}

/* The largest share of the slowest that is known whole of every server and period. */
static double known_share(const struct split *s, struct sonde_why_data *d)
{
	double share = SONDE_WHY_TAIL;

	for (size_t i = 0; i < d->n_servers * 2; i++) {
		struct sonde_why_cell *c = &d->cell[i];
		size_t n = 0;

		if (!s->k->n[i % 2])
			continue;
		c->queries = answered(s, i / 2, (int)(i % 2));
		qsort(c->slow, c->n, sizeof(*c->slow), descending);
		while (n < c->n && c->slow[n].ns > c->complete_ns)
			n++;
		share = fmin(share, c->queries > 0 ? (double)n / c->queries : 0);
	}
	return share;
}

/* ---- from means to points ---- */

static double log_mean(double a, double b)
{
	return fabs(a - b) < 1e-9 * a ? a : (a - b) / log(a / b);
}

static void add_change(const struct means *after, const struct means *before, double weight,
		       double *out)
{
	double l = log_mean(after->all, before->all);

	for (size_t p = 0; p < PARTS; p++)
		out[p] += weight * (after->part[p] - before->part[p]) / l;
}

static void add_arm(const struct split *s, const struct sonde_trial_arm *arm, double sign,
		    double *out)
{
	bool baseline = s->k->n[SONDE_BEFORE] > 0;
	double share = sign / (double)arm->n_pairs;

	for (size_t i = 0; i < arm->n_pairs; i++) {
		const struct means *t = &s->m[arm->pairs[i].treated * 2];
		const struct means *u = &s->m[arm->pairs[i].reference * 2];

		if (baseline) {
			add_change(&t[1], &t[0], share, out);
			add_change(&u[1], &u[0], -share, out);
		} else {
			add_change(&t[1], &u[1], share, out);
		}
	}
}

/* Logarithms by part, which add up to that of the whole. */
static void split_logs(const struct split *s, const struct sonde_contrast *c, double *out)
{
	memset(out, 0, PARTS * sizeof(*out));
	add_arm(s, c->arm, 1, out);
	if (c->against)
		add_arm(s, c->against, -1, out);
}

static void take_means(struct split *s, const struct sonde_draw *draw)
{
	for (size_t v = 0; v < s->d->n_servers; v++) {
		for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
			struct sonde_range whole = sonde_work_period(s->k, p);
			const struct sonde_range *r = draw ? draw[p].ranges : &whole;
			size_t n = draw ? draw[p].n : 1;

			if (!s->k->n[p])
				continue;
			if (s->tail)
				tail_of(s, v, p, r, n, &s->m[v * 2 + (size_t)p]);
			else
				mean_of(s, v, r, n, &s->m[v * 2 + (size_t)p]);
		}
	}
}

static double scale_of(double log_effect)
{
	return fabs(log_effect) < 1e-12 ? 100 : 100 * expm1(log_effect) / log_effect;
}

/* ---- errors ---- */

struct moments {
	double sum[PARTS], squares[PARTS];
	unsigned int n;
};

static int resample(struct split *s, struct moments *m, size_t *block)
{
	unsigned int n = s->tail ? TAIL_RESAMPLES : s->k->resamples;
	struct sonde_rng rng = {s->k->t->options.seed};
	struct sonde_draw draw[SONDE_PERIODS] = {0};
	double logs[PARTS];
	int err = 0;

	for (int p = SONDE_BEFORE; p < SONDE_PERIODS && !err; p++) {
		block[p] = sonde_boot_block(s->k, p);
		err = sonde_draw_init(&draw[p], s->k->n[p], block[p]);
	}
	for (unsigned int r = 0; r < n && !err; r++) {
		for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++)
			sonde_draw_blocks(&draw[p], &rng, sonde_work_period(s->k, p).from,
					  s->k->n[p], block[p]);
		take_means(s, draw);
		for (size_t c = 0; c < s->k->n_contrasts; c++) {
			split_logs(s, &s->k->contrasts[c], logs);
			if (isnan(logs[0]))
				continue;
			m[c].n++;
			for (size_t p = 0; p < PARTS; p++) {
				m[c].sum[p] += logs[p];
				m[c].squares[p] += logs[p] * logs[p];
			}
		}
	}
	sonde_draw_fini(&draw[SONDE_BEFORE]);
	sonde_draw_fini(&draw[SONDE_AFTER]);
	return err;
}

static void set_intervals(const struct split *s, const struct moments *m, const size_t *block,
			  double scale, struct sonde_why_row *row)
{
	double n = m->n, df = INFINITY, t;

	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++)
		if (s->k->n[p])
			df = fmin(df, fmax(2, (double)s->k->n[p] / (double)block[p] - 1));
	t = sonde_stats_t_quantile(1 - s->k->alpha / 2, df);
	for (size_t p = 0; p < PARTS; p++) {
		double mean = m->sum[p] / n;
		double sd = sqrt(fmax(0, (m->squares[p] / n - mean * mean) * n / (n - 1)));

		row->low[p] = m->n > 1 ? row->points[p] - scale * t * sd : NAN;
		row->high[p] = m->n > 1 ? row->points[p] + scale * t * sd : NAN;
	}
}

/* ---- rows ---- */

static bool enough_windows(const struct sonde_trial_work *k)
{
	return k->n[SONDE_AFTER] >= MIN_WINDOWS &&
	       (!k->n[SONDE_BEFORE] || k->n[SONDE_BEFORE] >= MIN_WINDOWS);
}

/* Of how many queries the parts are known. */
static double known(const struct split *s)
{
	double n = 0, all = 0;

	for (size_t v = 0; v < s->d->n_servers; v++) {
		for (size_t i = 0; i < s->k->n[0] + s->k->n[1]; i++) {
			n += s->d->count[v * s->d->n_windows + s->k->order[i]];
			all += s->latency[v].den[s->k->order[i]];
		}
	}
	return all > 0 ? n / all : 0;
}

static int add_rows(struct split *s, struct sonde_why *out)
{
	sonde_autofree struct moments *m = calloc(s->k->n_contrasts, sizeof(*m));
	size_t block[SONDE_PERIODS] = {1, 1};
	size_t first = out->n;
	int err = m ? 0 : -ENOMEM;

	take_means(s, NULL);
	for (size_t c = 0; c < s->k->n_contrasts && !err; c++) {
		const struct sonde_contrast *contrast = &s->k->contrasts[c];
		struct sonde_why_row row = {.tail = s->tail, .share = s->share};
		double log_effect = 0, scale;

		split_logs(s, contrast, row.points);
		for (size_t p = 0; p < PARTS; p++)
			log_effect += row.points[p];
		scale = scale_of(log_effect);
		for (size_t p = 0; p < PARTS; p++) {
			row.points[p] *= scale;
			row.low[p] = row.high[p] = NAN;
		}
		row.change = sonde_stats_percent(log_effect);
		row.known = known(s);
		memcpy(row.arm, contrast->arm->name, sizeof(row.arm));
		if (contrast->against)
			memcpy(row.against, contrast->against->name, sizeof(row.against));
		err = SONDE_GROW(out->rows, out->n, out->cap);
		if (!err)
			out->rows[out->n++] = row;
	}
	if (err || !enough_windows(s->k))
		return err;
	err = resample(s, m, block);
	for (size_t c = 0; c < s->k->n_contrasts && !err; c++) {
		struct sonde_why_row *row = &out->rows[first + c];

		set_intervals(s, &m[c], block, scale_of(log1p(row->change / 100)), row);
	}
	return err;
}

/* Is there a cell that nothing is known of? Then its name. */
static const char *unknown_cell(const struct split *s, const char **when)
{
	for (size_t v = 0; v < s->d->n_servers; v++) {
		for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
			struct sonde_range r = sonde_work_period(s->k, p);
			double n = 0;

			for (uint32_t i = r.from; i < r.to; i++)
				n += s->d->count[v * s->d->n_windows + s->k->order[i]];
			*when = p == SONDE_BEFORE ? "before" : "after";
			if (r.from < r.to && !(n > 0))
				return s->k->t->servers[v];
		}
	}
	return NULL;
}

static int split_one(struct split *s, struct sonde_why_data *d, const char *no, char *why,
		     struct sonde_why *out)
{
	const char *when, *server;

	if (*no) {
		snprintf(why, sizeof(out->no_mean), "%s", no);
		return 0;
	}
	server = unknown_cell(s, &when);
	if (server) {
		snprintf(why, sizeof(out->no_mean),
			 "no query of %s %s the change was taken apart; record with the lenses "
			 "query, fault and stall",
			 server, when);
		return 0;
	}
	if (s->tail)
		s->share = known_share(s, d);
	if (s->tail && s->share < LEAST_SHARE) {
		snprintf(why, sizeof(out->no_mean),
			 "too few of the slowest queries are kept; --spans slowest=1000/h keeps "
			 "more");
		return 0;
	}
	return add_rows(s, out);
}

int sonde_why_judge(const struct sonde_trial *t, struct sonde_why_data *d, const char *no_mean,
		    const char *no_tail, struct sonde_why *out)
{
	struct sonde_why result = {0};
	struct sonde_trial_work k;
	struct split s = {.k = &k, .d = d, .latency = t->sources[sonde_figure_latency()].cell};
	int err = sonde_work_init(&k, t);

	if (err)
		return err;
	s.m = calloc(d->n_servers * 2 + 1, sizeof(*s.m));
	s.times = calloc(d->n_windows + 1, sizeof(*s.times));
	err = s.m && s.times ? make_prefix(&s) : -ENOMEM;
	err = err ? err : split_one(&s, d, no_mean, result.no_mean, &result);
	s.tail = true;
	err = err ? err : split_one(&s, d, no_tail, result.no_tail, &result);
	free(s.m);
	free(s.times);
	free(s.prefix);
	sonde_work_fini(&k);
	if (err)
		sonde_why_result_fini(&result);
	else
		*out = result;
	return err;
}
