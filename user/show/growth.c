// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sites whose live bytes grow. A cache that fills and stays, a queue that grows and is emptied, a
 * burst may all end higher than they began; a leak keeps rising. So the least that a site held must
 * have risen from each sixth of the recording to the next, and the least of the last third must lie
 * above the most of the first, by more than the error of a sample. A leak slower than its site's
 * ups and downs needs a longer recording. The slope is the line of least squares through all
 * readings.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "show/sites_priv.h"

#define B(v) sonde_fmt_bytes((char[32]){0}, 32, (double)(v))
#define N(v) sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define PARTS	     6
#define READINGS_MIN (2 * PARTS)

struct growth {
	const struct sonde_site_group *g;
	double slope, error; /* bytes a second, and its standard error */
};

static double least_of(const double *v, size_t from, size_t to)
{
	double least = v[from];

	for (size_t i = from; i < to; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

static double most_of(const double *v, size_t from, size_t to)
{
	double most = v[from];

	for (size_t i = from; i < to; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

/* Parts of the time, not of the readings: those grow sparser. */
static size_t reading_at(const struct sonde_stack_table *t, unsigned part)
{
	uint64_t begin = t->times[0], length = t->times[t->n_times - 1] - begin;
	size_t i = 0;

	if (part == PARTS)
		return t->n_times;
	while (t->times[i] - begin < length / PARTS * part)
		i++;
	return i;
}

static bool keeps_rising(const struct sonde_stack_table *t, const struct sonde_site_group *g)
{
	double noise = 1.96 * sqrt(g->live_variance), before = 0, least;

	for (unsigned part = 0; part < PARTS; part++) {
		size_t from = reading_at(t, part), to = reading_at(t, part + 1);

		if (from >= to)
			return false;
		least = least_of(g->live, from, to);
		if (part && least <= before + noise / PARTS)
			return false;
		before = least;
	}
	return least_of(g->live, reading_at(t, PARTS - PARTS / 3), t->n_times) >
	       most_of(g->live, 0, reading_at(t, PARTS / 3)) + noise;
}

static void fit(const struct sonde_stack_table *t, struct growth *out)
{
	double n = (double)t->n_times, st = 0, sy = 0, stt = 0, sty = 0, rest = 0, left;

	for (size_t i = 0; i < t->n_times; i++) {
		st += (double)(t->times[i] - t->times[0]) / 1e9;
		sy += out->g->live[i];
	}
	st /= n;
	sy /= n;
	for (size_t i = 0; i < t->n_times; i++) {
		double dt = (double)(t->times[i] - t->times[0]) / 1e9 - st;

		stt += dt * dt;
		sty += dt * (out->g->live[i] - sy);
	}
	out->slope = stt > 0 ? sty / stt : 0;
	for (size_t i = 0; i < t->n_times; i++) {
		left = out->g->live[i] - sy -
		       out->slope * ((double)(t->times[i] - t->times[0]) / 1e9 - st);
		rest += left * left;
	}
	out->error = stt > 0 && n > 2 ? sqrt(rest / (n - 2) / stt) : 0;
}

static int by_slope(const void *a, const void *b)
{
	const struct growth *x = a, *y = b;

	return (x->slope < y->slope) - (x->slope > y->slope);
}

/* Why growth cannot be told; 0 if it can. */
static int refuse(const struct sonde_stack_table *t, const struct sonde_site_group *g, size_t n)
{
	bool has_live = false;

	for (size_t i = 0; i < n; i++)
		has_live |= g[i].has_live;
	if (!n)
		return sonde_stack_table_empty(t, 1u << SONDE_LENS_ALLOC,
					       "--growth needs live bytes by call site: ");
	if (!has_live)
		return sonde_err(
			ENODATA,
			"--growth needs live bytes by call site, which were not followed: in "
			"windows they never are (record with --alloc-mode exact --sites -d TIME), "
			"and not with an allocator whose blocks are not all seen");
	if (t->n_times < READINGS_MIN)
		return sonde_err(
			ENODATA,
			"--growth needs at least %d readings and there are %zu; record for "
			"longer, or with a shorter -i",
			READINGS_MIN, t->n_times);
	return 0;
}

static void print_growth(FILE *out, const struct growth *gr)
{
	fprintf(out, "%9s/s +- %9s/s %11s %10s\n", B(gr->slope), B(1.96 * gr->error),
		B(gr->g->live_bytes), N(gr->g->live_calls));
	sonde_sites_print_stack(out, gr->g->row);
}

static void print_all(FILE *out, const struct sonde_stack_table *t, const struct growth *found,
		      size_t n, size_t of, size_t rows)
{
	double total = 0;

	for (size_t i = 0; i < n; i++)
		total += found[i].slope;
	fprintf(out, "Growth: live bytes of %zu of %zu call sites kept rising over %.0f s", n, of,
		(double)(t->times[t->n_times - 1] - t->times[0]) / 1e9);
	if (!n) {
		fputs("\n", out);
		return;
	}
	fprintf(out, ", by %s/s together\n", B(total));
	fprintf(out, "%25s %11s %10s\n", "slope (95 %)", "live bytes", "blocks");
	for (size_t i = 0; i < n && i < rows; i++)
		print_growth(out, &found[i]);
	if (n > rows)
		fprintf(out, "%zu more; --sites=%zu shows them\n", n - rows, n);
}

int sonde_growth_print(FILE *out, const struct sonde_stack_table *t, size_t rows)
{
	struct sonde_site_group *g = NULL;
	size_t n = 0, n_found = 0;
	struct growth *found = NULL;
	int err = sonde_site_groups(t, SONDE_LENS_ALLOC, true, &g, &n);

	if (err)
		return err;
	err = refuse(t, g, n);
	if (!err) {
		found = calloc(n, sizeof(*found));
		err = found ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < n && !err; i++) {
		if (!keeps_rising(t, &g[i]))
			continue;
		found[n_found].g = &g[i];
		fit(t, &found[n_found]);
		n_found += found[n_found].slope > 0;
	}
	if (!err) {
		qsort(found, n_found, sizeof(*found), by_slope);
		print_all(out, t, found, n_found, n, rows);
	}
	free(found);
	sonde_site_groups_fini(g, n);
	return err;
}
