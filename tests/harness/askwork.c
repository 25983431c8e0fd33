// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See askwork.h. `askwork FUNCTION REQUESTS TURNS BLOCKS`; what the C library does not have must be
 * preloaded. `nothing` asks nothing at all.
 * LIBS: -ldl
 */
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

#include "harness/askwork.h"

static int (*get_mallctl)(const char *, void *, size_t *, void *, size_t);
static int (*get_numeric)(const char *, size_t *);
static void (*get_stats)(char *, int);
static FILE *null;
static char text[20000];
static uint64_t epoch = 1;
static size_t size = sizeof(epoch);

ASK_CALLERS(mallinfo2, sink += mallinfo2().uordblks)
ASK_CALLERS(malloc_info, malloc_info(0, null))
ASK_CALLERS(mallctl, get_mallctl("epoch", &epoch, &size, &epoch, size))
ASK_CALLERS(numeric, get_numeric("generic.current_allocated_bytes", &size))
ASK_CALLERS(stats, get_stats(text, sizeof(text)))
ASK_CALLERS(nothing, sink++)

static const struct {
	struct ask ask;
	const char *symbol;
	void *pointer;
} kinds[] = {
	{{"mallinfo2", mallinfo2_report, mallinfo2_limit}, NULL, NULL},
	{{"malloc_info", malloc_info_report, malloc_info_limit}, NULL, NULL},
	{{"mallctl", mallctl_report, mallctl_limit}, "mallctl", &get_mallctl},
	{{"numeric", numeric_report, numeric_limit},
	 "MallocExtension_GetNumericProperty",
	 &get_numeric},
	{{"stats", stats_report, stats_limit}, "MallocExtension_GetStats", &get_stats},
	{{"nothing", nothing_report, nothing_limit}, NULL, NULL},
};

static int find(const char *symbol, void *pointer)
{
	void *found = symbol ? dlsym(RTLD_DEFAULT, symbol) : NULL;

	if (!symbol)
		return 0;
	if (!found) {
		fprintf(stderr, "askwork: %s is not there: preload its library\n", symbol);
		return -1;
	}
	memcpy(pointer, &found, sizeof(found));
	return 0;
}

int main(int argc, char **argv)
{
	null = fopen("/dev/null", "w");
	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i].ask.name))
			return find(kinds[i].symbol, kinds[i].pointer)
				       ? 1
				       : serve(argc - 2, argv + 2, &kinds[i].ask);
	fprintf(stderr, "usage: askwork FUNCTION REQUESTS TURNS BLOCKS\n");
	return 2;
}
