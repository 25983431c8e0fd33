// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries by form and by cost; see trial_forms.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "core/hash.h"
#include "core/mem.h"
#include "judge/trial_figures.h"
#include "judge/trial_forms.h"

#define MAX_FORMS 20000 /* beyond: they count as one, "other forms" */

/* Classes by share of the queries, the costliest first. */
static const struct {
	double upto;
	const char *name;
} classes[SONDE_CLASSES] = {{0.05, "the heaviest"}, {0.5, "the middle"}, {1, "the lightest"}};

void sonde_forms_init(struct sonde_forms *f, size_t n_servers)
{
	*f = (struct sonde_forms){.n_servers = n_servers};
	for (int c = 0; c < SONDE_CLASSES; c++)
		f->class_source[c] = -1;
}

void sonde_forms_fini(struct sonde_forms *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->form[i].text);
		free(f->form[i].count);
	}
	free(f->form);
	free(f->slots);
	*f = (struct sonde_forms){0};
}

bool sonde_forms_counts(const struct sonde_span *s)
{
	return s->last_ns && s->status <= SONDE_SPAN_RETRY && !(s->flags & SONDE_SPAN_F_DISTURBED);
}

/* ---- a table by id ---- */

static size_t slot_of(const struct sonde_forms *f, uint64_t id)
{
	size_t at = id & (f->n_slots - 1);

	while (f->slots[at] && f->form[f->slots[at] - 1].id != id)
		at = (at + 1) & (f->n_slots - 1);
	return at;
}

static int grow_slots(struct sonde_forms *f)
{
	size_t n = f->n_slots ? f->n_slots * 2 : 1024;
	uint32_t *slots;

	if (f->n * 2 < f->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(f->slots);
	f->slots = slots;
	f->n_slots = n;
	for (size_t i = 0; i < f->n; i++)
		f->slots[slot_of(f, f->form[i].id)] = (uint32_t)i + 1;
	return 0;
}

static const struct sonde_form *find(const struct sonde_forms *f, uint64_t id)
{
	size_t at;

	if (!f->n_slots)
		return NULL;
	at = slot_of(f, id);
	if (!f->slots[at])
		at = slot_of(f, SONDE_FORMS_OTHER);
	return f->slots[at] ? &f->form[f->slots[at] - 1] : NULL;
}

static int get(struct sonde_forms *f, uint64_t id, const char *text, struct sonde_form **out)
{
	struct sonde_form form = {.id = id, .class = -1, .own = -1};
	size_t at;
	int err = grow_slots(f);

	if (err)
		return err;
	at = slot_of(f, id);
	if (!f->slots[at] && f->n >= MAX_FORMS && id != SONDE_FORMS_OTHER)
		return get(f, SONDE_FORMS_OTHER, "other forms", out);
	if (!f->slots[at]) {
		form.text = strdup(text);
		form.count = calloc(f->n_servers * 2 + 1, sizeof(*form.count));
		if (!form.text || !form.count || SONDE_GROW(f->form, f->n, f->cap)) {
			free(form.text);
			free(form.count);
			return -ENOMEM;
		}
		f->form[f->n++] = form;
		f->slots[at] = (uint32_t)f->n;
	}
	*out = &f->form[f->slots[at] - 1];
	return 0;
}

int sonde_forms_count_id(struct sonde_forms *f, size_t server, int period, uint64_t id,
			 const char *text, double n, double sum)
{
	struct sonde_form *form;
	int err = get(f, id, text, &form);

	if (err)
		return err;
	form->count[server * 2 + (size_t)period] += n;
	form->n[period] += n;
	form->sum[period] += sum;
	return 0;
}

int sonde_forms_count(struct sonde_forms *f, size_t server, int period, const struct sonde_span *s)
{
	const char *text = *s->fingerprint ? s->fingerprint : s->command;

	if (!sonde_forms_counts(s))
		return 0;
	return sonde_forms_count_id(f, server, period, s->fingerprint_id,
				    text && *text ? text : "(no text)", 1,
				    (double)sonde_span_duration_ns(s));
}

int sonde_forms_count_label(struct sonde_forms *f, size_t server, int period, const char *label,
			    double n, double sum)
{
	uint64_t id = sonde_fnv1a(SONDE_FNV1A_BASIS, label, strlen(label));

	return sonde_forms_count_id(f, server, period, id, label, n, sum);
}

/* ---- classes ---- */

static double cost(const struct sonde_form *form)
{
	return form->n[0] > 0 ? form->sum[0] / form->n[0] : 0;
}

static int by_cost(const void *a, const void *b)
{
	double x = cost(*(struct sonde_form *const *)a), y = cost(*(struct sonde_form *const *)b);

	return x > y ? -1 : x < y;
}

static int by_time(const void *a, const void *b)
{
	const struct sonde_form *x = *(struct sonde_form *const *)a;
	const struct sonde_form *y = *(struct sonde_form *const *)b;
	double s = x->sum[0] + x->sum[1], t = y->sum[0] + y->sum[1];

	return s > t ? -1 : s < t;
}

/* A form lies whole in the class that holds its middle; the costliest one is heavy, however many
 * there are of it. */
static void set_classes(struct sonde_forms *f, struct sonde_form **order)
{
	double all = 0, upto = 0;

	for (size_t i = 0; i < f->n; i++)
		all += order[i]->n[0];
	for (size_t i = 0; i < f->n && all > 0; i++) {
		double middle = (upto + order[i]->n[0] / 2) / all;
		int c = 0;

		if (!(order[i]->n[0] > 0))
			continue;
		while (upto > 0 && c < SONDE_CLASSES - 1 && middle > classes[c].upto)
			c++;
		upto += order[i]->n[0];
		order[i]->class = c;
		f->class_share[c] += order[i]->n[0] / all;
		f->class_forms[c]++;
	}
}

static int add_source(struct sonde_trial *t, const char *name, const char *group, int *out)
{
	int source = sonde_trial_add_source(t, name, SONDE_TRIAL_HIST), err;

	if (source < 0)
		return source;
	err = sonde_figures_add_latency(t, (size_t)source, group);
	if (!err)
		*out = source;
	return err;
}

/* One class of everything is what the rows of all queries say. */
static int add_classes(struct sonde_forms *f, struct sonde_trial *t)
{
	size_t used = 0;
	int err = 0;

	for (int c = 0; c < SONDE_CLASSES; c++)
		used += f->class_forms[c] > 0;
	for (int c = 0; c < SONDE_CLASSES && used > 1 && !err; c++) {
		char group[SONDE_TRIAL_GROUP];

		if (!f->class_forms[c])
			continue;
		snprintf(group, sizeof(group),
			 "%s %.0f %% of queries before the change (%zu form%s)", classes[c].name,
			 100 * f->class_share[c], f->class_forms[c],
			 f->class_forms[c] == 1 ? "" : "s");
		err = add_source(t, classes[c].name, group, &f->class_source[c]);
	}
	return err;
}

int sonde_forms_choose(struct sonde_forms *f, struct sonde_trial *t, size_t most)
{
	sonde_autofree struct sonde_form **order = calloc(f->n + 1, sizeof(*order));
	int err = order ? 0 : -ENOMEM;

	for (size_t i = 0; order && i < f->n; i++)
		order[i] = &f->form[i];
	if (!err && most) {
		qsort(order, f->n, sizeof(*order), by_cost);
		set_classes(f, order);
		err = add_classes(f, t);
		qsort(order, f->n, sizeof(*order), by_time);
	}
	/* Of a single form everything is known already. */
	for (size_t i = 0; i < most && i < f->n && f->n > 1 && !err; i++) {
		char name[SONDE_TRIAL_NAME];

		snprintf(name, sizeof(name), "%016llx", (unsigned long long)order[i]->id);
		err = add_source(t, name, order[i]->text, &order[i]->own);
	}
	return err;
}

/* The sources that a form's latencies go into. Returns how many. */
static size_t sources_of(const struct sonde_forms *f, uint64_t id, size_t source[2])
{
	const struct sonde_form *form = find(f, id);
	size_t n = 0;

	if (form && form->own >= 0)
		source[n++] = (size_t)form->own;
	if (form && form->class >= 0 && f->class_source[form->class] >= 0)
		source[n++] = (size_t)f->class_source[form->class];
	return n;
}

bool sonde_forms_has(const struct sonde_forms *f, uint64_t id)
{
	size_t source[2];

	return sources_of(f, id, source) > 0;
}

int sonde_forms_put(const struct sonde_forms *f, struct sonde_trial *t, size_t server,
		    size_t window, const struct sonde_span *s)
{
	size_t source[2], n = sources_of(f, s->fingerprint_id, source);
	int err = 0;

	for (size_t i = 0; i < n && !err && sonde_forms_counts(s); i++)
		err = sonde_windows_add_value(sonde_trial_hist(t, source[i], server), window,
					      sonde_span_duration_ns(s));
	return err;
}

int sonde_forms_put_hist(const struct sonde_forms *f, struct sonde_trial *t, size_t server,
			 size_t window, uint64_t id, const struct sonde_hist *h)
{
	size_t source[2], n = sources_of(f, id, source);
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = sonde_windows_add(sonde_trial_hist(t, source[i], server), window, h);
	return err;
}

double sonde_forms_apart(const struct sonde_forms *f, size_t a, size_t b, int period)
{
	size_t x = a * 2 + (size_t)period, y = b * 2 + (size_t)period;
	double n = 0, m = 0, apart = 0;

	for (size_t i = 0; i < f->n; i++) {
		n += f->form[i].count[x];
		m += f->form[i].count[y];
	}
	for (size_t i = 0; i < f->n && n > 0 && m > 0; i++)
		apart += fabs(f->form[i].count[x] / n - f->form[i].count[y] / m) / 2;
	return n > 0 && m > 0 ? apart : NAN;
}
