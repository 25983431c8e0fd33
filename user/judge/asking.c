// SPDX-License-Identifier: GPL-2.0-or-later
/* Who asks the allocator for statistics; see asking.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "judge/asking.h"

#define ARROW " < " /* between function and caller in the labels of the lens */

/* Of all targets. */
static double total(const struct sonde_snapshot *s, const char *name, const char *label)
{
	double sum = NAN;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (!m->present || strcmp(m->desc->name, name) ||
		    (label && strcmp(m->label, label)))
			continue;
		sum = isnan(sum) ? m->last : sum + m->last;
	}
	return sum;
}

static double or_zero(double v)
{
	return isnan(v) ? 0 : v;
}

static double share_of(double cpu_ns, double target_ns)
{
	return target_ns > 0 ? fmin(or_zero(cpu_ns) / target_ns, 1) : 0;
}

/* Was this series told by an earlier target already? */
static bool is_again(const struct sonde_snapshot *s, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (!strcmp(s->metrics[i].desc->name, s->metrics[at].desc->name) &&
		    !strcmp(s->metrics[i].label, s->metrics[at].label))
			return true;
	return false;
}

/* Put @f where it belongs in the order of shares, then of calls. */
static void insert_func(struct sonde_asking *a, const struct sonde_asking_func *f)
{
	size_t at = a->n;

	while (at && (a->func[at - 1].share < f->share ||
		      (a->func[at - 1].share == f->share && a->func[at - 1].calls < f->calls)))
		at--;
	if (at >= SONDE_ASKING_FUNCS)
		return;
	a->n += a->n < SONDE_ASKING_FUNCS;
	memmove(&a->func[at + 1], &a->func[at], (a->n - 1 - at) * sizeof(*f));
	a->func[at] = *f;
}

static void insert_caller(struct sonde_asking_func *f, const struct sonde_asking_caller *c)
{
	size_t at = f->n_callers;

	while (at && (f->caller[at - 1].share < c->share ||
		      (f->caller[at - 1].share == c->share && f->caller[at - 1].calls < c->calls)))
		at--;
	if (at >= SONDE_ASKING_CALLERS)
		return;
	f->n_callers += f->n_callers < SONDE_ASKING_CALLERS;
	memmove(&f->caller[at + 1], &f->caller[at], (f->n_callers - 1 - at) * sizeof(*c));
	f->caller[at] = *c;
}

static void find_callers(const struct sonde_snapshot *s, struct sonde_asking_func *f,
			 double target_ns)
{
	size_t n = strlen(f->name);

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];
		struct sonde_asking_caller c;

		if (strcmp(m->desc->name, "ask.caller_calls") || !m->present ||
		    strncmp(m->label, f->name, n) || strncmp(m->label + n, ARROW, strlen(ARROW)) ||
		    is_again(s, i))
			continue;
		c.name = m->label + n + strlen(ARROW);
		c.calls = total(s, "ask.caller_calls", m->label);
		c.share = share_of(total(s, "ask.caller_cpu", m->label), target_ns);
		insert_caller(f, &c);
	}
}

bool sonde_asking_of(const struct sonde_snapshot *s, struct sonde_asking *out)
{
	double target_ns = total(s, "ask.target_cpu", NULL), share = total(s, "ask.cpu_share", "");

	*out = (struct sonde_asking){.share = share, .cpus = total(s, "ask.cpus", "")};
	if (isnan(share))
		return false;
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];
		struct sonde_asking_func f = {.name = m->label};
		double time;

		if (strcmp(m->desc->name, "ask.calls") || !m->present || m->last <= 0 ||
		    is_again(s, i))
			continue;
		f.calls = total(s, "ask.calls", m->label);
		f.rate = total(s, "ask.rate", m->label);
		f.share = share_of(total(s, "ask.cpu", m->label), target_ns);
		time = total(s, "ask.time", m->label);
		f.each_ns = isnan(time) ? NAN : time / f.calls;
		find_callers(s, &f, target_ns);
		out->calls += f.calls;
		insert_func(out, &f);
	}
	return true;
}

bool sonde_asking_matters(const struct sonde_asking *a)
{
	return a->share >= SONDE_ASKING_MATTERS && (isnan(a->cpus) || a->cpus >= SONDE_ASKING_CPUS);
}

void sonde_asking_share(const struct sonde_asking *a, char *buf, size_t size)
{
	double cpus = 100 * a->cpus;
	size_t used = (size_t)snprintf(buf, size, "%.*f %% of the target's CPU",
				       a->share >= 0.1 ? 0 : 2, 100 * a->share);

	if (isnan(cpus) || used >= size)
		return;
	if (cpus < 0.01)
		snprintf(buf + used, size - used, " (under 0.01 %% of a CPU)");
	else
		snprintf(buf + used, size - used, " (%.*f %% of a CPU)",
			 cpus >= 10  ? 0
			 : cpus >= 1 ? 1
				     : 2,
			 cpus);
}

static size_t add_func_text(char *buf, size_t size, const struct sonde_asking_func *f)
{
	size_t used = (size_t)snprintf(buf, size, "%s %.0f %%", f->name, 100 * f->share);
	const char *sep = " (";

	if (!isnan(f->rate) && used < size) {
		used += (size_t)snprintf(
			buf + used, size - used, "%s%s calls a second", sep,
			sonde_fmt_count((char[32]){0}, 32, (uint64_t)(f->rate + 0.5)));
		sep = " of ";
	}
	if (!isnan(f->each_ns) && used < size)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", sep,
					 sonde_fmt_ns((char[32]){0}, 32, f->each_ns));
	if (used < size && (!isnan(f->rate) || !isnan(f->each_ns)))
		used += (size_t)snprintf(buf + used, size - used, ")");
	for (size_t i = 0; i < f->n_callers && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s %.0f %%",
					 i ? ", " : ", called from ", f->caller[i].name,
					 100 * f->caller[i].share);
	return used;
}

void sonde_asking_text(const struct sonde_asking *a, char *buf, size_t size)
{
	char share[96];
	size_t used;

	sonde_asking_share(a, share, sizeof(share));
	used = (size_t)snprintf(buf, size, "asking the allocator for statistics takes %s: ", share);

	for (size_t i = 0; i < a->n && used < size; i++) {
		if (i && a->func[i].share < SONDE_ASKING_MATTERS)
			break;
		if (i)
			used += (size_t)snprintf(buf + used, size - used, "; ");
		if (used < size)
			used += add_func_text(buf + used, size - used, &a->func[i]);
	}
}
