// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of the system's allocator that loads another one while it runs, and then uses both.
 * Waits for a line on stdin before it loads ("ready") and before it allocates ("opened"); says what
 * it did:
 *
 *     allocopen LIBRARY N     truth|NAME|CALLS|BYTES|FAILED, and live|BYTES|LIVE as the library
 * says
 *
 * Built with BUILT_IN it has a jemalloc with the prefix je_ in it instead.
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
static unsigned news;
static uint64_t new_bytes;
static char in_buffer[4096], out_buffer[4096];

static void wait_line(void)
{
	char line[64];

	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

#ifdef BUILT_IN
void *je_malloc(size_t);
void *je_realloc(void *, size_t);
void je_free(void *);
void je_sdallocx(void *, size_t, int);
int je_mallctl(const char *, void *, size_t *, void *, size_t);

static void give_sized(void *p, size_t size)
{
	je_sdallocx(p, size, 0);
}

static void open_library(const char *path)
{
	(void)path;
	lib.malloc = lib.operator_new = je_malloc;
	lib.realloc = je_realloc;
	lib.free = je_free;
	lib.operator_delete = give_sized;
	lib.mallctl = je_mallctl;
	lib.free(lib.malloc(1)); /* it sets itself up */
}
#else
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
#endif

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
		news++;
		new_bytes += size;
	}
	return bytes;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 10000;
	int64_t before;
	uint64_t bytes;
	void *p;

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
	p = malloc(5);			/* the system's */
	__asm__ volatile("" : "+r"(p)); /* or the compiler leaves both out */
	free(p);
	bytes = work(n) + 5;
#ifdef BUILT_IN
	/* What stands in for operator new is malloc as well. */
	printf("truth|malloc|%u|%llu|0\n", n + 1 + news, (unsigned long long)(bytes + new_bytes));
#else
	printf("truth|malloc|%u|%llu|0\n", n + 1, (unsigned long long)bytes);
#endif
	printf("truth|realloc|%u|%llu|0\n", n, (unsigned long long)(bytes - 5 + 100ull * n));
	printf("live|%lld|%lld\ndone\n", (long long)(live() - before), (long long)live());
	wait_line();
	return 0;
}
