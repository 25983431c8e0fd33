// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Is the place that was chosen for a probe passed as often as the function is called? Arms both at
 * once, for every entry of the allocator of a process, and says after a line on stdin
 *
 *     site SYMBOL alloc|free SLIDE HITS HITS-AT-ENTRY
 *
 *     sitecount PID
 */
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/sitecount.skel.h"
#include "core/num.h"
#include "target/allocator.h"

#define MAX_PROBES 256

static struct sitecount_bpf *skel;

static int probe(const char *path, pid_t pid, uint64_t offset, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie);
	struct bpf_link *link =
		bpf_program__attach_uprobe_opts(skel->progs.count, pid, path, offset, &opts);

	if (!link)
		fprintf(stderr, "sitecount: %s+0x%lx: %s\n", path, (unsigned long)offset,
			strerror(errno));
	return link ? 0 : -1;
}

static uint64_t hits(uint32_t key)
{
	uint64_t n = 0;

	bpf_map_lookup_elem(bpf_map__fd(skel->maps.hits), &key, &n);
	return n;
}

static const char *side(enum sonde_alloc_op op)
{
	return op == SONDE_ALLOC_FREE || op == SONDE_ALLOC_DELETE || op == SONDE_ALLOC_DELETE_SIZED
		       ? "free"
		       : "alloc";
}

static int run(pid_t pid, const struct sonde_module *m, const struct sonde_alloc_site *sites,
	       size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (probe(m->open_path, pid, sites[i].site.offset, 2 * i) ||
		    probe(m->open_path, pid, sites[i].site.function, 2 * i + 1))
			return 1;
	puts("attached");
	fflush(stdout);
	getchar();
	for (size_t i = 0; i < n; i++)
		printf("site %s %s %u %lu %lu\n", sites[i].symbol, side(sites[i].entry->op),
		       sites[i].site.slide, hits((uint32_t)(2 * i)), hits((uint32_t)(2 * i + 1)));
	puts("end");
	return 0;
}

int main(int argc, char **argv)
{
	const struct sonde_allocator *a;
	struct sonde_alloc_site *sites;
	struct sonde_modules mods;
	char version[32];
	size_t module, n;
	uint64_t pid;

	if (argc != 2 || sonde_parse_u64(argv[1], &pid) || sonde_modules_read((pid_t)pid, &mods) ||
	    sonde_allocator_detect((pid_t)pid, &mods, &a, &module, version, sizeof(version)) ||
	    sonde_allocator_sites(a, &mods.m[module], false, &sites, &n) || 2 * n > MAX_PROBES)
		return 1;
	skel = sitecount_bpf__open_and_load();
	return skel ? run((pid_t)pid, &mods.m[module], sites, n) : 1;
}
