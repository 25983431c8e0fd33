// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What one hit costs, measured: a child calls a function of its own with an empty program of the
 * same kind of link on it, and a twin without, in turn; the difference of the minima over the
 * rounds is the cost. The minimum, since everything that disturbs such a loop makes it longer.
 *
 * The cost of a return probe is what it adds to an entry probe at the same place: the kernel sets
 * it up in the entry's trap.
 */
#include <errno.h>
#include <string.h>

#include "attach/calib.h"
#include "attach/cost.h"
#include "attach/host.h"
#include "attach/link.h"
#include "attach/plan.h"
#include "attach/prog.h"
#include "attach/tracefs.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"

/* Many short rounds: on a busy machine a round of 100 us has a fair chance of being left alone. */
enum { ROUNDS = 31, INSN_KINDS = 2, PLAIN_CALLS = 4000 };

/* A stepped hit takes 12 us in some guests: with these counts a kind of link takes some 20 ms. */
static const uint32_t probed_calls[INSN_KINDS] = {
	[SONDE_INSN_EMULATED] = 160,
	[SONDE_INSN_STEPPED] = 32,
};

/* Smaller than noise, yet no hit is free: 0 would say "not calibrated". */
#define LEAST_NS 1.0

/* Links of one measurement; an fd each. */
struct links {
	int fd[4];
	size_t n;
};

static void close_links(struct links *l)
{
	while (l->n)
		close(l->fd[--l->n]);
}

static int put_link(struct links *l, const struct sonde_link_request *req)
{
	int fd = sonde_link_create(req);

	if (fd < 0)
		return fd;
	l->fd[l->n++] = fd;
	return 0;
}

static int link_uprobes(struct links *l, enum sonde_link_kind kind, int prog, pid_t pid)
{
	static const uint64_t cookies[INSN_KINDS] = {1, 1};
	bool perf = !strcmp(sonde_link_family(kind), "perf");
	uint64_t offsets[INSN_KINDS];
	struct sonde_link_request req = {
		.kind = kind,
		.prog_fd = prog,
		.pid = pid,
		.path = "/proc/self/exe",
		.offsets = offsets,
		.cookies = cookies,
		.n = perf ? 1 : INSN_KINDS,
	};
	int err = 0;

	for (int i = 0; !err && i < INSN_KINDS; i++)
		err = sonde_calib_offset((enum sonde_insn_kind)i, &offsets[i]);
	if (!err)
		err = put_link(l, &req);
	if (!err && perf) {
		req.offsets = &offsets[1];
		err = put_link(l, &req);
	}
	return err;
}

/* ns a piece of work, the least of some rounds. */
static int least(const struct sonde_calib_child *c, enum sonde_calib_work work,
		 enum sonde_insn_kind insn, uint32_t n, double *best)
{
	uint64_t ns;
	int err = sonde_calib_run(c, work, insn, n, &ns);
	double each = (double)ns / n;

	if (!err && (*best <= 0 || each < *best))
		*best = each;
	return err;
}

static int measure_calls(const struct sonde_calib_child *c, double out[INSN_KINDS])
{
	double probed[INSN_KINDS] = {}, plain[INSN_KINDS] = {};
	int err = 0;

	for (int i = 0; !err && i < ROUNDS * INSN_KINDS; i++) {
		enum sonde_insn_kind insn = (enum sonde_insn_kind)(i % INSN_KINDS);

		err = least(c, SONDE_CALIB_PLAIN, insn, PLAIN_CALLS, &plain[insn]);
		if (!err)
			err = least(c, SONDE_CALIB_PROBED, insn, probed_calls[insn], &probed[insn]);
	}
	for (int i = 0; i < INSN_KINDS; i++)
		out[i] = probed[i] > plain[i] + LEAST_NS ? probed[i] - plain[i] : LEAST_NS;
	return err;
}

/* Entry side of which @kind is the return side, or NONE. */
static enum sonde_link_kind entry_of(enum sonde_link_kind kind)
{
	for (int k = 1; k < SONDE_LINK__MAX; k++)
		if (sonde_link_return_of((enum sonde_link_kind)k) == kind)
			return (enum sonde_link_kind)k;
	return SONDE_LINK_NONE;
}

/*
 * The child ends before its links are closed: with no process left that has the breakpoints,
 * closing has nothing to undo that a signal could interrupt (guard.c).
 */
static int measure_uprobe(enum sonde_link_kind kind, enum sonde_link_kind entry,
			  double ns[INSN_KINDS])
{
	sonde_autoclose int prog = sonde_prog_empty(kind, NULL);
	struct sonde_calib_child c;
	struct links l = {};
	int err = prog < 0 ? prog : sonde_calib_start(&c);

	if (err)
		return err;
	if (entry)
		err = link_uprobes(&l, entry, prog, c.pid);
	if (!err)
		err = link_uprobes(&l, kind, prog, c.pid);
	if (!err)
		err = measure_calls(&c, ns);
	sonde_calib_stop(&c);
	close_links(&l);
	return err;
}

static int calibrate_uprobe(enum sonde_link_kind kind, struct sonde_calibration *out)
{
	enum sonde_link_kind entry = entry_of(kind);
	double ns[INSN_KINDS];
	int err = measure_uprobe(kind, entry, ns);

	for (int i = 0; !err && i < INSN_KINDS; i++) {
		/* What a return adds has nothing to do with the instruction at the entry; the
		 * difference of two large figures would be noise. */
		double all = entry ? ns[SONDE_INSN_EMULATED] : ns[i];
		double less = entry ? out->hit_ns[entry][SONDE_INSN_EMULATED] : 0;

		out->hit_ns[kind][i] = all > less + LEAST_NS ? all - less : LEAST_NS;
	}
	return err;
}

/* Kernel hooks: which event stands for the kind, and what work fires it once. */
static const struct {
	const char *event;
	enum sonde_calib_work work;
	uint32_t n;
} kernel_work[SONDE_LINK__MAX] = {
	[SONDE_LINK_TP_BTF] = {"task_rename", SONDE_CALIB_RENAME, 600},
	[SONDE_LINK_RAW_TP] = {"task_rename", SONDE_CALIB_RENAME, 600},
	[SONDE_LINK_TRACEPOINT] = {"syscalls/sys_enter_prctl", SONDE_CALIB_RENAME, 600},
	[SONDE_LINK_PERF_SW] = {"minor-faults", SONDE_CALIB_FAULT, 150},
};

static int rounds(const struct sonde_calib_child *c, enum sonde_link_kind kind, double *best)
{
	int err = 0;

	for (int i = 0; !err && i < ROUNDS; i++)
		err = least(c, kernel_work[kind].work, SONDE_INSN_STEPPED, kernel_work[kind].n,
			    best);
	return err;
}

static int measure_kernel(const struct sonde_calib_child *c, enum sonde_link_kind kind, double *ns)
{
	const char *event = kernel_work[kind].event;
	sonde_autoclose int prog = sonde_prog_empty(kind, event);
	struct sonde_link_request req = {
		.kind = kind,
		.prog_fd = prog,
		.event = event,
		.pid = c->pid,
	};
	struct links l = {};
	double with = 0, without = 0;
	int err = prog < 0 ? prog : 0;

	if (!err && kind == SONDE_LINK_TRACEPOINT) {
		req.event_id = sonde_tracefs_event_id(event);
		err = req.event_id < 0 ? req.event_id : 0;
	}
	/* Without, with, without: a machine that got faster or slower meanwhile does not count. */
	if (!err)
		err = rounds(c, kind, &without);
	if (!err)
		err = put_link(&l, &req);
	if (!err)
		err = rounds(c, kind, &with);
	close_links(&l);
	if (!err)
		err = rounds(c, kind, &without);
	*ns = with > without + LEAST_NS ? with - without : LEAST_NS;
	return err;
}

static int calibrate_kernel(enum sonde_link_kind kind, struct sonde_calibration *out)
{
	struct sonde_calib_child c;
	double ns;
	int err = sonde_calib_start(&c);

	if (err)
		return err;
	err = measure_kernel(&c, kind, &ns);
	sonde_calib_stop(&c);
	for (int i = 0; !err && i < INSN_KINDS; i++)
		out->hit_ns[kind][i] = ns;
	return err;
}

/* Kinds to measure: what the plan uses, and the entry side of each return side. */
static void wanted_kinds(const struct sonde_plan *plan, bool want[SONDE_LINK__MAX])
{
	struct sonde_features f;

	if (!plan)
		sonde_features_probe(&f);
	for (int k = 1; !plan && k < SONDE_LINK__MAX; k++)
		want[k] = f.have[sonde_link_feature((enum sonde_link_kind)k)] == SONDE_YES;
	for (size_t i = 0; plan && i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];

		want[item->kind] = true;
		if (item->ret_program)
			want[sonde_link_return_of(item->kind)] = true;
	}
	for (int k = 1; k < SONDE_LINK__MAX; k++)
		if (want[k])
			want[entry_of((enum sonde_link_kind)k)] = true;
	want[SONDE_LINK_NONE] = want[SONDE_LINK_ITER] = false;
}

int sonde_calibrate(const struct sonde_plan *plan, struct sonde_calibration *out)
{
	struct sonde_calibration c = {};
	bool want[SONDE_LINK__MAX] = {};
	uint64_t begin = sonde_mono_ns();
	int short_of = sonde_host_files();

	if (short_of)
		return short_of;
	wanted_kinds(plan, want);
	/* In the order of the enum an entry kind comes before its return kind. */
	for (int k = 1; k < SONDE_LINK__MAX; k++) {
		enum sonde_link_kind kind = (enum sonde_link_kind)k;
		int err = 0;

		if (want[k])
			err = sonde_link_is_uprobe(kind) ? calibrate_uprobe(kind, &c)
							 : calibrate_kernel(kind, &c);
		if (err)
			sonde_warn("the cost of %s could not be measured: %s",
				   sonde_link_kind_name(kind), strerror(-err));
	}
	c.took_ns = sonde_mono_ns() - begin;
	*out = c;
	return 0;
}

double sonde_cost_of_site(const struct sonde_calibration *c, const struct sonde_plan_item *item,
			  const struct sonde_probe_site *site)
{
	enum sonde_insn_kind insn = SONDE_INSN_STEPPED;
	enum sonde_link_kind entry = entry_of(item->kind);
	double ns;

	if (item->alt < 0)
		return 0;
	if (sonde_link_is_uprobe(item->kind) && site)
		insn = site->site.kind;
	ns = c->hit_ns[item->kind][insn];
	if (entry)
		ns += c->hit_ns[entry][insn];
	if (item->ret_program && site && site->want_return)
		ns += c->hit_ns[sonde_link_return_of(item->kind)][insn];
	return ns;
}

double sonde_cost_per_hit(const struct sonde_calibration *c, const struct sonde_plan_item *item)
{
	return sonde_cost_of_site(c, item, item->hook->n_sites ? item->hook->sites : NULL);
}
