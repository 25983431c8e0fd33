// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives the attach engine on targets whose counts are known (attach_target.h), one scenario a run,
 * and says each fact as "ok" or "not ok"; exit status 1 if any was not. Expected counts are
 * computed from the commands given, never from what was seen.
 */
#include <poll.h>
#include <sys/stat.h>

#include "attach_observer.h"
#include "attach/cost.h"
#include "attach/link.h"
#include "core/clock.h"

/* ---- scenarios ---- */

static void count_calls(struct observer *o, struct target *t, long calls)
{
	tell(t, "go", calls); /* the gate is closed: nothing counts */
	expect(o, 1, 0, "entries before activate");
	sonde_engine_activate(o->engine);
	tell(t, "go", calls);
	tell(t, "fresh", calls);
	sonde_engine_pause(o->engine);
	tell(t, "go", calls);
}

/* Exact on every thread, new ones included; not on a twin process of the same file. */
static int scenario_counts(const char *family)
{
	struct target t = target_start(), twin = target_start();
	struct observer o = {};
	const uint64_t calls = 500, want = calls * (THREADS + 1);

	add_uprobe(&o.hooks, "pair", &t, 1, (const void *)target_pair, 0, true);
	add_uprobe(&o.hooks, "slid", &t, 1, (const void *)target_slid, TARGET_SLIDE, false);
	if (observe(&o, family, &t, 1) ||
	    sonde_engine_attach(o.engine, &o.plan, -1, SONDE_NS_PER_SEC * 30, 0, NULL))
		return 1;
	check(armed(&t), "the target carries breakpoints");
	check(clean(&twin), "its twin does not");
	tell(&twin, "go", 1000);
	count_calls(&o, &t, (long)calls);
	expect(&o, 1, want, "entries of the pair");
	expect(&o, RETURNS + 1, want, "returns of the pair");
	expect(&o, 2, want, "entries at the slid site");
	check(sonde_engine_guard_alive(o.engine), "the guard lives");
	check(!sonde_engine_detach(o.engine, -1, NULL) && clean(&t), "detach restores the text");
	sonde_engine_activate(o.engine);
	tell(&t, "go", 1000);
	expect(&o, 1, want, "entries after detach");
	unobserve(&o);
	target_stop(&t);
	target_stop(&twin);
	return 0;
}

/* Two processes of one file, in one hook: each counted once. */
static int scenario_two(const char *family)
{
	struct target t[2] = {target_start(), target_start()};
	struct observer o = {};

	add_uprobe(&o.hooks, "pair", t, 2, (const void *)target_pair, 0, true);
	if (observe(&o, family, t, 2) ||
	    sonde_engine_attach(o.engine, &o.plan, -1, SONDE_NS_PER_SEC * 30, 0, NULL))
		return 1;
	sonde_engine_activate(o.engine);
	tell(&t[0], "go", 100);
	tell(&t[1], "go", 50);
	expect(&o, 1, 150 * THREADS, "entries in both");
	expect(&o, RETURNS + 1, 150 * THREADS, "returns in both");
	unobserve(&o);
	check(clean(&t[0]) && clean(&t[1]), "both are clean after the engine is freed");
	target_stop(&t[0]);
	target_stop(&t[1]);
	return 0;
}

static void set_range(struct observer *o, const struct target *t)
{
	int fd = bpf_object__find_map_fd_by_name(o->obj, "range");
	uint32_t zero = 0, one = 1;

	bpf_map_update_elem(fd, &zero, &t->hello.lo, BPF_ANY);
	bpf_map_update_elem(fd, &one, &t->hello.hi, BPF_ANY);
}

static int scenario_kernel(const char *unused)
{
	struct target t = target_start();
	struct observer o = {};
	uint64_t drops[SONDE_LENS__MAX][SONDE_DROP__MAX];
	uint64_t fds;

	(void)unused;
	for (int i = 0; i < N_GOOD_KERNEL; i++)
		add_kernel(&o.hooks, i);
	if (observe(&o, NULL, &t, 1) || sonde_engine_attach(o.engine, &o.plan, -1, 0, 0, NULL))
		return 1;
	set_range(&o, &t);
	sonde_engine_activate(o.engine);
	tell(&t, "name", 321);
	tell(&t, "fault", 100);
	fds = (uint64_t)tell(&t, "fds", 7);
	sonde_engine_pause(o.engine);
	expect(&o, TP_BTF, 321, "renames by tp_btf");
	expect(&o, RAW_TP, 321, "renames by raw_tp");
	check(count(&o, CLASSIC) >= 321, "prctl by classic tracepoint: %" PRIu64,
	      count(&o, CLASSIC));
	expect(&o, FAULT, 100 * (THREADS + 1), "minor faults, new thread included");
	check(!sonde_engine_run_iter(o.engine, LENS, "drv_files", (uint32_t)t.pid), "iterator");
	expect(&o, FILES, fds, "open files by iterator");
	check(!sonde_engine_drops(o.engine, drops) && drops[LENS][SONDE_DROP_MAP_FULL] >= 321 &&
		      !drops[LENS][SONDE_DROP_RING_FULL],
	      "drops are counted by lens and cause");
	check(sonde_engine_map_bytes(o.engine) > SONDE_RING_BYTES, "maps hold more than the ring");
	unobserve(&o);
	target_stop(&t);
	return 0;
}

static int scenario_refused(const char *unused)
{
	struct observer o = {};
	int err;

	(void)unused;
	add_kernel(&o.hooks, BAD_KERNEL);
	err = observe(&o, NULL, NULL, 0);
	check(err == -EOPNOTSUPP, "a program the verifier refuses is an error: %s", strerror(-err));
	unobserve(&o);
	return 0;
}

static int scenario_stats(const char *unused)
{
	struct target t = target_start();
	struct observer o = {};
	struct sonde_prog_cost cost = {};

	(void)unused;
	add_uprobe(&o.hooks, "pair", &t, 1, (const void *)target_pair, 0, false);
	if (observe(&o, NULL, &t, 1) || sonde_engine_stats(o.engine, true) ||
	    sonde_engine_attach(o.engine, &o.plan, -1, SONDE_NS_PER_SEC * 30, 0, NULL))
		return 1;
	tell(&t, "go", 100);
	check(!sonde_engine_prog_cost(o.engine, LENS, &cost), "statistics can be read");
	check(cost.runs == 100 * THREADS, "runs by statistics: %" PRIu64, cost.runs);
	check(cost.run_ns > 0, "run time %" PRIu64 " ns", cost.run_ns);
	unobserve(&o);
	target_stop(&t);
	return 0;
}

/* ---- the guard: a sonde of its own process, so that it can be killed and stopped ---- */

struct sonde_process {
	pid_t pid, guard[16];
	int out, n;
};

static __attribute__((noreturn)) void sonde_main(const struct target *t, const char *family,
						 uint64_t guard_ns, uint64_t max_ns, int out)
{
	struct observer o = {};
	struct pollfd none = {.fd = -1};
	char word = 'a';

	add_uprobe(&o.hooks, "pair", t, 1, (const void *)target_pair, 0, true);
	add_uprobe(&o.hooks, "slid", t, 1, (const void *)target_slid, TARGET_SLIDE, false);
	if (observe(&o, family, t, 1) ||
	    sonde_engine_attach(o.engine, &o.plan, -1, guard_ns, max_ns, NULL))
		_exit(1);
	(void)!write(out, &word, 1);
	while (sonde_engine_guard_alive(o.engine)) {
		sonde_engine_beat(o.engine);
		poll(&none, 1, (int)(guard_ns / 5 / SONDE_NS_PER_MS));
	}
	word = 'l';
	(void)!write(out, &word, 1);
	_exit(0);
}

static void find_guards(struct sonde_process *s)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", s->pid, s->pid);
	f = fopen(path, "re");
	while (f && s->n < (int)SONDE_ARRAY_SIZE(s->guard) && fscanf(f, "%d", &s->guard[s->n]) == 1)
		s->n++;
	if (!s->n)
		die(path);
	fclose(f);
}

static struct sonde_process sonde_start(const struct target *t, const char *family,
					uint64_t guard_ns, uint64_t max_ns)
{
	struct sonde_process s = {};
	int from[2];
	char word;

	if (pipe2(from, O_CLOEXEC))
		die("pipe");
	s.pid = fork();
	if (!s.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(from[0]);
		sonde_main(t, family, guard_ns, max_ns, from[1]);
	}
	close(from[1]);
	s.out = from[0];
	if (read(s.out, &word, 1) != 1 || word != 'a')
		die("sonde's start");
	find_guards(&s);
	return s;
}

/* Wait for a state, at most AWAIT_MS: the bound only ends a test that has failed. */
static bool await_clean(const struct target *t)
{
	struct pollfd none = {.fd = -1};

	for (int ms = 0; ms < AWAIT_MS; ms += 10) {
		if (clean(t))
			return true;
		poll(&none, 1, 10);
	}
	return false;
}

static void sonde_end(struct sonde_process *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	close(s->out);
}

static int scenario_killed(const char *family)
{
	struct target t = target_start();
	struct sonde_process s = sonde_start(&t, family, SONDE_NS_PER_SEC * 60, 0);

	check(armed(&t), "armed while sonde runs");
	kill(s.pid, SIGKILL);
	check(await_clean(&t), "SIGKILL of sonde leaves no probe");
	check(tell(&t, "go", 10) == 0, "the target runs on");
	sonde_end(&s);
	target_stop(&t);
	return 0;
}

/* Attach and detach without end, for somebody to kill in the middle of either. */
static __attribute__((noreturn)) void churn_main(const struct target *t, const char *family)
{
	struct observer o = {};

	add_uprobe(&o.hooks, "pair", t, 1, (const void *)target_pair, 0, true);
	add_uprobe(&o.hooks, "slid", t, 1, (const void *)target_slid, TARGET_SLIDE, false);
	if (observe(&o, family, t, 1))
		_exit(1);
	while (!sonde_engine_attach(o.engine, &o.plan, -1, SONDE_NS_PER_SEC * 60, 0, NULL))
		sonde_engine_detach(o.engine, -1, NULL);
	_exit(1);
}

/* Killed at 20 moments, 11 ms apart, in a loop of attach and detach. */
static int scenario_churn(const char *family)
{
	struct target t = target_start();
	struct pollfd none = {.fd = -1};

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		bool was_killed;
		int status;

		if (!pid)
			churn_main(&t, family);
		poll(&none, 1, 150 + i * 11);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		check(was_killed && await_clean(&t), "killed after %d ms: no probe", 150 + i * 11);
	}
	check(tell(&t, "go", 10) == 0, "the target runs on");
	target_stop(&t);
	return 0;
}

static int scenario_stopped(const char *family)
{
	struct target t = target_start();
	struct sonde_process s = sonde_start(&t, family, SONDE_NS_PER_SEC / 2, 0);
	struct pollfd p = {.fd = s.out, .events = POLLIN};
	char word = 0;

	check(!poll(&p, 1, 2000) && armed(&t), "heartbeats keep the probes beyond the deadline");
	kill(s.pid, SIGSTOP);
	for (int i = 0; i < s.n; i++)
		kill(s.guard[i], SIGSTOP);
	check(await_clean(&t), "with sonde and guard both stopped, no probe outlives the deadline");
	kill(s.pid, SIGCONT);
	check(read(s.out, &word, 1) == 1 && word == 'l', "sonde, continued, finds its guard gone");
	sonde_end(&s);
	target_stop(&t);
	return 0;
}

static void write_file(const char *dir, const char *name, int number)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f || fprintf(f, "%d", number) < 0 || fclose(f))
		die(path);
}

/* It is busy until the last of its processes has been collected. */
static bool await_rmdir(const char *dir)
{
	struct pollfd none = {.fd = -1};

	for (int ms = 0; ms < AWAIT_MS; ms += 10) {
		if (!rmdir(dir))
			return true;
		poll(&none, 1, 10);
	}
	return false;
}

/* A frozen cgroup (v2, mounted at $CGROUP2), as container runtimes use it. */
static int scenario_frozen(const char *family)
{
	struct target t = target_start();
	struct sonde_process s = sonde_start(&t, family, SONDE_NS_PER_SEC, 0);
	const char *root = getenv("CGROUP2");
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/sonde-test-%d", root ? root : "/sys/fs/cgroup", getpid());
	if (mkdir(dir, 0755))
		die(dir);
	write_file(dir, "cgroup.procs", s.pid);
	for (int i = 0; i < s.n; i++)
		write_file(dir, "cgroup.procs", s.guard[i]);
	check(armed(&t), "armed");
	write_file(dir, "cgroup.freeze", 1);
	check(await_clean(&t), "frozen together, no probe outlives the deadline");
	write_file(dir, "cgroup.freeze", 0);
	sonde_end(&s);
	check(await_rmdir(dir), "the cgroup is empty again");
	target_stop(&t);
	return 0;
}

static int scenario_deadline(const char *family)
{
	struct target t = target_start();
	struct sonde_process s =
		sonde_start(&t, family, SONDE_NS_PER_SEC * 5, SONDE_NS_PER_SEC / 2);

	check(await_clean(&t), "the absolute deadline ends the probes although sonde lives");
	check(kill(s.pid, 0) == 0, "sonde lives");
	sonde_end(&s);
	target_stop(&t);
	return 0;
}

static int scenario_features(const char *unused)
{
	struct sonde_features f;

	(void)unused;
	sonde_features_probe(&f);
	for (int i = 0; i < SONDE_FEAT__MAX; i++)
		printf("%s %s\n", sonde_feature_name((enum sonde_feature)i),
		       sonde_answer_name(f.have[i]));
	return 0;
}

static bool is_uprobe(enum sonde_link_kind k)
{
	return k == SONDE_LINK_UPROBE_MULTI || k == SONDE_LINK_UPROBE_SESSION ||
	       k == SONDE_LINK_UPROBE_PERF;
}

/* A trap of a uprobe is never cheaper than a system call; a tracepoint can be lost in the noise. */
static bool cost_fits(const struct sonde_calibration *c, enum sonde_link_kind k)
{
	double stepped = c->hit_ns[k][SONDE_INSN_STEPPED];
	double emulated = c->hit_ns[k][SONDE_INSN_EMULATED];

	return emulated >= (is_uprobe(k) ? 50 : 1) && emulated < 1e6 &&
	       (!is_uprobe(k) || (stepped >= 0.8 * emulated && stepped < 1e6));
}

static void check_cost(const struct sonde_calibration *c, enum sonde_link_kind k)
{
	double stepped = c->hit_ns[k][SONDE_INSN_STEPPED];
	double emulated = c->hit_ns[k][SONDE_INSN_EMULATED];

	check(cost_fits(c, k), "%s: %.0f ns emulated, %.0f ns stepped, not cheaper",
	      sonde_link_kind_name(k), emulated, stepped);
}

/* A neighbour on the same core may spoil one calibration, not each of three. */
static int calibrate(const struct sonde_features *f, struct sonde_calibration *c)
{
	int err = -EINVAL;

	for (int i = 0; i < 3; i++) {
		bool fits;

		err = sonde_calibrate(NULL, c);
		fits = !err;
		for (int k = 1; k < SONDE_LINK__MAX && fits; k++)
			fits = k == SONDE_LINK_ITER ||
			       f->have[sonde_link_feature((enum sonde_link_kind)k)] != SONDE_YES ||
			       cost_fits(c, (enum sonde_link_kind)k);
		if (fits)
			break;
	}
	return err;
}

static int scenario_calibrate(const char *unused)
{
	struct sonde_calibration c = {};
	struct sonde_features f;
	int err;

	(void)unused;
	sonde_features_probe(&f);
	err = calibrate(&f, &c);
	check(!err && c.took_ns, "calibration took %.1f ms", (double)c.took_ns / 1e6);
	for (int k = 1; k < SONDE_LINK__MAX; k++) {
		enum sonde_link_kind kind = (enum sonde_link_kind)k;

		if (kind == SONDE_LINK_ITER)
			continue;
		if (f.have[sonde_link_feature(kind)] == SONDE_YES)
			check_cost(&c, kind);
		else
			check(c.hit_ns[k][0] == 0, "%s: absent, so no figure",
			      sonde_link_kind_name(kind));
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const char *family);
} scenarios[] = {
	{"counts", scenario_counts},	 {"two", scenario_two},
	{"kernel", scenario_kernel},	 {"refused", scenario_refused},
	{"stats", scenario_stats},	 {"killed", scenario_killed},
	{"stopped", scenario_stopped},	 {"churn", scenario_churn},
	{"frozen", scenario_frozen},	 {"deadline", scenario_deadline},
	{"features", scenario_features}, {"calibrate", scenario_calibrate},
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "target"))
		return target_main();
	for (size_t i = 0; argc > 1 && i < SONDE_ARRAY_SIZE(scenarios); i++)
		if (!strcmp(argv[1], scenarios[i].name))
			return scenarios[i].run(argc > 2 ? argv[2] : NULL) || failures;
	fprintf(stderr, "usage: attachdrv SCENARIO [session|multi|perf]\n");
	return 2;
}
