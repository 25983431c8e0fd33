// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An allocator that a target loads while it is observed (dlopen) is attached too, by a new
 * generation of probes. Whether a target has mapped more code is asked of two lines of
 * /proc/PID/status each second, and sooner after an exec, whose program maps its libraries only
 * then; that costs the target nothing. Its modules are looked through only when those lines
 * changed, or while an allocator has no tables yet: one that has just been mapped.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "session/internal.h"
#include "sonde/alloc.h"
#include "target/allocator.h"
#include "target/blocks/blocks.h"
#include "target/proc.h"

#define MAX_ALLOCATORS 4  /* as many as the alloc lens attaches to */
#define MAX_WAITS      20 /* looks, for tables that are not there yet */
#define STEP_FIRST_NS  (10 * SONDE_NS_PER_MS) /* from an exec to the first look */
#define STEP_NS	       SONDE_NS_PER_SEC

enum attached { NOT_ATTACHED, COUNTED, MEASURED };

static enum attached how_attached(const struct session *s, pid_t pid, const struct sonde_module *m)
{
	for (size_t i = 0; i < s->hooks.n; i++) {
		const struct sonde_hook *h = &s->hooks.h[i];

		for (size_t k = 0; h->lens == SONDE_LENS_ALLOC && k < h->n_sites; k++)
			if (h->sites[k].pid == pid && h->sites[k].inode == m->inode &&
			    h->sites[k].dev == m->dev)
				return SONDE_ALLOC_COOKIE_RULE(h->sites[k].cookie) ? MEASURED
										   : COUNTED;
	}
	return NOT_ATTACHED;
}

/* Between its being mapped and its first allocation it has no tables yet. */
static bool has_tables(const struct sonde_target *t, const struct sonde_allocator *a,
		       const struct sonde_module *m)
{
	sonde_autofree struct sonde_alloc_domain *d = malloc(sizeof(*d));

	return !a->learn || (d && !sonde_blocks_learn(t->pid, a, m, d));
}

static int renew(struct session *s, const struct sonde_target *t,
		 const struct sonde_allocator_use *use, const struct sonde_module *m,
		 enum attached how)
{
	s->rebuild = true;
	return session_note(s, SONDE_NOTE_EVENT, "",
			    "%s (pid %d) has loaded %s%s%s (%s): %s; alloc.live counts from here",
			    t->comm, t->pid, use->allocator->name, use->version[0] ? " " : "",
			    use->version, m->path,
			    how == COUNTED ? "its tables are there now" : "it is attached too");
}

/* One allocator of a target. *later: it is to be looked at again. */
static int look_at(struct session *s, struct sonde_target *t, const struct sonde_allocator_use *use,
		   const struct sonde_module *m, bool *later)
{
	enum attached how = how_attached(s, t->pid, m);
	bool last = s->code_waits >= MAX_WAITS;

	if (how == MEASURED)
		return 0;
	if (has_tables(t, use->allocator, m))
		return renew(s, t, use, m, how);
	*later |= !last;
	return last && how == NOT_ATTACHED ? renew(s, t, use, m, how) : 0;
}

static int look_through(struct session *s, struct sonde_target *t, bool *later)
{
	struct sonde_allocator_use use[MAX_ALLOCATORS];
	struct sonde_modules mods = {0};
	size_t n = 0;
	int err = sonde_modules_read(t->pid, &mods);

	if (err)
		return 0; /* it has just gone: its exit follows */
	if (sonde_allocator_list(t->pid, &mods, use, MAX_ALLOCATORS, &n))
		n = 0;
	for (size_t i = 0; i < n && !err; i++)
		err = look_at(s, t, &use[i], &mods.m[use[i].module], later);
	/* One that had none that is known: hooks are only made for targets that have. */
	if (!err && n && !t->allocator)
		t->allocator = use[0].allocator;
	sonde_modules_fini(&mods);
	return err;
}

static int remember(struct session *s, size_t i)
{
	uint64_t *grown;

	if (i < s->n_code)
		return 0;
	grown = reallocarray(s->code, i + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + s->n_code, 0, (i + 1 - s->n_code) * sizeof(*grown));
	s->code = grown;
	s->n_code = i + 1;
	return 0;
}

void session_expect_libraries(struct session *s, size_t target)
{
	if (target < s->n_code)
		s->code[target] = 0; /* of the former program */
	s->code_step_ns = STEP_FIRST_NS;
	s->code_next_ns = 0;
}

/* Is it time to look again? */
static bool is_due(struct session *s)
{
	uint64_t now = sonde_mono_ns();

	if (now < s->code_next_ns)
		return false;
	if (!s->code_step_ns || s->code_step_ns > STEP_NS)
		s->code_step_ns = STEP_NS;
	s->code_next_ns = now + s->code_step_ns;
	s->code_step_ns *= 2;
	return true;
}

int session_check_libraries(struct session *s)
{
	int err = 0;

	/* Where nothing is attached there is nothing to renew. */
	if (!session_probes_alloc(s) || s->opts->lens.passive || s->rebuild ||
	    s->state != RECORDING || !is_due(s))
		return 0;
	for (size_t i = 0; i < s->targets.n && !err; i++) {
		struct sonde_target *t = &s->targets.t[i];
		bool later = false;
		uint64_t bytes;

		if (t->gone || t->is_child || sonde_proc_code(t->pid, &bytes))
			continue;
		err = remember(s, i);
		if (err || s->code[i] == bytes)
			continue;
		s->code[i] = bytes;
		err = look_through(s, t, &later);
		if (later) {
			s->code[i] = 0; /* ask again at the next look */
			s->code_waits++;
		}
	}
	return err;
}
