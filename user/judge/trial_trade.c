// SPDX-License-Identifier: GPL-2.0-or-later
/* What is to be weighed; see trial_trade.h. */
#include <math.h>
#include <string.h>

#include "judge/trial_trade.h"

static bool same_contrast(const struct sonde_verdict_row *a, const struct sonde_verdict_row *b)
{
	return !strcmp(a->arm, b->arm) && !strcmp(a->against, b->against);
}

size_t sonde_trade_next(const struct sonde_trial_result *r, size_t row)
{
	size_t i = row == SIZE_MAX ? 0 : row;

	while (i < r->n_rows && row != SIZE_MAX && same_contrast(&r->rows[i], &r->rows[row]))
		i++;
	return i < r->n_rows && r->rows[i].between ? r->n_rows : i;
}

static void add(const struct sonde_verdict_row **list, size_t *n,
		const struct sonde_verdict_row *row)
{
	if (*n < SONDE_TRADE_ROWS)
		list[(*n)++] = row;
}

/* What it would have without the treatment is what it has, the effect taken away. */
static double saved(const struct sonde_verdict_row *row, double effect)
{
	return row->plain[0][1] * expm1(-effect);
}

void sonde_trade_make(const struct sonde_trial_result *r, size_t first, struct sonde_trade *out)
{
	struct sonde_trade t = {.arm = r->rows[first].arm};

	for (size_t i = first; i < r->n_rows && same_contrast(&r->rows[i], &r->rows[first]); i++) {
		const struct sonde_verdict_row *row = &r->rows[i];

		if (!row->primary || row->verdict == SONDE_VERDICT_EQUIVALENT)
			continue;
		if (!row->has_interval || row->verdict != SONDE_VERDICT_DIFFERENT) {
			add(t.unknown, &t.n_unknown, row);
			continue;
		}
		if (row->effect < 0)
			add(t.gains, &t.n_gains, row);
		else
			add(t.costs, &t.n_costs, row);
		if (!row->unit || strcmp(row->unit, "bytes") || !(row->plain[0][1] > 0))
			continue;
		t.has_memory = true;
		t.saved = saved(row, row->effect);
		t.saved_low = saved(row, row->high);
		t.saved_high = saved(row, row->low);
	}
	*out = t;
}
