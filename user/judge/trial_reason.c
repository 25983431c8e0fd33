// SPDX-License-Identifier: GPL-2.0-or-later
/* Reasons; see trial_reason.h. */
#include <math.h>
#include <stdio.h>

#include "judge/trial_reason.h"

#define LEAST_P 1e-6 /* what tails of distributions say beyond is not to be believed */

static double percent(double log_ratio)
{
	return sonde_stats_percent(log_ratio);
}

static void say_equivalent(struct sonde_verdict_row *row, char *out, size_t size)
{
	snprintf(out, size, "inside the margin of error, %.1f %%%s", percent(row->margin),
		 row->margin > row->margin_asked ? " (the control's own spread)" : "");
}

static void say_different(struct sonde_verdict_row *row, char *out, size_t size)
{
	char p[24];

	if (row->p_adjusted < LEAST_P)
		snprintf(p, sizeof(p), "< %.0e", LEAST_P);
	else
		snprintf(p, sizeof(p), "%.2g", row->p_adjusted);
	if (row->family > 1)
		snprintf(out, size, "p %s, of %zu tests", p, row->family);
	else
		snprintf(out, size, "p %s", p);
}

static void say_unstable(struct sonde_verdict_row *row, char *out, size_t size)
{
	snprintf(out, size,
		 "the control differs from itself by more than %.1f %% in %.0f %% of %zu placebo "
		 "splits",
		 percent(row->margin_asked), 100 * row->placebo_over, row->placebo_splits);
}

/* How much longer; or, where the time before the change is what is too short, how long a new run.
 */
static void say_days(const struct sonde_verdict_row *row, char *out, size_t size)
{
	double more = row->days_needed - row->days;
	double factor = sonde_stats_length_needed(1, row->mde, row->margin);

	if (row->by_restarts) {
		snprintf(out, size,
			 "restarts differ: about %.0f an arm instead of %zu resolve %.1f %%",
			 ceil(factor * (double)row->restarts), row->restarts, percent(row->margin));
		return;
	}
	if (factor * (row->days_before + row->days) < more)
		snprintf(out, size, "a new run of %.0f days before and %.0f after resolves %.1f %%",
			 ceil(factor * row->days_before), ceil(factor * row->days),
			 percent(row->margin));
	else if (more >= 1)
		snprintf(out, size, "about %.0f more days resolve %.1f %%", ceil(more),
			 percent(row->margin));
	else if (more * 24 >= 1)
		snprintf(out, size, "about %.0f more hours resolve %.1f %%", ceil(more * 24),
			 percent(row->margin));
	else
		snprintf(out, size, "its interval crosses the margin, %.1f %%",
			 percent(row->margin));
}

static void say_inconclusive(struct sonde_verdict_row *row, char *out, size_t size)
{
	char days[100];

	if (!row->has_interval) {
		snprintf(out, size, "too few windows in a period for an interval");
		return;
	}
	say_days(row, days, sizeof(days));
	if (row->p < row->alpha && row->p_adjusted >= row->alpha)
		snprintf(out, size, "different if it were the only test, not as one of %zu; %s",
			 row->family, days);
	else
		snprintf(out, size, "effects below %.1f %% cannot be seen; %s", percent(row->mde),
			 days);
}

void sonde_verdict_reason(struct sonde_verdict_row *row)
{
	static void (*const say[])(struct sonde_verdict_row *, char *, size_t) = {
		[SONDE_VERDICT_INCONCLUSIVE] = say_inconclusive,
		[SONDE_VERDICT_DIFFERENT] = say_different,
		[SONDE_VERDICT_EQUIVALENT] = say_equivalent,
		[SONDE_VERDICT_UNSTABLE] = say_unstable,
	};

	if (row->has_effect)
		say[row->verdict](row, row->reason, sizeof(row->reason));
}
