// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compare the executable memory of a process with the files it was mapped from, byte by byte: a
 * line per mapping, "DIFFERENT BYTES HASH PATH", and the sum of DIFFERENT last. A uprobe is a byte
 * that differs (the breakpoint), so this says from the outside whether any is in place and whether
 * the text is again what it was. Invariant: the process is only read, never stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int verbose;

struct mapping {
	uint64_t begin, end, offset;
	char path[512];
};

/* An executable mapping of a file; 0 for any other line of maps. */
static int parse(const char *line, struct mapping *m)
{
	char perms[8];

	m->path[0] = '\0';
	if (sscanf(line, "%lx-%lx %7s %lx %*s %*u %511[^\n]", &m->begin, &m->end, perms, &m->offset,
		   m->path) < 4)
		return 0;
	return perms[2] == 'x' && m->path[0] == '/';
}

static void show(const uint8_t *a, const uint8_t *b, size_t len, uint64_t offset)
{
	for (size_t i = 0, shown = 0; i < len && shown < 64; i++)
		if (a[i] != b[i] && ++shown)
			printf("  %lx: %02x not %02x\n", offset + i, a[i], b[i]);
}

/* Bytes of @m that differ, -1 when memory or file cannot be read (it was unmapped meanwhile). */
static long compare(const char *pid, const struct mapping *m, int mem, uint64_t *hash)
{
	size_t len = m->end - m->begin;
	uint8_t *a = malloc(len), *b = calloc(1, len);
	char name[128];
	long differ = -1;
	int fd;

	snprintf(name, sizeof(name), "/proc/%s/map_files/%lx-%lx", pid, m->begin, m->end);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (a && b && fd >= 0 && pread(mem, a, len, (off_t)m->begin) == (ssize_t)len &&
	    pread(fd, b, len, (off_t)m->offset) > 0) {
		differ = 0;
		*hash = 0xcbf29ce484222325ull;
		for (size_t i = 0; i < len; i++) {
			differ += a[i] != b[i];
			*hash = (*hash ^ a[i]) * 0x100000001b3ull;
		}
		if (verbose && differ)
			show(a, b, len, m->offset);
	}
	if (fd >= 0)
		close(fd);
	free(a);
	free(b);
	return differ;
}

int main(int argc, char **argv)
{
	char path[64], line[1024];
	struct mapping m;
	uint64_t hash;
	long total = 0;
	FILE *maps;
	int mem;

	verbose = argc == 3 && !strcmp(argv[1], "-v");
	if (argc != 2 + verbose) {
		fprintf(stderr, "usage: textdiff [-v] PID\n");
		return 2;
	}
	argv += verbose;
	snprintf(path, sizeof(path), "/proc/%s/maps", argv[1]);
	maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (!maps || mem < 0) {
		fprintf(stderr, "textdiff: cannot read pid %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), maps)) {
		long differ = parse(line, &m) ? compare(argv[1], &m, mem, &hash) : -1;

		if (differ < 0)
			continue;
		printf("%ld %lu %016lx %s\n", differ, m.end - m.begin, hash, m.path);
		total += differ;
	}
	printf("%ld\n", total);
	fclose(maps);
	close(mem);
	return 0;
}
