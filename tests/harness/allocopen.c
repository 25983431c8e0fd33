// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of the system's allocator that loads another one while it runs, and then uses both.
 * Waits for a line on stdin before it loads ("ready") and before it allocates ("opened"); says what
 * it did:
 *
 *     allocopen LIBRARY N     truth|NAME|CALLS|BYTES|FAILED and live|BYTES|LIVE, the library's own
 * figure
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT 4096

static struct {
	void *(*malloc)(size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*operator_new)(size_t);
	void (*operator_delete)(void *, size_t);
	int (*mallctl)(const char *, void *, size_t *, void *, size_t);
	int (*property)(const char *, size_t *);
} lib;

static void *kept[KEPT];
static char in_buffer[4096], out_buffer[4096];

static void wait_line(void)
{
	char line[64];

	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static void *symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	if (!p) {
		fprintf(stderr, "allocopen: no %s\n", name);
		exit(1);
	}
	return p;
}

static void open_library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		fprintf(stderr, "allocopen: %s\n", dlerror());
		exit(1);
	}
	*(void **)&lib.malloc = symbol(handle, "malloc");
	*(void **)&lib.realloc = symbol(handle, "realloc");
	*(void **)&lib.free = symbol(handle, "free");
	*(void **)&lib.operator_new = symbol(handle, "_Znwm");
	*(void **)&lib.operator_delete = symbol(handle, "_ZdlPvm");
	*(void **)&lib.mallctl = dlsym(handle, "mallctl");
	*(void **)&lib.property = dlsym(handle, "MallocExtension_GetNumericProperty");
	lib.free(lib.malloc(1)); /* it sets itself up */
}

static int64_t live(void)
{
	uint64_t epoch = 1;
	size_t n = 0, len = sizeof(n);

	if (lib.property) {
		if (!lib.property("generic.current_allocated_bytes", &n))
			abort();
		return (int64_t)n;
	}
	lib.mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	lib.mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	if (lib.mallctl("stats.allocated", &n, &len, NULL, 0))
		abort();
	return (int64_t)n;
}

/* A block stays where its place was free, else it and the other one go. */
static uint64_t work(unsigned n)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t size = (i * 2654435761u) >> (i % 7 == 0 ? 15 : 22);
		void **place = &kept[(i * 40503u) % KEPT], *p = lib.malloc(size);

		bytes += size;
		if (!*place) {
			*place = lib.realloc(p, size + 100);
			continue;
		}
		lib.free(lib.realloc(p, size + 100));
		lib.free(*place);
		*place = NULL;
		lib.operator_delete(lib.operator_new(size), size);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 10000;
	int64_t before;
	uint64_t bytes;

	if (argc < 2)
		return 2;
	setvbuf(stdin, in_buffer, _IOFBF, sizeof(in_buffer));
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	printf("ready %d\n", getpid());
	wait_line();
	open_library(argv[1]);
	printf("opened\n");
	wait_line();
	before = live();
	free(malloc(5)); /* the system's */
	bytes = work(n) + 5;
	printf("truth|malloc|%u|%llu|0\n", n + 1, (unsigned long long)bytes);
	printf("truth|realloc|%u|%llu|0\n", n, (unsigned long long)(bytes - 5 + 100ull * n));
	printf("live|%lld|%lld\ndone\n", (long long)(live() - before), (long long)live());
	wait_line();
	return 0;
}
