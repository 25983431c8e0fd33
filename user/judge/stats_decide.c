// SPDX-License-Identifier: GPL-2.0-or-later
/* Decisions; see stats_decide.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "judge/stats_decide.h"
#include "judge/stats_dist.h"

#define UNSTABLE_SHARE 0.10

static double did(const struct sonde_did *d)
{
	return (d->after[0] - d->after[1]) - (d->before[0] - d->before[1]);
}

double sonde_stats_did(const struct sonde_did *treated, const struct sonde_did *control)
{
	return did(treated) - (control ? did(control) : 0);
}

double sonde_stats_percent(double log_ratio)
{
	return 100 * expm1(log_ratio);
}

struct sonde_estimate sonde_stats_change(const struct sonde_estimate *before,
					 const struct sonde_estimate *after)
{
	double a = after->se * after->se, b, spread;

	if (!before)
		return *after;
	b = before->se * before->se;
	spread = a * a / after->df + b * b / before->df;
	return (struct sonde_estimate){
		.value = after->value - before->value,
		.se = sqrt(a + b),
		.df = spread > 0 ? (a + b) * (a + b) / spread : after->df + before->df,
	};
}

/* ---- many tests ---- */

struct ranked {
	double p;
	size_t at;
};

static int by_p(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->p != y->p)
		return x->p < y->p ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static struct ranked *rank_p(const double *p, size_t n)
{
	struct ranked *r = calloc(n ? n : 1, sizeof(*r));

	if (!r)
		return NULL;
	for (size_t i = 0; i < n; i++)
		r[i] = (struct ranked){p[i], i};
	qsort(r, n, sizeof(*r), by_p);
	return r;
}

int sonde_stats_holm(const double *p, size_t n, double *out)
{
	sonde_autofree struct ranked *r = rank_p(p, n);
	double most = 0;

	if (!r)
		return -ENOMEM;
	for (size_t k = 0; k < n; k++) {
		most = fmax(most, fmin(1, (double)(n - k) * r[k].p));
		out[r[k].at] = most;
	}
	return 0;
}

int sonde_stats_benjamini_hochberg(const double *p, size_t n, double *out)
{
	sonde_autofree struct ranked *r = rank_p(p, n);
	double least = 1;

	if (!r)
		return -ENOMEM;
	for (size_t k = n; k-- > 0;) {
		least = fmin(least, r[k].p * (double)n / (double)(k + 1));
		out[r[k].at] = least;
	}
	return 0;
}

/* ---- how much is enough ---- */

double sonde_stats_mde(double se, double alpha, double power)
{
	return (sonde_stats_normal_quantile(1 - alpha / 2) + sonde_stats_normal_quantile(power)) *
	       se;
}

double sonde_stats_length_needed(double length, double mde, double margin)
{
	return length * (mde / margin) * (mde / margin);
}

double sonde_stats_growth_needed(double length, double fixed, double growing, double multiplier,
				 double margin)
{
	double room = margin * margin / (multiplier * multiplier) - fixed;

	return room > 0 ? length * growing / room : INFINITY;
}

double sonde_stats_restart_alarm(double se, double restart_sd)
{
	double z = sonde_stats_normal_quantile(0.975);
	double real = sqrt(se * se + 2 * restart_sd * restart_sd);

	return real > 0 ? 2 * (1 - sonde_stats_normal_cdf(z * se / real)) : NAN;
}

uint64_t sonde_stats_rss_drift_pages(unsigned int cpus)
{
	uint64_t batch = 2 * (uint64_t)cpus > 32 ? 2 * (uint64_t)cpus : 32;

	return batch * cpus;
}

/* ---- the verdict ---- */

const char *sonde_verdict_name(enum sonde_verdict verdict)
{
	static const char *const names[] = {
		[SONDE_VERDICT_INCONCLUSIVE] = "inconclusive",
		[SONDE_VERDICT_DIFFERENT] = "different",
		[SONDE_VERDICT_EQUIVALENT] = "equivalent",
		[SONDE_VERDICT_UNSTABLE] = "unstable",
	};

	return names[verdict];
}

static bool inside(double low, double high, double margin)
{
	return low > -margin && high < margin;
}

/* Two one-sided tests (Schuirmann, 1987): the 1 - 2 alpha interval lies within the margin. */
static bool is_equivalent(const struct sonde_evidence *e)
{
	double half = sonde_stats_t_quantile(1 - e->alpha, e->effect.df) * e->effect.se;

	return inside(e->effect.value - half, e->effect.value + half, e->margin) &&
	       (isnan(e->low2) || inside(e->low2, e->high2, e->margin));
}

static bool is_different(const struct sonde_evidence *e)
{
	return e->p_adjusted < e->alpha && (isnan(e->low) || e->low > 0 || e->high < 0);
}

/* A restless control does not hide what is larger than all of its unrest. */
static bool is_beyond_spread(const struct sonde_evidence *e)
{
	double half = sonde_stats_t_quantile(1 - e->alpha / 2, e->effect.df) * e->effect.se;

	return is_different(e) && fabs(e->effect.value) - half > e->spread;
}

enum sonde_verdict sonde_stats_decide(const struct sonde_evidence *e)
{
	if (e->placebo_over > UNSTABLE_SHARE)
		return is_beyond_spread(e) ? SONDE_VERDICT_DIFFERENT : SONDE_VERDICT_UNSTABLE;
	if (is_equivalent(e))
		return SONDE_VERDICT_EQUIVALENT;
	if (is_different(e))
		return SONDE_VERDICT_DIFFERENT;
	return SONDE_VERDICT_INCONCLUSIVE;
}
