// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Accounts of the engine itself: what was dropped, what the programs cost, what its maps hold. And
 * iterators, which run once, on demand, for their side effects.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/engine_priv.h"
#include "core/err.h"
#include "core/file.h"
#include "core/mem.h"

static int prog_info(const struct bpf_program *prog, struct bpf_prog_info *info)
{
	uint32_t len = sizeof(*info);
	int fd = bpf_program__fd(prog);

	memset(info, 0, sizeof(*info));
	if (fd < 0)
		return -ENOENT;
	return bpf_obj_get_info_by_fd(fd, info, &len) ? -errno : 0;
}

static uint64_t recursion_of(struct bpf_object *obj)
{
	struct bpf_program *prog;
	struct bpf_prog_info info;
	uint64_t sum = 0;

	bpf_object__for_each_program(prog, obj) if (!prog_info(prog, &info)) sum +=
		info.recursion_misses;
	return sum;
}

int sonde_engine_drops(struct sonde_engine *e, uint64_t out[SONDE_LENS__MAX][SONDE_DROP__MAX])
{
	uint64_t sums[SONDE_LENS__MAX][SONDE_DROP__MAX] = {};
	int cpus = libbpf_num_possible_cpus();
	sonde_autofree uint64_t *values = cpus > 0 ? calloc((size_t)cpus, sizeof(*values)) : NULL;

	if (!values)
		return -ENOMEM;
	for (uint32_t row = 0; row < SONDE_DROP_ROWS; row++) {
		if (bpf_map_lookup_elem(e->maps.drops, &row, values))
			return sonde_err(errno, "cannot read the drop counters: %s",
					 strerror(errno));
		for (int cpu = 0; cpu < cpus; cpu++)
			sums[row / SONDE_DROP__MAX][row % SONDE_DROP__MAX] += values[cpu];
	}
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		if (e->lens[i].loaded)
			sums[i][SONDE_DROP_RECURSION] += recursion_of(e->lens[i].obj);
	memcpy(out, sums, sizeof(sums));
	return 0;
}

static int read_to_end(int link_fd)
{
	sonde_autoclose int fd = bpf_iter_create(link_fd);
	char buf[4096];
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}

int sonde_engine_run_iter(struct sonde_engine *e, int lens, const char *program, uint32_t pid)
{
	union bpf_iter_link_info info = {.task.pid = pid};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));
	int prog = sonde_engine_prog_fd(e, lens, program), err;
	sonde_autoclose int link = -1;

	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, 0, BPF_TRACE_ITER, pid ? &opts : NULL);
	/* Before 6.1, f0d74c4da1f0 ("bpf: Parameterize task iterators"), an iterator walks every
	 * task; its program must filter anyway. */
	if (link < 0 && (errno == E2BIG || errno == EINVAL))
		link = bpf_link_create(prog, 0, BPF_TRACE_ITER, NULL);
	err = link < 0 ? -errno : read_to_end(link);
	if (err)
		return sonde_err(err, "cannot run iterator %s: %s", program, strerror(-err));
	return 0;
}

int sonde_engine_stats(struct sonde_engine *e, bool on)
{
	if (on && e->stats_fd < 0) {
		int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

		if (fd < 0)
			return sonde_err(errno, "cannot switch BPF statistics on: %s",
					 strerror(errno));
		e->stats_fd = fd;
	}
	if (!on && e->stats_fd >= 0)
		close(SONDE_TAKE_FD(e->stats_fd));
	return 0;
}

int sonde_engine_prog_cost(struct sonde_engine *e, int lens, struct sonde_prog_cost *out)
{
	struct sonde_prog_cost sum = {};
	struct bpf_program *prog;
	struct bpf_prog_info info;

	if (lens < 0 || lens >= SONDE_LENS__MAX || !e->lens[lens].loaded)
		return -ENOENT;
	bpf_object__for_each_program(prog, e->lens[lens].obj)
	{
		if (prog_info(prog, &info))
			continue;
		sum.runs += info.run_cnt;
		sum.run_ns += info.run_time_ns;
	}
	*out = sum;
	return 0;
}

static uint64_t memlock_of(const struct bpf_map *map)
{
	sonde_autofree char *text = NULL;
	unsigned long bytes = 0;
	int fd = bpf_map__fd(map);
	const char *row;

	if (fd < 0 || sonde_read_filef(&text, NULL, "/proc/self/fdinfo/%d", fd))
		return 0;
	row = strstr(text, "memlock:");
	if (!row || sscanf(row, "memlock: %lu", &bytes) != 1)
		bytes = 0;
	/* Before 6.4, 90a5527d7686 ("bpf: add new map ops ->map_mem_usage"), fdinfo computed it
	 * from the size of a value, of which a ring has none. */
	if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF && bytes < bpf_map__max_entries(map))
		bytes = bpf_map__max_entries(map);
	return bytes;
}

static uint64_t object_bytes(struct bpf_object *obj, bool shared)
{
	struct bpf_map *map;
	uint64_t sum = 0;

	bpf_object__for_each_map(map,
				 obj) if (shared || !sonde_engine_map_is_shared(bpf_map__name(map)))
		sum += memlock_of(map);
	return sum;
}

uint64_t sonde_engine_map_bytes(const struct sonde_engine *e)
{
	uint64_t sum = object_bytes(e->shared, true);

	for (int i = 0; i < SONDE_LENS__MAX; i++)
		if (e->lens[i].loaded)
			sum += object_bytes(e->lens[i].obj, false);
	return sum;
}
