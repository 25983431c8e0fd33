// SPDX-License-Identifier: GPL-2.0-or-later
/* What differs besides the treatment; see trial_audit.h. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_audit_impl.h"
#include "judge/trial_figures.h"

#define MIX_DIFFERS  0.05 /* of the queries of a pair */
#define SEEN_DIFFERS 0.01 /* of the time */
#define FORMS_KNOWN  0.95

int audit_say(struct audit *a, const char *fmt, ...)
{
	struct sonde_audit *o = a->out;
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sonde_lines_vaddf(&o->lines, &o->n_lines, &o->cap_lines, fmt, ap);
	va_end(ap);
	return err;
}

int audit_caution(struct audit *a, const char *fmt, ...)
{
	struct sonde_audit *o = a->out;
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sonde_lines_vaddf(&o->cautions, &o->n_cautions, &o->cap_cautions, fmt, ap);
	va_end(ap);
	return err;
}

int audit_refuse(struct audit *a, const char *fmt, ...)
{
	struct sonde_audit *o = a->out;
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sonde_lines_vaddf(&o->refused, &o->n_refused, &o->cap_refused, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- what was asked, and how it was observed ---- */

static const char *when_of(int period)
{
	return period ? "after the change" : "before the change";
}

static int check_mix(struct audit *a, const struct sonde_trial_pair *p)
{
	const struct sonde_forms *forms = a->q->forms.n ? &a->q->forms : &a->q->commands;
	int err = 0;

	for (int period = 0; period < 2 && !err; period++) {
		double off = sonde_forms_apart(forms, p->treated, p->reference, period);

		if (off > MIX_DIFFERS)
			err = audit_caution(
				a,
				"%s and %s were not asked the same %s: %.0f %% of the queries "
				"would have to be others",
				a->t->servers[p->treated], a->t->servers[p->reference],
				when_of(period), 100 * off);
	}
	return err;
}

static double seen_share(const struct sonde_trial *t, size_t server,
			 const struct sonde_trial_period *p)
{
	size_t n = 0;

	for (size_t w = p->from; w < p->to; w++)
		n += t->seen[server * t->n_windows + w];
	return p->to > p->from ? (double)n / (double)(p->to - p->from) : NAN;
}

static int check_seen(struct audit *a, const struct sonde_trial_pair *p)
{
	const struct sonde_trial_period *periods[] = {&a->t->before, &a->t->after};
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		double x = seen_share(a->t, p->treated, periods[i]);
		double y = seen_share(a->t, p->reference, periods[i]);

		if (fabs(x - y) > SEEN_DIFFERS)
			err = audit_caution(a, "%s was recorded %.1f %% of the time %s, %s %.1f %%",
					    a->t->servers[p->treated], 100 * x, when_of(i),
					    a->t->servers[p->reference], 100 * y);
	}
	return err;
}

/* "query, fault, stall; 2 probes in it": the lenses of a recording's plan. Empty: not known. */
static int describe_plan(const struct sonde_meta *meta, struct sonde_str *out)
{
	const char *text = meta ? sonde_meta_find(meta, "plan") : NULL;
	json_t *plan = text ? json_loads(text, 0, NULL) : NULL, *item;
	bool told[SONDE_LENS__MAX] = {0};
	size_t i, probes = 0;
	int err = 0;

	json_array_foreach(json_object_get(plan, "items"), i, item)
	{
		json_int_t lens = json_integer_value(json_object_get(item, "lens"));

		if (!json_is_string(json_object_get(item, "link")) || lens < 0 ||
		    lens >= SONDE_LENS__MAX)
			continue;
		probes += json_array_size(json_object_get(item, "sites"));
		told[lens] = true;
	}
	json_decref(plan);
	for (unsigned int l = 0; l < SONDE_LENS__MAX && !err && text; l++)
		if (told[l])
			err = sonde_str_addf(out, "%s%s", out->len ? ", " : "",
					     sonde_lens_id_name(l));
	return err || !text ? err : sonde_str_addf(out, "; %zu probes in its code", probes);
}

static int check_probes(struct audit *a, const struct sonde_trial_pair *p)
{
	sonde_autostr struct sonde_str x = {0}, y = {0};
	int err = describe_plan(a->last[p->treated].facts.meta, &x);

	err = err ? err : describe_plan(a->last[p->reference].facts.meta, &y);
	if (err || !x.len || !y.len || !strcmp(x.s, y.s))
		return err;
	return audit_caution(a, "%s and %s were not observed alike: %s against %s",
			     a->t->servers[p->treated], a->t->servers[p->reference], x.s, y.s);
}

/* ---- what cannot be compared ---- */

static int check_daemon(struct audit *a, const struct sonde_trial_pair *p)
{
	const char *x, *y;

	if (!a->n[p->treated] || !a->n[p->reference])
		return 0;
	x = sonde_settings_target(&a->last[p->treated].facts, "comm");
	y = sonde_settings_target(&a->last[p->reference].facts, "comm");
	if (!x || !y || !strcmp(x, y))
		return 0;
	return sonde_err(EINVAL,
			 "%s is recorded of %s and its reference %s of %s: two programs are no "
			 "pair; give recordings of the same",
			 a->t->servers[p->treated], SONDE_PLAIN(x), a->t->servers[p->reference],
			 SONDE_PLAIN(y));
}

static void drop_times(struct sonde_trial *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n_metrics; i++)
		if (!t->metrics[i].unit || strcmp(t->metrics[i].unit, "ns"))
			t->metrics[kept++] = t->metrics[i];
	t->n_metrics = kept;
}

static int check_exact(struct audit *a, const struct sonde_trial_pair *p)
{
	bool x = a->q->exact[p->treated], y = a->q->exact[p->reference];

	if (x == y)
		return 0;
	drop_times(a->t);
	return audit_refuse(
		a,
		"latency and all other times: of %s and %s only %s had every allocation "
		"counted (--alloc-mode exact), which slows it many times",
		a->t->servers[p->treated], a->t->servers[p->reference],
		a->t->servers[x ? p->treated : p->reference]);
}

/* A form is only as good as the share of the queries that was told apart by it. */
static int check_forms(struct audit *a, size_t server)
{
	const struct sonde_trial *t = a->t;
	const struct sonde_trial_cell *all = &t->sources[sonde_figure_latency()].cell[server];
	const struct sonde_forms *f = &a->q->forms;
	double known[2] = {0, 0}, n[2] = {0, 0};
	int err = 0;

	for (size_t i = 0; i < f->n; i++)
		for (int p = 0; p < 2; p++)
			known[p] += f->form[i].count[server * 2 + (size_t)p];
	for (size_t w = 0; w < t->n_windows; w++)
		if (sonde_queries_period(t, w) >= 0)
			n[sonde_queries_period(t, w)] += all->den[w];
	for (int p = 0; p < 2 && f->n && !err; p++)
		if (n[p] > 0 && known[p] < FORMS_KNOWN * n[p])
			err = audit_caution(a,
					    "of %.0f %% of the queries of %s %s the form is not "
					    "known: rows by form and cost are of the others",
					    100 * (1 - known[p] / n[p]), t->servers[server],
					    when_of(p));
	return err;
}

static int check_pairs(struct audit *a)
{
	static int (*const checks[])(struct audit *, const struct sonde_trial_pair *) = {
		check_daemon, check_exact, check_mix, check_seen, check_probes};
	const struct sonde_trial *t = a->t;
	int err = 0;

	for (size_t i = 0; i < t->n_arms; i++)
		for (size_t k = 0; k < t->arms[i].n_pairs; k++)
			for (size_t c = 0; c < SONDE_ARRAY_SIZE(checks) && !err; c++)
				err = checks[c](a, &t->arms[i].pairs[k]);
	return err;
}

/* ---- pairs against pairs ---- */

/* One of each pair: what the two of a pair do not share is told with the pair. */
static int check_alike(struct audit *a)
{
	static const char *const keys[] = {"host.cpu_model", "host.cpus", "host.memory",
					   "kernel.release"};
	const struct sonde_trial *t = a->t;
	const char *first, *other;
	int err = 0;

	for (size_t k = 0; k < SONDE_ARRAY_SIZE(keys); k++) {
		size_t of = t->arms[0].pairs[0].reference;

		first = a->n[of] ? sonde_meta_find(a->last[of].facts.meta, keys[k]) : NULL;
		for (size_t i = 1; i < t->n_arms && first && !err; i++) {
			size_t s = t->arms[i].pairs[0].reference;

			other = a->n[s] ? sonde_meta_find(a->last[s].facts.meta, keys[k]) : NULL;
			if (other && strcmp(first, other))
				err = audit_caution(
					a, "pairs %s and %s are not alike: %s is %s and %s",
					t->arms[0].name, t->arms[i].name, keys[k], first, other);
		}
	}
	return err;
}

/* ---- all of it ---- */

int sonde_audit_make(struct sonde_trial *t, const struct sonde_audit_server *servers,
		     const struct sonde_trial_queries *q, struct sonde_audit *out)
{
	struct sonde_audit result = {0};
	struct audit a = {.t = t, .servers = servers, .q = q, .out = &result};
	int err = audit_find_processes(&a);

	for (size_t s = 0; s < t->n_servers && !err; s++)
		err = audit_check_changes(&a, s);
	for (size_t s = 0; s < t->n_servers && !err; s++)
		err = audit_check_restart(&a, s);
	err = err ? err : audit_check_ages(&a);
	err = err ? err : check_pairs(&a);
	err = err ? err : check_alike(&a);
	for (size_t s = 0; s < t->n_servers && !err; s++)
		err = check_forms(&a, s);
	free(a.first);
	free(a.last);
	free(a.n);
	if (err)
		sonde_audit_fini(&result);
	else
		*out = result;
	return err;
}

static void free_lines(char **lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(lines[i]);
	free(lines);
}

void sonde_audit_fini(struct sonde_audit *a)
{
	free_lines(a->lines, a->n_lines);
	free_lines(a->cautions, a->n_cautions);
	free_lines(a->refused, a->n_refused);
	free(a->changes);
	*a = (struct sonde_audit){0};
}

bool sonde_audit_knows_changes(const struct sonde_audit *a, size_t server)
{
	for (size_t i = 0; i < a->n_changes; i++)
		if (a->changes[i].server == server)
			return true;
	return false;
}

bool sonde_audit_is_change(const struct sonde_audit *a, size_t server, const char *what)
{
	for (size_t i = 0; i < a->n_changes; i++)
		if (a->changes[i].server == server && !strcmp(a->changes[i].what, what))
			return true;
	return false;
}
