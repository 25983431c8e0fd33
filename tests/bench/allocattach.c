// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Attach the alloc lens to a process by hand, in step with a test: for exact counts the target must
 * not move until everything is attached, and for the benchmark the lens's programs are exchanged
 * for empty ones on the very same sites and links. Everything else is the product's own plan,
 * engine and lens.
 *
 *     allocattach PID [empty|sites [ONE_IN]]
 *
 * Prints "attached", waits for a line, detaches, prints what was counted: NAME|LABEL|VALUE,
 * hist|COUNT|SUM, link|HOOK|KIND|SITES, drop|CAUSE|N; with sites also
 * count|STACK|CALLS|BYTES|LIVE_CALLS|LIVE_BYTES|LIVE_ERROR and stack|STACK|END|INNERMOST;...
 *
 * SONDE_FORCE_LINK chooses the kind of link.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "attach/engine.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "lens/lens.h"
#include "target/allocator.h"

#include "bench/allocempty.skel.h"

extern const struct sonde_lens sonde_lens_alloc;

#define BEAT_NS (20 * SONDE_NS_PER_SEC) /* beaten every second, also on a crowded machine */

struct run {
	struct sonde_target_list targets;
	struct sonde_lens_opts opts;
	struct sonde_lens_ctx ctx;
	struct sonde_features features;
	struct sonde_plan_choice choice;
	struct sonde_hook_list hooks;
	struct sonde_plan plan;
	struct sonde_engine *engine;
	bool empty;
};

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	(void)ctx;
	if (m->absent)
		printf("%s|%s|absent: %s\n", m->desc->name, m->label, m->absent);
	else
		printf("%s|%s|%.0f\n", m->desc->name, m->label, m->value);
	return 0;
}

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	(void)ctx;
	printf("hist|%llu|%.0f\n", (unsigned long long)h->hist->count, h->hist->sum);
	return 0;
}

static int on_count(void *ctx, const struct sonde_stack_count *c)
{
	(void)ctx;
	printf("count|%llx|%llu|%llu", (unsigned long long)c->stack, (unsigned long long)c->calls,
	       (unsigned long long)c->bytes);
	if (!c->has_live) {
		printf("|-|-|-\n");
		return 0;
	}
	printf("|%llu|%llu|%llu\n", (unsigned long long)c->live_calls,
	       (unsigned long long)c->live_bytes, (unsigned long long)c->live_error);
	return 0;
}

static int on_stack(void *ctx, const struct sonde_stack *s)
{
	(void)ctx;
	printf("stack|%llx|%s|", (unsigned long long)s->id, sonde_stack_end_name(s->end));
	for (size_t i = 0; i < s->n; i++) {
		const struct sonde_frame *f = &s->frames[i];

		printf("%s%s", i ? ";" : "", f->inlined ? "~" : "");
		if (*f->function)
			printf("%s", f->function);
		else
			printf("%s+0x%llx", f->module, (unsigned long long)f->offset);
	}
	printf("\n");
	return 0;
}

static int make_plan(struct run *r, pid_t pid)
{
	struct sonde_target t = {0};
	int err = sonde_target_open(&t, pid);

	err = err ? err : sonde_target_list_add(&r->targets, &t);
	if (err)
		return err;
	sonde_features_probe(&r->features);
	sonde_plan_choice_from_env(&r->choice);
	err = r->ctx.lens->hooks(&r->ctx, &r->hooks);
	return err ? err : sonde_plan_make(&r->hooks, &r->features, &r->choice, &r->plan);
}

static int load(struct run *r)
{
	struct sonde_config config = {0};
	const void *elf;
	size_t size;
	int err = sonde_engine_new(&r->engine, &config, 0);

	elf = r->empty ? allocempty_bpf__elf_bytes(&size) : sonde_lens_elf(&r->ctx, &size);
	err = err ? err
		  : sonde_engine_open(r->engine, SONDE_LENS_ALLOC, "alloc", elf, size, &r->ctx.obj);
	if (!err && !r->empty)
		err = r->ctx.lens->configure(&r->ctx, r->ctx.obj);
	err = err ? err : sonde_engine_load(r->engine, &r->plan, -1);
	if (!err && !r->empty)
		err = r->ctx.lens->init(&r->ctx);
	return err;
}

static int attach(struct run *r)
{
	int err = sonde_engine_target_add(r->engine, (uint32_t)r->targets.t[0].pid, 0);

	err = err ? err : sonde_engine_attach(r->engine, &r->plan, -1, BEAT_NS, 0, NULL);
	err = err ? err : sonde_engine_activate(r->engine);
	return err || r->empty ? err : r->ctx.lens->start(&r->ctx);
}

static void print_links(const struct run *r)
{
	for (size_t i = 0; i < r->plan.n; i++)
		printf("link|%s|%s|%zu\n", r->plan.items[i].hook->name,
		       sonde_link_kind_name(r->plan.items[i].kind), r->plan.items[i].hook->n_sites);
}

static int print_drops(struct run *r)
{
	uint64_t drops[SONDE_LENS__MAX][SONDE_DROP__MAX] = {0};
	int err = sonde_engine_drops(r->engine, drops);

	for (unsigned c = 0; !err && c < SONDE_DROP__MAX; c++)
		if (drops[SONDE_LENS_ALLOC][c])
			printf("drop|%s|%llu\n", sonde_drop_name(c),
			       (unsigned long long)drops[SONDE_LENS_ALLOC][c]);
	return err;
}

/* Until a line comes; the guard child needs its heartbeat meanwhile. */
static int wait_line(struct run *r)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	while (poll(&in, 1, 1000) == 0) {
		if (!sonde_engine_guard_alive(r->engine))
			return sonde_err(ETIME, "the guard let go of the target");
		sonde_engine_beat(r->engine);
	}
	return sonde_engine_guard_alive(r->engine) ? 0 : sonde_err(ETIME, "the guard is gone");
}

static int observe(struct run *r)
{
	int err = load(r);

	err = err ? err : attach(r);
	if (err)
		return err;
	printf("attached\n");
	fflush(stdout);
	err = wait_line(r);
	err = err ? err : sonde_engine_pause(r->engine);
	print_links(r);
	if (!err && !r->empty)
		err = r->ctx.lens->tick(&r->ctx, sonde_mono_ns());
	err = err ? err : print_drops(r);
	sonde_engine_detach(r->engine, -1, NULL);
	return err;
}

int main(int argc, char **argv)
{
	struct sonde_visitor out = {
		.metric = on_metric, .hist = on_hist, .stack = on_stack, .stack_count = on_count};
	struct run r = {.opts = {.alloc_exact = true,
				 .sites = argc > 2 && !strcmp(argv[2], "sites"),
				 .sites_sample = argc > 3 ? (uint32_t)atoi(argv[3]) : 0},
			.empty = argc > 2 && !strcmp(argv[2], "empty")};
	uint64_t pid;
	int err;

	if (argc < 2 || sonde_parse_u64(argv[1], &pid)) {
		fprintf(stderr, "usage: allocattach PID [empty|sites [ONE_IN]]\n");
		return SONDE_EXIT_USAGE;
	}
	r.ctx = (struct sonde_lens_ctx){.lens = &sonde_lens_alloc,
					.opts = &r.opts,
					.targets = &r.targets,
					.out = &out,
					.plan = &r.plan};
	err = make_plan(&r, (pid_t)pid);
	err = err ? err : observe(&r);
	sonde_engine_free(&r.engine);
	if (r.ctx.priv)
		r.ctx.lens->fini(&r.ctx);
	sonde_plan_fini(&r.plan);
	sonde_hook_list_fini(&r.hooks);
	sonde_target_list_fini(&r.targets);
	return sonde_exit_code(err);
}
