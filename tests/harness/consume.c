// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A reader of sonde/consumption.h, and a program to be observed.
 *
 * `consume hold` says "ready"; a line N makes it allocate until N more bytes are in use by the
 * allocator's own account (negative: free), and it says "in use USED"; "q" ends it.
 *
 * `consume read FILE` prints one value: bytes, bound, age in ns, source, ended.
 * LIBS: -ldl
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "sonde/consumption.h"

#define BLOCKS (1 << 20)

static int (*get_property)(const char *, size_t *);
static int (*get_mallctl)(const char *, void *, size_t *, void *, size_t);

static void find(const char *symbol, void *pointer)
{
	void *found = dlsym(RTLD_DEFAULT, symbol);

	memcpy(pointer, &found, sizeof(found));
}

/* jemalloc's statistics take what thread caches hold for allocated; our one thread's own do not. */
static size_t in_use(void)
{
	uint64_t in = 0, out = 0;
	size_t v, size = sizeof(in);
	struct mallinfo2 m;

	if (get_property && get_property("generic.current_allocated_bytes", &v))
		return v;
	if (get_mallctl && !get_mallctl("thread.allocated", &in, &size, NULL, 0) &&
	    !get_mallctl("thread.deallocated", &out, &size, NULL, 0))
		return in - out;
	m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static int hold(void)
{
	static void *block[BLOCKS];
	static char line[64], in[4096], out[4096]; /* stdio makes none of its own */
	size_t n = 0;

	setvbuf(stdin, in, _IOFBF, sizeof(in));
	setvbuf(stdout, out, _IOLBF, sizeof(out));
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin) && line[0] != 'q') {
		long want = strtol(line, NULL, 10);
		size_t from = in_use();

		while (want > 0 && n < BLOCKS && (long)(in_use() - from) < want) {
			block[n] = malloc(100 + n % 3000);
			n++;
		}
		while (want < 0 && n && (long)(from - in_use()) < -want)
			free(block[--n]);
		printf("in use %zu\n", in_use());
	}
	return 0;
}

static int read_one(const struct sonde_consumption_page *page)
{
	struct sonde_consumption c;

	if (!sonde_consumption_read(page, &c))
		return 1;
	printf("%" PRId64 " %" PRIu64 " %" PRIu64 " %u %u\n", c.bytes, c.bound,
	       sonde_consumption_age_ns(&c), c.source, c.ended);
	return 0;
}

int main(int argc, char **argv)
{
	const struct sonde_consumption_page *page;

	find("MallocExtension_GetNumericProperty", &get_property);
	find("mallctl", &get_mallctl);
	if (argc == 2 && !strcmp(argv[1], "hold"))
		return hold();
	page = argc > 2 ? sonde_consumption_map(argv[2]) : NULL;
	if (!page) {
		fprintf(stderr, "consume: no page there\n");
		return 3;
	}
	if (!strcmp(argv[1], "read"))
		return read_one(page);
	return 2;
}
