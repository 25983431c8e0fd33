// SPDX-License-Identifier: GPL-2.0-or-later
/* Building a trial; see trial.h. */
#include <errno.h>
#include <math.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "judge/trial.h"

#define DAY_NS	     (24ull * 3600 * SONDE_NS_PER_SEC)
#define WARMUP_MOST  4 /* a quarter of the period */
#define WARMUP_SLACK 0.1

/* Differences that do not matter to somebody who runs servers, where nobody says otherwise. */
static const double default_margins[][3] = {
	[SONDE_TRIAL_LEVEL] = {[SONDE_TRIAL_MEAN] = 0.03, [SONDE_TRIAL_GROWTH] = 0.005},
	[SONDE_TRIAL_RATIO] = {[SONDE_TRIAL_MEAN] = 0.05},
	[SONDE_TRIAL_HIST] = {[SONDE_TRIAL_MEAN] = 0.02, [SONDE_TRIAL_QUANTILE] = 0.05},
};

uint64_t sonde_trial_window_ns(uint64_t duration_ns)
{
	return (duration_ns >= 2 * DAY_NS ? 600ull : 60ull) * SONDE_NS_PER_SEC;
}

double sonde_trial_default_margin(enum sonde_trial_kind kind, enum sonde_trial_stat stat)
{
	return default_margins[kind][stat];
}

void sonde_trial_init(struct sonde_trial *t, uint64_t start_ns, uint64_t window_ns,
		      size_t n_windows)
{
	*t = (struct sonde_trial){
		.start_ns = start_ns, .window_ns = window_ns, .n_windows = n_windows};
}

static void free_cell(struct sonde_trial_cell *c, enum sonde_trial_kind kind)
{
	if (kind == SONDE_TRIAL_HIST) {
		sonde_windows_fini(&c->hist); /* num and den are its own */
		return;
	}
	free(c->num);
	free(c->den);
}

void sonde_trial_fini(struct sonde_trial *t)
{
	for (size_t i = 0; i < t->n_sources; i++) {
		for (size_t s = 0; s < t->n_servers; s++)
			free_cell(&t->sources[i].cell[s], t->sources[i].kind);
		free(t->sources[i].cell);
	}
	for (size_t i = 0; i < t->n_arms; i++)
		free(t->arms[i].pairs);
	free(t->sources);
	free(t->arms);
	free(t->metrics);
	free(t->servers);
	free(t->seen);
	*t = (struct sonde_trial){0};
}

static void set_name(char *to, const char *name)
{
	snprintf(to, SONDE_TRIAL_NAME, "%s", name);
}

int sonde_trial_add_server(struct sonde_trial *t, const char *name)
{
	uint8_t *seen;

	for (size_t i = 0; i < t->n_servers; i++)
		if (!strcmp(t->servers[i], name))
			return (int)i;
	if (SONDE_GROW(t->servers, t->n_servers, t->cap_servers))
		return -ENOMEM;
	seen = reallocarray(t->seen, t->n_servers + 1, t->n_windows + 1);
	if (!seen)
		return -ENOMEM;
	memset(seen + t->n_servers * t->n_windows, 0, t->n_windows);
	t->seen = seen;
	set_name(t->servers[t->n_servers], name);
	return (int)t->n_servers++;
}

static struct sonde_trial_arm *get_arm(struct sonde_trial *t, const char *name, bool control)
{
	for (size_t i = 0; i < t->n_arms; i++)
		if (!strcmp(t->arms[i].name, name))
			return &t->arms[i];
	if (SONDE_GROW(t->arms, t->n_arms, t->cap_arms))
		return NULL;
	t->arms[t->n_arms] = (struct sonde_trial_arm){.control = control};
	set_name(t->arms[t->n_arms].name, name);
	return &t->arms[t->n_arms++];
}

/* A server that was treated in one pair cannot be the untouched reference, or treated otherwise, in
 * another. One reference may serve several. */
static int check_pair(const struct sonde_trial *t, const char *arm, size_t treated,
		      size_t reference)
{
	if (treated == reference)
		return sonde_err(EINVAL, "arm %s: %s is paired with itself; name its reference",
				 arm, t->servers[treated]);
	for (size_t i = 0; i < t->n_arms; i++) {
		for (size_t k = 0; k < t->arms[i].n_pairs; k++) {
			const struct sonde_trial_pair *p = &t->arms[i].pairs[k];

			if (p->treated == treated || p->reference == treated ||
			    p->treated == reference)
				return sonde_err(
					EINVAL,
					"arm %s: %s is already %s in arm %s; a server is "
					"treated once, and a reference never",
					arm,
					t->servers[p->treated == reference ? reference : treated],
					p->reference == treated ? "a reference" : "treated",
					t->arms[i].name);
		}
	}
	return 0;
}

int sonde_trial_add_pair(struct sonde_trial *t, const char *arm, bool control, size_t treated,
			 size_t reference)
{
	int err = check_pair(t, arm, treated, reference);
	struct sonde_trial_arm *a;

	if (err)
		return err;
	a = get_arm(t, arm, control);
	if (!a)
		return -ENOMEM;
	if (a->control != control)
		return sonde_err(EINVAL, "arm %s is both treated and a control; name them apart",
				 arm);
	if (SONDE_GROW(a->pairs, a->n_pairs, a->cap_pairs))
		return -ENOMEM;
	a->pairs[a->n_pairs++] = (struct sonde_trial_pair){treated, reference};
	return 0;
}

static int init_cell(struct sonde_trial_cell *c, enum sonde_trial_kind kind, size_t n_windows)
{
	int err;

	*c = (struct sonde_trial_cell){0};
	if (kind == SONDE_TRIAL_HIST) {
		err = sonde_windows_init(&c->hist, n_windows);
		c->num = c->hist.sum;
		c->den = c->hist.count;
		return err;
	}
	c->num = calloc(n_windows + 1, sizeof(*c->num));
	c->den = calloc(n_windows + 1, sizeof(*c->den));
	if (c->num && c->den)
		return 0;
	free_cell(c, kind);
	return -ENOMEM;
}

int sonde_trial_add_source(struct sonde_trial *t, const char *name, enum sonde_trial_kind kind)
{
	struct sonde_trial_cell *cell = calloc(t->n_servers + 1, sizeof(*cell));
	size_t s = 0;

	if (!cell || SONDE_GROW(t->sources, t->n_sources, t->cap_sources))
		goto no_memory;
	for (; s < t->n_servers; s++)
		if (init_cell(&cell[s], kind, t->n_windows))
			goto no_memory;
	t->sources[t->n_sources] = (struct sonde_trial_source){.kind = kind, .cell = cell};
	set_name(t->sources[t->n_sources].name, name);
	return (int)t->n_sources++;
no_memory:
	while (s-- > 0)
		free_cell(&cell[s], kind);
	free(cell);
	return -ENOMEM;
}

int sonde_trial_add_metric(struct sonde_trial *t, const struct sonde_trial_metric *metric)
{
	struct sonde_trial_metric *m;

	if (SONDE_GROW(t->metrics, t->n_metrics, t->cap_metrics))
		return -ENOMEM;
	m = &t->metrics[t->n_metrics];
	*m = *metric;
	if (!(m->margin > 0))
		m->margin = sonde_trial_default_margin(t->sources[m->source].kind, m->stat);
	return (int)t->n_metrics++;
}

void sonde_trial_see(struct sonde_trial *t, size_t server, size_t window)
{
	if (window < t->n_windows)
		t->seen[server * t->n_windows + window] = 1;
}

void sonde_trial_put(struct sonde_trial *t, size_t source, size_t server, size_t window, double num,
		     double den)
{
	struct sonde_trial_cell *c = &t->sources[source].cell[server];

	if (window >= t->n_windows)
		return;
	c->num[window] += num;
	c->den[window] += den;
}

struct sonde_windows *sonde_trial_hist(struct sonde_trial *t, size_t source, size_t server)
{
	return &t->sources[source].cell[server].hist;
}

/* ---- warm-up ---- */

static size_t cell_warmup(const struct sonde_trial *t, const struct sonde_trial_cell *c, double *x)
{
	size_t n = 0;

	/* A gap takes the value before it: what is asked for is a place in time. */
	for (size_t w = t->after.from; w < t->after.to; w++) {
		if (!(c->den[w] > 0) && !n)
			continue;
		x[n] = c->den[w] > 0 ? c->num[w] / c->den[w] : x[n - 1];
		n++;
	}
	return sonde_stats_warmup(x, n, WARMUP_SLACK, NULL) + (t->after.to - t->after.from - n);
}

size_t sonde_trial_warmup(const struct sonde_trial *t, bool *settled)
{
	size_t length = t->after.to - t->after.from, most = 0;
	sonde_autofree double *x = calloc(length + 1, sizeof(*x));

	*settled = true;
	for (size_t i = 0; x && i < t->n_metrics; i++) {
		const struct sonde_trial_metric *m = &t->metrics[i];

		if (!m->primary || m->stat != SONDE_TRIAL_MEAN)
			continue;
		for (size_t a = 0; a < t->n_arms; a++) {
			for (size_t k = 0; k < t->arms[a].n_pairs; k++) {
				size_t s = t->arms[a].pairs[k].treated;
				size_t cut = cell_warmup(t, &t->sources[m->source].cell[s], x);

				most = cut > most ? cut : most;
			}
		}
	}
	if (most > length / WARMUP_MOST) {
		*settled = false;
		most = length / WARMUP_MOST;
	}
	return most;
}

/* ---- load ---- */

double sonde_trial_share(const struct sonde_trial *t, const struct sonde_trial_pair *pair,
			 const struct sonde_trial_period *period)
{
	const struct sonde_trial_cell *a, *b;
	double own = 0, all = 0;
	size_t i = 0;

	while (i < t->n_sources && t->sources[i].kind != SONDE_TRIAL_HIST)
		i++;
	if (i == t->n_sources)
		return NAN;
	a = &t->sources[i].cell[pair->treated];
	b = &t->sources[i].cell[pair->reference];
	for (size_t w = period->from; w < period->to; w++) {
		if (!t->seen[pair->treated * t->n_windows + w] ||
		    !t->seen[pair->reference * t->n_windows + w])
			continue;
		own += a->den[w];
		all += a->den[w] + b->den[w];
	}
	return all > 0 ? own / all : NAN;
}
