// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries one by one; see trial_queries.h. */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "core/num.h"
#include "judge/trial_queries.h"

#define HOUR_NS (3600 * SONDE_NS_PER_SEC)

enum sonde_kept sonde_queries_kept(const struct sonde_reader *r, uint64_t *slowest_n)
{
	const struct sonde_meta *meta = sonde_reader_meta(r);
	const char *mode = sonde_meta_find(meta, "recording.spans");
	const char *seen = sonde_meta_find(meta, "recording.spans_seen");
	const char *stored = sonde_meta_find(meta, "recording.spans_stored");
	const char *filter = sonde_meta_find(meta, "recording.slower_than_ns");
	unsigned long n;

	*slowest_n = 0;
	if (!mode || (filter && strcmp(filter, "0")))
		return SONDE_KEPT_NONE;
	if (!strcmp(mode, "all"))
		return seen && stored && !strcmp(seen, stored) ? SONDE_KEPT_ALL : SONDE_KEPT_NONE;
	if (sscanf(mode, "slowest=%lu", &n) != 1)
		return SONDE_KEPT_NONE;
	*slowest_n = n;
	return SONDE_KEPT_SLOWEST;
}

int sonde_queries_init(struct sonde_trial_queries *q, const struct sonde_trial *t, bool why)
{
	*q = (struct sonde_trial_queries){0};
	sonde_forms_init(&q->forms, t->n_servers);
	sonde_forms_init(&q->commands, t->n_servers);
	q->last = calloc(t->n_servers + 1, sizeof(*q->last));
	q->hour = calloc(t->n_servers + 1, sizeof(*q->hour));
	q->exact = calloc(t->n_servers + 1, sizeof(*q->exact));
	if (q->exact && q->last && q->hour && (!why || !sonde_why_init(&q->why, t)))
		return 0;
	sonde_queries_fini(q);
	return -ENOMEM;
}

void sonde_queries_fini(struct sonde_trial_queries *q)
{
	sonde_forms_fini(&q->forms);
	sonde_forms_fini(&q->commands);
	sonde_why_fini(&q->why);
	free(q->last);
	free(q->hour);
	free(q->exact);
	free(q->with_forms);
	*q = (struct sonde_trial_queries){0};
}

int sonde_queries_period(const struct sonde_trial *t, size_t window)
{
	if (window >= t->before.from && window < t->before.to)
		return 0;
	return window >= t->after.from && window < t->after.to ? 1 : -1;
}

/* ---- first reading ---- */

struct counting {
	struct sonde_trial_queries *q;
	const struct sonde_trial *t;
	size_t server;
	const struct sonde_reader *r;
	bool has_forms;
};

static size_t window_at(const struct sonde_trial *t, uint64_t utc_ns)
{
	uint64_t at =
		utc_ns <= t->start_ns ? UINT64_MAX : (utc_ns - 1 - t->start_ns) / t->window_ns;

	return at < t->n_windows ? (size_t)at : t->n_windows;
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	struct counting *c = ctx;
	int period;

	if (!s->last_ns)
		return 0;
	period = sonde_queries_period(
		c->t, window_at(c->t, sonde_clockpair_real(sonde_reader_clock(c->r), s->last_ns)));
	return period < 0 ? 0 : sonde_forms_count(&c->q->forms, c->server, period, s);
}

uint64_t sonde_queries_form_id(const char *label)
{
	uint64_t id;

	return sonde_parse_u64(label, &id) ? SONDE_FORMS_OTHER : id;
}

static int on_form(void *ctx, const struct sonde_histrow *h)
{
	struct counting *c = ctx;
	uint64_t middle = h->from_ns + (h->to_ns - h->from_ns) / 2;
	size_t window = window_at(c->t, sonde_clockpair_real(sonde_reader_clock(c->r), middle));
	uint64_t id = sonde_queries_form_id(h->label);
	int period = sonde_queries_period(c->t, window);
	char text[512] = "other forms";

	c->has_forms = true;
	if (period < 0)
		return 0;
	if (id != SONDE_FORMS_OTHER && !*sonde_reader_fingerprint(c->r, id, text, sizeof(text)))
		snprintf(text, sizeof(text), "(no text)");
	return sonde_forms_count_id(&c->q->forms, c->server, period, id, text,
				    (double)h->hist->count, h->hist->sum);
}

bool sonde_queries_has_forms(const struct sonde_trial_queries *q, const struct sonde_reader *r)
{
	for (size_t i = 0; i < q->n_with_forms; i++)
		if (q->with_forms[i] == r)
			return true;
	return false;
}

static void say(char *why, size_t size, const struct sonde_reader *r, enum sonde_kept kept,
		const char *remedy)
{
	if (!*why)
		snprintf(why, size, "%s keeps %s queries; %s", sonde_reader_path(r),
			 kept == SONDE_KEPT_NONE ? "none or not all of its" : "only the slowest",
			 remedy);
}

static enum sonde_hist_wanted want_forms(void *ctx, const char *name, const char *label)
{
	(void)ctx;
	(void)label;
	return strcmp(name, SONDE_FORM_HIST) ? SONDE_HIST_SKIP : SONDE_HIST_SUMS;
}

static int count_forms(struct counting *c, struct sonde_reader *r, enum sonde_kept kept)
{
	struct sonde_trial_queries *q = c->q;
	struct sonde_visitor by_form = {.ctx = c, .hist = on_form};
	struct sonde_visitor by_query = {.ctx = c, .span = on_span};
	struct sonde_reader_filter filter = {
		.since_ns = c->t->start_ns,
		.until_ns = c->t->start_ns + c->t->n_windows * c->t->window_ns + 1,
		.hists = want_forms,
	};
	int err = sonde_reader_visit(r, &filter, &by_form);

	if (err || c->has_forms) {
		if (!err)
			err = SONDE_GROW(q->with_forms, q->n_with_forms, q->cap_with_forms);
		if (!err)
			q->with_forms[q->n_with_forms++] = r;
		return err;
	}
	if (kept == SONDE_KEPT_ALL)
		return sonde_reader_visit(r, &filter, &by_query);
	say(q->no_forms, sizeof(q->no_forms), r, kept, "record with the lens query");
	return 0;
}

int sonde_queries_count(struct sonde_trial_queries *q, const struct sonde_trial *t, size_t server,
			struct sonde_reader *r)
{
	struct counting c = {q, t, server, r, false};
	uint64_t slowest;
	enum sonde_kept kept = sonde_queries_kept(r, &slowest);

	if (kept == SONDE_KEPT_NONE)
		say(q->no_tail, sizeof(q->no_tail), r, kept,
		    "--spans slowest=1000/h keeps what the tail needs");
	if (kept != SONDE_KEPT_ALL)
		say(q->no_mean, sizeof(q->no_mean), r, kept,
		    "record with --anatomy, or --spans all");
	return count_forms(&c, r, kept);
}

int sonde_queries_choose(struct sonde_trial_queries *q, struct sonde_trial *t, size_t most)
{
	if (*q->no_forms || !most)
		return 0;
	if (!q->forms.n) {
		snprintf(q->no_forms, sizeof(q->no_forms), "the recordings have no queries");
		return 0;
	}
	return sonde_forms_choose(&q->forms, t, most);
}

/* ---- second reading ---- */

/* Of an hour that is full, queries faster than its fastest are missing. */
static void count_hour(struct sonde_trial_queries *q, size_t server, int period, uint64_t utc_ns,
		       uint64_t slowest_n, uint64_t ns)
{
	struct sonde_queries_hour *h = &q->hour[server];

	if (utc_ns / HOUR_NS != h->hour)
		*h = (struct sonde_queries_hour){.hour = utc_ns / HOUR_NS, .least_ns = UINT64_MAX};
	h->n++;
	h->least_ns = ns < h->least_ns ? ns : h->least_ns;
	if (h->n >= slowest_n)
		sonde_why_hour(&q->why, server, period, h->least_ns);
}

int sonde_queries_put(struct sonde_trial_queries *q, struct sonde_trial *t, size_t server,
		      size_t window, uint64_t utc_ns, uint64_t slowest_n, bool forms,
		      const struct sonde_span *s)
{
	int period, err = 0;

	if (!sonde_forms_counts(s))
		return 0;
	/* Queries come in the order that they were told of, which is nearly that of their ends. */
	if (window < q->last[server])
		window = q->last[server];
	period = sonde_queries_period(t, window);
	if (window >= t->n_windows || period < 0)
		return 0;
	q->last[server] = window;
	if (forms && !*q->no_forms)
		err = sonde_forms_put(&q->forms, t, server, window, s);
	if (slowest_n)
		count_hour(q, server, period, utc_ns, slowest_n, sonde_span_duration_ns(s));
	sonde_why_put(&q->why, server, period, window, s);
	return err;
}
