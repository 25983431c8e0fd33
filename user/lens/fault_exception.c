// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a page fault costs beside its latency: the exception's entry and exit, before the first
 * program reads the clock and after the last has. It is measured on a child that touches pages and
 * says how long that took, with this lens's own programs on it; what they say the faults took is
 * less, and the difference is the answer, what the programs themselves do outside of their two
 * readings included. The child is no target: only this lens sees it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/calib.h"
#include "attach/link.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/fault_priv.h"
#include "lens/fault_read.h"
#include "sonde/anatomy.h"

/* Many short rounds: on a busy machine one of 0.2 ms has a fair chance of being left alone. */
enum { ROUNDS = 101, FAULTS = 64 };

struct child {
	struct sonde_calib_child calib;
	int sums_fd, n_cpus, pidfd;
	int anatomy_fd;		    /* -1: queries have none */
	struct sonde_fault_key key; /* of its plain faults */
};

/* For the programs it runs a query, so that what they make of its faults can be read. */
static int give_query(const struct child *c)
{
	struct sonde_anatomy blank = {.seq = 1, .last_ns = sonde_mono_ns()};

	blank.current = blank.base = SONDE_PART_USER;
	return bpf_map_update_elem(c->anatomy_fd, &c->pidfd, &blank, BPF_ANY) ? -errno : 0;
}

/* Its storage is its pass: who has one needs no other. */
static int let_in(struct bpf_object *obj, const struct child *c)
{
	const struct sonde_fault_thread blank = {.exact = 1};
	int threads = bpf_object__find_map_fd_by_name(obj, "fault_threads");
	int filter = bpf_object__find_map_fd_by_name(obj, "fault_filter");
	uint32_t slot = (uint32_t)c->calib.pid % SONDE_FAULT_FILTER, yes = 1;

	if (c->pidfd < 0 || bpf_map_update_elem(threads, &c->pidfd, &blank, BPF_ANY) ||
	    bpf_map_update_elem(filter, &slot, &yes, BPF_ANY))
		return -errno;
	return c->anatomy_fd >= 0 ? give_query(c) : 0;
}

static int read_sum(const struct child *c, struct sonde_fault_sum *out)
{
	sonde_autofree struct sonde_fault_sum *v = calloc((size_t)c->n_cpus, sizeof(*v));

	*out = (struct sonde_fault_sum){};
	if (!v)
		return -ENOMEM;
	if (bpf_map_lookup_elem(c->sums_fd, &c->key, v))
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < c->n_cpus; i++) {
		out->count += v[i].count;
		out->ns += v[i].ns;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Time in base faults as the child's query has it. */
static uint64_t query_ns(const struct child *c)
{
	struct sonde_anatomy a;

	if (c->anatomy_fd < 0 || bpf_map_lookup_elem(c->anatomy_fd, &c->pidfd, &a))
		return 0;
	return a.ns[SONDE_PART_FAULT_BASE];
}

static double middle(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

/* The middle of the rounds: what is interrupted between two faults takes longer by far. */
static int measure(const struct child *c, double *out, double *query)
{
	struct sonde_fault_sum was = {}, now;
	double rounds[ROUNDS], queries[ROUNDS];
	uint64_t was_query = 0;
	size_t n = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t took, is_query;
		int err = sonde_calib_run(&c->calib, SONDE_CALIB_FAULT, SONDE_INSN_STEPPED, FAULTS,
					  &took);

		err = err ? err : read_sum(c, &now);
		if (err)
			return err;
		is_query = query_ns(c);
		/* The first round brings in the loop itself. */
		if (i && now.count - was.count == FAULTS) {
			rounds[n] = ((double)took - (double)(now.ns - was.ns)) / FAULTS;
			queries[n++] = ((double)took - (double)(is_query - was_query)) / FAULTS;
		}
		was = now;
		was_query = is_query;
	}
	if (!n)
		return -ENODATA;
	*out = middle(rounds, n);
	*query = middle(queries, n);
	return 0;
}

/* From now on queries' faults are charged with it. */
static int tell_programs(struct bpf_object *obj, double ns)
{
	int fd = bpf_object__find_map_fd_by_name(obj, "fault_exception");
	uint64_t value = ns > 0 ? (uint64_t)ns : 0;
	uint32_t zero = 0;

	sonde_debug("fault: a query's fault takes %.0f ns beside what programs see of it", ns);
	return bpf_map_update_elem(fd, &zero, &value, BPF_ANY) ? -errno : 0;
}

/* It has gone, so nothing counts for it any more. */
static void forget(struct bpf_object *obj, const struct child *c)
{
	int hist = bpf_object__find_map_fd_by_name(obj, "fault_hist");
	struct sonde_fault_entries all = {};
	struct sonde_fault_key key = c->key;

	for (unsigned s = 0; s < SONDE_FAULT_SERIES; s++) {
		key.series = (uint16_t)s;
		bpf_map_delete_elem(c->sums_fd, &key);
	}
	if (!sonde_fault_entries_read(hist, &all))
		for (size_t i = 0; i < all.n; i++)
			if (all.e[i].key.tgid == key.tgid)
				bpf_map_delete_elem(hist, &all.e[i].key);
	sonde_fault_entries_fini(&all);
}

int sonde_fault_exception(struct bpf_object *obj, bool anatomy, double *ns)
{
	struct sonde_link_request req = {.kind = SONDE_LINK_PERF_SW, .event = "minor-faults"};
	struct bpf_program *end = bpf_object__find_program_by_name(obj, "fault_end_minor");
	struct child c = {.sums_fd = bpf_object__find_map_fd_by_name(obj, "fault_sums"),
			  .n_cpus = libbpf_num_possible_cpus()};
	sonde_autoclose int link = -1;
	double query = 0;
	int err = sonde_calib_start(&c.calib);

	if (err)
		return err;
	c.pidfd = (int)syscall(SYS_pidfd_open, c.calib.pid, 0);
	c.anatomy_fd = anatomy ? bpf_object__find_map_fd_by_name(obj, "anatomy") : -1;
	c.key.tgid = (uint32_t)c.calib.pid;
	c.key.series = sonde_fault_series(SONDE_FAULT_BASE, 0, 0);
	req.prog_fd = bpf_program__fd(end);
	req.pid = c.calib.pid;
	/* The end first: a fault that begins before its end can be seen is a drop. */
	link = sonde_link_create(&req);
	err = link < 0 ? link : let_in(obj, &c);
	err = err ? err : measure(&c, ns, &query);
	sonde_calib_stop(&c.calib);
	forget(obj, &c);
	if (c.pidfd >= 0)
		close(c.pidfd);
	return err || !anatomy ? err : tell_programs(obj, query);
}
