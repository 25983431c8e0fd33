// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recordings into a trial; see trial_fill.h. A level adds each reading, a counter what it grew by
 * since the reading before; a counter that fell began anew and adds nothing. A window is seen where
 * a tick was.
 */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_figures.h"
#include "judge/trial_fill.h"

int sonde_trial_fill_begin(struct sonde_trial *t)
{
	return sonde_figures_begin(t);
}

int sonde_trial_fill_margin(struct sonde_trial *t, const char *metric, double margin)
{
	int err = -ENOENT;

	for (size_t i = 0; i < t->n_metrics; i++) {
		if (strcmp(t->metrics[i].name, metric))
			continue;
		t->metrics[i].margin = margin;
		err = 0;
	}
	return err;
}

const char *sonde_trial_fill_names(const struct sonde_trial *t, char *buf, size_t size)
{
	size_t at = 0;

	*buf = '\0';
	for (size_t i = 0; i < t->n_metrics && at < size; i++)
		if (!t->metrics[i].detail && !*t->metrics[i].group)
			at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "",
					       t->metrics[i].name);
	return buf;
}

/* ---- one recording ---- */

/* A reader has one descriptor a series, so its address tells series apart. */
struct known {
	const struct sonde_metric_desc *desc;
	struct sonde_figure figure;
	bool has_last;
	double last;
};

struct fill {
	struct sonde_trial *t;
	size_t server;
	struct sonde_clockpair clock;
	struct known *known;
	size_t n_known, cap_known, next; /* series come in the same order each tick */
	size_t latency, ticks;
	int hist_err;
	struct sonde_trial_queries *queries; /* or NULL */
	uint64_t slowest_n;
	bool count_forms; /* by the queries */
};

/* The window that ends with a time or holds it, since what is read then is of the time before it;
 * n_windows: none. */
static size_t window_of(const struct fill *f, uint64_t mono_ns)
{
	uint64_t utc = sonde_clockpair_real(&f->clock, mono_ns) - 1;
	uint64_t at = utc < f->t->start_ns ? UINT64_MAX : (utc - f->t->start_ns) / f->t->window_ns;

	return at < f->t->n_windows ? (size_t)at : f->t->n_windows;
}

/* Counters are of 0 when recording begins: one that appears later has grown from there. */
static int get_known(struct fill *f, const struct sonde_metric *m, struct known **out)
{
	struct known *k;
	int err;

	for (size_t i = 0; i < f->n_known; i++) {
		size_t at = (f->next + i) % f->n_known;

		if (f->known[at].desc != m->desc)
			continue;
		f->next = at + 1;
		*out = &f->known[at];
		return 0;
	}
	if (SONDE_GROW(f->known, f->n_known, f->cap_known))
		return -ENOMEM;
	k = &f->known[f->n_known];
	*k = (struct known){.desc = m->desc, .has_last = f->ticks > 0};
	err = sonde_figure_find(f->t, m, &k->figure);
	if (err)
		return err;
	f->n_known++;
	*out = k;
	return 0;
}

static void put_value(struct fill *f, const struct known *k, size_t window, double num, double den)
{
	for (size_t i = 0; i < k->figure.n; i++)
		sonde_trial_put(f->t, k->figure.source[i], f->server, window, num, den);
}

/* Every amount is divided by the same queries. */
static void put_queries(struct fill *f, size_t window, double grown)
{
	for (size_t i = 0; i < f->t->n_sources; i++)
		if (f->t->sources[i].kind == SONDE_TRIAL_RATIO)
			sonde_trial_put(f->t, i, f->server, window, 0, grown);
}

/* What the kernel summed up of where queries' time went; true where it is that. */
static bool put_part(struct fill *f, const struct sonde_metric *m, struct known *k, size_t window)
{
	double grown = k->has_last && m->value >= k->last ? m->value - k->last : 0;

	if (!f->queries || (m->label && *m->label) ||
	    !sonde_why_put_total(&f->queries->why, f->server, window, m->desc->name, grown))
		return false;
	k->last = m->value;
	k->has_last = true;
	return true;
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct fill *f = ctx;
	size_t window = window_of(f, m->ts_ns);
	struct known *k;
	double grown;
	int err = get_known(f, m, &k);

	if (!err && put_part(f, m, k, window))
		return 0;

	if (!err && f->queries && !strcmp(m->desc->name, "alloc.calls"))
		f->queries->exact[f->server] = true;
	if (err || k->figure.role == SONDE_FIGURE_NONE || m->absent)
		return err;
	if (k->figure.role == SONDE_FIGURE_LEVEL) {
		put_value(f, k, window, m->value, 1);
		return 0;
	}
	grown = k->has_last && m->value >= k->last ? m->value - k->last : 0;
	k->last = m->value;
	k->has_last = true;
	if (k->figure.role == SONDE_FIGURE_DIVISOR)
		put_queries(f, window, grown);
	else
		put_value(f, k, window, grown, 0);
	return 0;
}

/* What was asked, command by command. */
static int count_command(struct fill *f, const struct sonde_histrow *h, size_t window)
{
	int period = sonde_queries_period(f->t, window);

	return period < 0 ? 0
			  : sonde_forms_count_label(&f->queries->commands, f->server, period,
						    h->label, (double)h->hist->count, h->hist->sum);
}

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	struct fill *f = ctx;
	size_t window = window_of(f, h->from_ns + (h->to_ns - h->from_ns) / 2);

	if (window == f->t->n_windows)
		return 0;
	if (f->queries && !strcmp(h->desc->name, SONDE_FORM_HIST))
		return sonde_forms_put_hist(&f->queries->forms, f->t, f->server, window,
					    sonde_queries_form_id(h->label), h->hist);
	if (strcmp(h->desc->name, SONDE_FIGURE_LATENCY))
		return 0;
	if (*h->label)
		return f->queries ? count_command(f, h, window) : 0;
	f->hist_err =
		sonde_windows_add(sonde_trial_hist(f->t, f->latency, f->server), window, h->hist);
	return f->hist_err;
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	struct fill *f = ctx;

	return sonde_queries_put(f->queries, f->t, f->server, window_of(f, s->last_ns),
				 sonde_clockpair_real(&f->clock, s->last_ns), f->slowest_n,
				 f->count_forms, s);
}

static int on_tick(void *ctx, uint64_t ts_ns)
{
	struct fill *f = ctx;

	f->ticks++;
	sonde_trial_see(f->t, f->server, window_of(f, ts_ns));
	return 0;
}

/* Of commands the number is all that is asked; forms only where some are told apart. */
static enum sonde_hist_wanted want_hist(void *ctx, const char *name, const char *label)
{
	const struct fill *f = ctx;

	if (!strcmp(name, SONDE_FIGURE_LATENCY))
		return !*label ? SONDE_HIST_WHOLE : f->queries ? SONDE_HIST_SUMS : SONDE_HIST_SKIP;
	if (strcmp(name, SONDE_FORM_HIST) || !f->queries)
		return SONDE_HIST_SKIP;
	return sonde_forms_has(&f->queries->forms, sonde_queries_form_id(label)) ? SONDE_HIST_WHOLE
										 : SONDE_HIST_SKIP;
}

static int explain(const struct fill *f, const struct sonde_reader *r, int err)
{
	if (f->hist_err == -EINVAL)
		return sonde_err(EINVAL,
				 "%s: %s was recorded twice at the same time; give one of "
				 "the recordings",
				 sonde_reader_path(r), f->t->servers[f->server]);
	return err;
}

int sonde_trial_fill_from(struct sonde_trial *t, size_t server, struct sonde_reader *r,
			  struct sonde_trial_queries *q, const struct sonde_visitor *also)
{
	struct fill f = {.t = t,
			 .server = server,
			 .clock = *sonde_reader_clock(r),
			 .latency = sonde_figure_latency(),
			 .queries = q};
	struct sonde_visitor own = {
		.ctx = &f, .metric = on_metric, .hist = on_hist, .span = on_span, .tick = on_tick};
	struct sonde_fanout both = {.to = {&own, also}, .n = also ? 2 : 1};
	struct sonde_reader_filter filter = {
		.since_ns = t->start_ns,
		/* a tick on the end of the last window belongs to it */
		.until_ns = t->start_ns + t->n_windows * t->window_ns + 1,
		.hists = want_hist,
		.hists_ctx = &f,
	};
	struct sonde_visitor v = sonde_fanout_visitor(&both);
	enum sonde_kept kept;
	bool wants;
	int err;

	f.count_forms = q && !sonde_queries_has_forms(q, r);
	/* Without the queries histograms say all that is compared. */
	wants = q && (f.count_forms || q->why.part);
	kept = q ? sonde_queries_kept(r, &f.slowest_n) : SONDE_KEPT_NONE;
	v.span = wants && kept != SONDE_KEPT_NONE ? v.span : NULL;
	err = sonde_reader_visit(r, &filter, &v);
	free(f.known);
	return err ? explain(&f, r, err) : 0;
}

/* ---- the end ---- */

static bool has_any(const struct sonde_trial *t, size_t source)
{
	for (size_t s = 0; s < t->n_servers; s++)
		for (size_t w = 0; w < t->n_windows; w++)
			if (t->sources[source].cell[s].den[w] > 0 &&
			    t->sources[source].cell[s].num[w] > 0)
				return true;
	return false;
}

/* Rows of all queries first, then those of some. */
static int order_metrics(struct sonde_trial *t)
{
	sonde_autofree struct sonde_trial_metric *kept = calloc(t->n_metrics + 1, sizeof(*kept));
	size_t n = 0;

	if (!kept)
		return -ENOMEM;
	for (int grouped = 0; grouped < 2; grouped++)
		for (size_t i = 0; i < t->n_metrics; i++)
			if ((*t->metrics[i].group != '\0') == (grouped == 1) &&
			    has_any(t, t->metrics[i].source))
				kept[n++] = t->metrics[i];
	memcpy(t->metrics, kept, n * sizeof(*kept));
	t->n_metrics = n;
	return 0;
}

int sonde_trial_fill_end(struct sonde_trial *t)
{
	int err = 0;

	for (size_t i = 0; i < t->n_sources; i++)
		for (size_t s = 0; s < t->n_servers && !err; s++)
			if (t->sources[i].kind == SONDE_TRIAL_HIST)
				err = sonde_windows_seal(sonde_trial_hist(t, i, s));
	return err ? err : order_metrics(t);
}
