// SPDX-License-Identifier: GPL-2.0-or-later
/* A server's processes: in what they were changed, and when they began; see trial_audit.h. */
#include <errno.h>
#include <time.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/trial_audit_impl.h"

#define HOUR_NS	      (3600 * SONDE_NS_PER_SEC)
#define AGE_DIFFERS   0.05 /* of the time after the change */
#define MAX_PROCESSES 64   /* of one server, one after the other */
#define RESTARTED     "restarted: pid "

enum role { ROLE_NONE, ROLE_TREATED, ROLE_CONTROL, ROLE_REFERENCE };

static const char *date(char *buf, size_t size, uint64_t utc_ns)
{
	time_t s = (time_t)(utc_ns / SONDE_NS_PER_SEC);
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(buf, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

static enum role role_of(const struct sonde_trial *t, size_t server,
			 const struct sonde_trial_arm **arm)
{
	enum role role = ROLE_NONE;

	for (size_t i = 0; i < t->n_arms; i++) {
		for (size_t k = 0; k < t->arms[i].n_pairs; k++) {
			const struct sonde_trial_pair *p = &t->arms[i].pairs[k];

			if (p->treated == server)
				role = t->arms[i].control ? ROLE_CONTROL : ROLE_TREATED;
			else if (p->reference == server)
				role = ROLE_REFERENCE;
			else
				continue;
			*arm = &t->arms[i];
		}
	}
	return role;
}

/* ---- the processes of a server ---- */

int sonde_audit_add(struct sonde_audit_server *server, const struct sonde_reader *r)
{
	if (SONDE_GROW(server->files, server->n, server->cap))
		return -ENOMEM;
	server->files[server->n++] = r;
	return 0;
}

void sonde_audit_server_fini(struct sonde_audit_server *s)
{
	free(s->files);
	*s = (struct sonde_audit_server){0};
}

static struct audit_process process_at(const struct sonde_reader *r, size_t target)
{
	struct audit_process p = {.facts.meta = sonde_reader_meta(r)};
	const char *start;
	uint64_t mono;

	snprintf(p.facts.target, sizeof(p.facts.target), "%zu", target);
	start = sonde_settings_target(&p.facts, "start_mono_ns");
	if (start && !sonde_parse_u64(start, &mono))
		p.start_ns = sonde_clockpair_real(sonde_reader_clock(r), mono);
	return p;
}

/* The target that serves at the beginning: as a started command says, else the first. */
static size_t first_target(const struct sonde_reader *r)
{
	const char *serving = sonde_meta_find(sonde_reader_meta(r), "serving");
	uint64_t n;

	return serving && !sonde_parse_u64(serving, &n) ? (size_t)n : 0;
}

/* Was this target observed because another one had ended? Other targets are its children. */
static bool is_successor(const struct sonde_audit_server *s, const struct audit_process *p)
{
	const char *pid = sonde_settings_target(&p->facts, "pid");

	for (size_t i = 0; pid && i < s->snap->n_notes; i++) {
		const char *what = s->snap->notes[i].note.what;

		if (sonde_str_starts(what, RESTARTED) &&
		    sonde_str_starts(what + strlen(RESTARTED), pid) &&
		    what[strlen(RESTARTED) + strlen(pid)] == ' ')
			return true;
	}
	return false;
}

/* All processes, one after the other; a recording that goes on with the last one's adds none. */
static size_t processes(const struct sonde_audit_server *s, struct audit_process *out)
{
	size_t n = 0;

	for (size_t f = 0; f < s->n; f++) {
		size_t at = first_target(s->files[f]);
		struct audit_process p = process_at(s->files[f], at);

		/* Two readings of a clock: the same start to the second. */
		if (!n || !p.start_ns || p.start_ns > out[n - 1].start_ns + SONDE_NS_PER_SEC)
			n += n < MAX_PROCESSES;
		out[n - 1] = p;
		while (p = process_at(s->files[f], ++at), sonde_settings_target(&p.facts, "pid"))
			if (is_successor(s, &p) && n < MAX_PROCESSES)
				out[n++] = p;
	}
	return n;
}

void sonde_audit_last_target(const struct sonde_audit_server *s, char *buf, size_t size)
{
	struct audit_process all[MAX_PROCESSES];
	size_t n = processes(s, all);

	snprintf(buf, size, "%s", n ? all[n - 1].facts.target : "0");
}

int audit_find_processes(struct audit *a)
{
	size_t n = a->t->n_servers;

	a->first = calloc(n + 1, sizeof(*a->first));
	a->last = calloc(n + 1, sizeof(*a->last));
	a->n = calloc(n + 1, sizeof(*a->n));
	if (!a->first || !a->last || !a->n)
		return -ENOMEM;
	for (size_t s = 0; s < n; s++) {
		struct audit_process all[MAX_PROCESSES];

		a->n[s] = processes(&a->servers[s], all);
		if (!a->n[s])
			continue;
		a->first[s] = all[0];
		a->last[s] = all[a->n[s] - 1];
	}
	return 0;
}

/* ---- what was changed ---- */

struct changes {
	struct audit *a;
	size_t server;
	bool meant; /* this server was to be changed */
	struct sonde_str text;
	size_t n;
};

static int keep_change(struct changes *c, const char *what)
{
	struct sonde_audit *o = c->a->out;

	if (SONDE_GROW(o->changes, o->n_changes, o->cap_changes))
		return -ENOMEM;
	o->changes[o->n_changes++] = (struct sonde_audit_change){c->server, what};
	return 0;
}

static int on_change(void *ctx, const char *what, const char *x, const char *y)
{
	struct changes *c = ctx;

	if (!strcmp(what, "host.name") || !strcmp(what, "sonde.version"))
		return 0;
	if (c->meant && keep_change(c, what))
		return -ENOMEM;
	return sonde_str_addf(&c->text, "%s%s from %s to %s", c->n++ ? ", " : "", what,
			      x ? x : "not set", y ? y : "not set");
}

int audit_check_changes(struct audit *a, size_t server)
{
	const struct sonde_trial_arm *arm = NULL;
	enum role role = role_of(a->t, server, &arm);
	const char *name = a->t->servers[server];
	struct changes c = {.a = a, .server = server, .meant = role == ROLE_TREATED};
	int err;

	if (a->n[server] < 2 && a->servers[server].n < 2)
		return 0;
	err = sonde_settings_compare(&a->first[server].facts, &a->last[server].facts, on_change,
				     &c);
	if (!err && role == ROLE_REFERENCE && c.n)
		err = audit_caution(a, "%s (reference) was changed as well: %s", name,
				    sonde_str_get(&c.text));
	else if (!err && role == ROLE_CONTROL && c.n)
		err = audit_caution(a, "%s (control) was not only restarted: %s", name,
				    sonde_str_get(&c.text));
	else if (!err && role == ROLE_TREATED && c.n)
		err = audit_say(a, "%s (%s) was changed: %s", name, arm->name,
				sonde_str_get(&c.text));
	else if (!err && role == ROLE_TREATED)
		err = audit_caution(a, "%s (%s): of what is recorded nothing was changed", name,
				    arm->name);
	sonde_str_fini(&c.text);
	return err;
}

/* ---- restarts ---- */

static uint64_t window_time(const struct sonde_trial *t, size_t window)
{
	return t->start_ns + window * t->window_ns;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

int audit_check_restart(struct audit *a, size_t server)
{
	const struct sonde_trial *t = a->t;
	const struct sonde_trial_arm *arm = NULL;
	enum role role = role_of(t, server, &arm);
	uint64_t start = a->last[server].start_ns, change = window_time(t, t->after.from);
	const char *name = t->servers[server];
	char when[32];

	if (!start)
		return 0;
	date(when, sizeof(when), start);
	if (role == ROLE_REFERENCE)
		return start > sonde_reader_start_ns(a->servers[server].files[0])
			       ? audit_caution(
					 a,
					 "%s (reference) was restarted at %s: its memory began "
					 "anew",
					 name, when)
			       : 0;
	if (t->before.to > t->before.from && start + HOUR_NS < window_time(t, t->before.to))
		return audit_caution(a, "%s (%s) was not restarted at the change: it runs since %s",
				     name, arm->name, when);
	if (start > change + HOUR_NS)
		return audit_caution(
			a,
			"%s (%s) was restarted %.1f h after the change, at %s; begin --post "
			"there",
			name, arm->name, (double)(start - change) / (double)HOUR_NS, when);
	return 0;
}

/* Memory grows with age: treated and control must be as old as each other. */
int audit_check_ages(struct audit *a)
{
	const struct sonde_trial *t = a->t;
	uint64_t after = (t->after.to - t->after.from) * t->window_ns;
	const struct sonde_trial_arm *control = NULL;
	uint64_t slack = (uint64_t)(AGE_DIFFERS * (double)after), c;
	int err = 0;

	slack = slack > HOUR_NS ? slack : HOUR_NS;
	for (size_t i = 0; i < t->n_arms; i++)
		control = t->arms[i].control ? &t->arms[i] : control;
	c = control ? a->last[control->pairs[0].treated].start_ns : 0;
	for (size_t i = 0; i < t->n_arms && c; i++) {
		for (size_t k = 0; k < t->arms[i].n_pairs && !err; k++) {
			size_t s = t->arms[i].pairs[k].treated;
			uint64_t start = a->last[s].start_ns;

			if (start && apart(start, c) > slack)
				err = audit_caution(
					a,
					"%s is %.1f h %s than %s (control): memory is not "
					"compared at the same age",
					t->servers[s], (double)apart(start, c) / (double)HOUR_NS,
					start < c ? "older" : "younger",
					t->servers[control->pairs[0].treated]);
		}
	}
	return err;
}
