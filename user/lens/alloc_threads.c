// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See alloc_threads.h. A reading is one pass of the iterator over the process's threads and then
 * the map of those that ended: in this order, a thread that ends meanwhile is in at least one of
 * them.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_threads.h"
#include "target/allocator.h"
#include "target/heap/heap.h"

#define BATCH 256 /* ended threads a call */

/*
 * What one thread frees while another is waited for is missing from the one and in the other. A
 * reading that was held up, by an interrupt or for want of a CPU, is made anew: the time it may
 * take, and how often.
 */
#define SKEW_NS	       (20 * 1000ull)
#define SKEW_THREAD_NS (2500ull)
#define READINGS_MAX   4

static const struct sonde_alternative read_alts[] = {
	{.kind = SONDE_LINK_ITER,
	 .program = "alloc_threads",
	 .event = "task",
	 .needs = {SONDE_FEAT_ITER_SLEEPABLE, SONDE_FEAT_HOST_PIDS, SONDE_FEAT_NONE}},
};
static const struct sonde_alternative exit_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "alloc_thread_exit",
	 .event = "sched_process_exit",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_ITER_SLEEPABLE, SONDE_FEAT_HOST_PIDS}},
};
static const struct sonde_alternative exec_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "alloc_exec",
	 .event = "sched_process_exec",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_ITER_SLEEPABLE, SONDE_FEAT_HOST_PIDS}},
};
static const struct sonde_alternative fork_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "alloc_fork",
	 .event = "sched_process_fork",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_ITER_SLEEPABLE, SONDE_FEAT_HOST_PIDS}},
};
static const struct sonde_hook fixed_hooks[] = {
	{.name = SONDE_ALLOC_THREADS_HOOK,
	 .lens = SONDE_LENS_ALLOC,
	 .alts = read_alts,
	 .n_alts = SONDE_ARRAY_SIZE(read_alts),
	 .purpose = "bytes that each thread's allocator has counted"},
	{.name = "alloc.thread_exit",
	 .lens = SONDE_LENS_ALLOC,
	 .alts = exit_alts,
	 .n_alts = SONDE_ARRAY_SIZE(exit_alts),
	 .purpose = "the same of a thread that ends"},
	{.name = "alloc.exec",
	 .lens = SONDE_LENS_ALLOC,
	 .alts = exec_alts,
	 .n_alts = SONDE_ARRAY_SIZE(exec_alts),
	 .purpose = "its counters lie elsewhere from here on"},
	{.name = "alloc.fork",
	 .lens = SONDE_LENS_ALLOC,
	 .alts = fork_alts,
	 .n_alts = SONDE_ARRAY_SIZE(fork_alts),
	 .purpose = "what a forked process's counters begin with"},
};

struct process {
	pid_t pid;
	int link; /* the iterator over its threads */
	struct sonde_tls_account account;
};

struct sonde_alloc_threads {
	int prog, places, ended, forked;
	bool reads_ends;
	struct process *p;
	size_t n, cap;
	char *buf; /* what an iterator wrote */
	size_t room;
};

bool sonde_alloc_threads_wanted(const struct sonde_target *t)
{
	char own_exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own_exe, sizeof(own_exe) - 1);

	if (t->gone)
		return false;
	own_exe[n > 0 ? n : 0] = '\0';
	return !t->allocator || t->begun_ns || sonde_heap_counts_threads(t->allocator->name) ||
	       (t->exe && !strcmp(t->exe, own_exe));
}

int sonde_alloc_threads_hooks(struct sonde_hook_list *hooks)
{
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fixed_hooks) && !err; i++)
		err = sonde_hook_list_add(hooks, &fixed_hooks[i]);
	return err;
}

int sonde_alloc_threads_new(struct sonde_alloc_threads **out, struct bpf_object *obj, char *why,
			    size_t size)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, "alloc_threads");
	struct sonde_alloc_threads *t;

	if (!prog || bpf_program__fd(prog) < 0) {
		snprintf(why, size,
			 "this kernel cannot read other threads from an iterator (since "
			 "Linux 5.18)");
		return -EOPNOTSUPP;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->prog = bpf_program__fd(prog);
	t->places = bpf_object__find_map_fd_by_name(obj, "tls_places");
	t->ended = bpf_object__find_map_fd_by_name(obj, "tls_ended");
	t->forked = bpf_object__find_map_fd_by_name(obj, "tls_forked");
	*out = t;
	return 0;
}

static void process_fini(struct process *p)
{
	if (p->link >= 0)
		close(p->link);
	sonde_tls_account_fini(&p->account);
}

void sonde_alloc_threads_free(struct sonde_alloc_threads **t)
{
	if (!*t)
		return;
	while ((*t)->n)
		sonde_alloc_threads_del(*t, (*t)->p[0].pid);
	free((*t)->p);
	free((*t)->buf);
	free(SONDE_TAKE(*t));
}

static struct process *find(struct sonde_alloc_threads *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->p[i].pid == pid)
			return &t->p[i];
	return NULL;
}

void sonde_alloc_threads_del(struct sonde_alloc_threads *t, pid_t pid)
{
	struct process *p = find(t, pid);
	uint32_t key = (uint32_t)pid;

	if (!p)
		return;
	bpf_map_delete_elem(t->places, &key);
	process_fini(p);
	*p = t->p[--t->n];
}

/* Before 6.1, f0d74c4da1f0 ("bpf: Parameterize task iterators"), it walks every thread there is;
 * the program asks for the process's place first. */
static int link_make(int prog, pid_t pid)
{
	union bpf_iter_link_info info = {.task.pid = (uint32_t)pid};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));
	int link = bpf_link_create(prog, 0, BPF_TRACE_ITER, &opts);

	if (link < 0 && (errno == E2BIG || errno == EINVAL))
		link = bpf_link_create(prog, 0, BPF_TRACE_ITER, NULL);
	return link < 0 ? -errno : link;
}

int sonde_alloc_threads_add(struct sonde_alloc_threads *t, pid_t pid,
			    const struct sonde_tls_place *place)
{
	struct process p = {.pid = pid, .link = link_make(t->prog, pid)};
	struct sonde_tls_sum first;
	uint32_t key = (uint32_t)pid;
	int err = p.link < 0 ? p.link : 0;

	sonde_alloc_threads_del(t, pid);
	if (!err && SONDE_GROW(t->p, t->n, t->cap))
		err = -ENOMEM;
	if (!err && bpf_map_update_elem(t->places, &key, place, BPF_ANY))
		err = -errno;
	if (err) {
		process_fini(&p);
		return err == -ESRCH ? err
				     : sonde_err(err, "alloc: cannot read the threads of %d: %s",
						 (int)pid, strerror(-err));
	}
	t->p[t->n++] = p;
	/* What has ended before this reading is not known, and it says so. */
	return sonde_alloc_threads_read(t, pid, &first);
}

/* All that the iterator writes, into t->buf. Bytes or -errno. */
static ssize_t iterate(struct sonde_alloc_threads *t, int link)
{
	sonde_autoclose int fd = bpf_iter_create(link);
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	for (;;) {
		if (t->room - have < 4096) {
			size_t room = t->room ? 2 * t->room : 65536;
			char *p = realloc(t->buf, room);

			if (!p)
				return -ENOMEM;
			t->buf = p;
			t->room = room;
		}
		n = read(fd, t->buf + have, t->room - have);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n ? -errno : (ssize_t)have;
		have += (size_t)n;
	}
}

static int living(struct sonde_alloc_threads *t, struct process *p, size_t *threads)
{
	ssize_t bytes = iterate(t, p->link);
	int err = bytes < 0 ? (int)bytes : 0;

	*threads = 0;
	for (size_t at = 0; !err && at + sizeof(struct sonde_tls_thread) <= (size_t)bytes;
	     at += sizeof(struct sonde_tls_thread)) {
		struct sonde_tls_thread thread;

		memcpy(&thread, t->buf + at, sizeof(thread));
		if (thread.key.tgid != (uint32_t)p->pid)
			continue;
		++*threads;
		err = sonde_tls_account_saw(&p->account, &thread);
	}
	return err;
}

/* Take those that ended out of the map, each to its process's account. */
static int drain(struct sonde_alloc_threads *t)
{
	struct sonde_tls_thread threads[BATCH];
	struct sonde_tls_key keys[BATCH];
	uint32_t at = 0, n;
	bool first = true;
	int err, more;

	do {
		n = BATCH;
		more = bpf_map_lookup_and_delete_batch(t->ended, first ? NULL : &at, &at, keys,
						       threads, &n, NULL);
		if (more && errno != ENOENT)
			return -errno;
		first = false;
		for (uint32_t i = 0; i < n; i++) {
			struct process *p = find(t, (pid_t)threads[i].key.tgid);

			err = p ? sonde_tls_account_ended(&p->account, &threads[i]) : 0;
			if (err)
				return err;
		}
	} while (!more);
	return 0;
}

static int read_once(struct sonde_alloc_threads *t, struct process *p, size_t *threads,
		     struct sonde_tls_sum *out)
{
	int err;

	sonde_tls_account_begin(&p->account);
	err = living(t, p, threads);
	err = err ? err : drain(t);
	return err ? err : sonde_tls_account_finish(&p->account, out);
}

bool sonde_alloc_threads_in_one_go(const struct sonde_tls_sum *sum)
{
	return sum->skew_ns <= SKEW_NS + sum->threads * SKEW_THREAD_NS;
}

int sonde_alloc_threads_read(struct sonde_alloc_threads *t, pid_t pid, struct sonde_tls_sum *out)
{
	struct process *p = find(t, pid);
	size_t threads;
	int err, tries = 0;

	if (!p)
		return -ESRCH;
	do
		err = read_once(t, p, &threads, out);
	while (!err && ++tries < READINGS_MAX && !sonde_alloc_threads_in_one_go(out));
	if (err)
		return sonde_err(err, "alloc: cannot read the threads of %d: %s", (int)pid,
				 strerror(-err));
	return threads ? 0 : -ESRCH;
}

bool sonde_alloc_threads_forked(const struct sonde_alloc_threads *t, pid_t pid,
				struct sonde_tls_bytes *out)
{
	uint32_t key = (uint32_t)pid;

	return !bpf_map_lookup_elem(t->forked, &key, out);
}

/* ---- the test on ourselves ---- */

static __thread volatile uint64_t own[2];

static int64_t own_place(void)
{
	uintptr_t tp;

	__asm__("mov %%fs:0, %0" : "=r"(tp)); /* x86-64: the first word is its own address */
	return (int64_t)((uintptr_t)own - tp);
}

static void *short_thread(void *arg)
{
	(void)arg;
	own[0] = 5000;
	own[1] = 300;
	return NULL;
}

int sonde_alloc_threads_test(struct sonde_alloc_threads *t)
{
	struct sonde_tls_place place = {.allocated = own_place(), .freed = own_place() + 8};
	struct sonde_tls_sum before = {0}, after = {0};
	pthread_t thread;
	int err;

	own[0] = 1000;
	own[1] = 20;
	err = sonde_alloc_threads_add(t, getpid(), &place);
	err = err ? err : sonde_alloc_threads_read(t, getpid(), &before);
	if (!err && (before.bytes.allocated != 1000 || before.bytes.freed != 20))
		err = sonde_err(EIO,
				"alloc: reading our own threads gave %llu and not 1000 bytes: "
				"this kernel's iterator is not to be trusted",
				(unsigned long long)before.bytes.allocated);
	if (!err && !pthread_create(&thread, NULL, short_thread, NULL)) {
		pthread_join(thread, NULL);
		err = sonde_alloc_threads_read(t, getpid(), &after);
		t->reads_ends = !err && after.bytes.allocated == 6000 && after.bytes.freed == 320;
	}
	sonde_alloc_threads_del(t, getpid());
	return err;
}

bool sonde_alloc_threads_reads_ends(const struct sonde_alloc_threads *t)
{
	return t->reads_ends;
}
