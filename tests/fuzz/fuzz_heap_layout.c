// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The recipes that find an allocator's figures, on its library with bytes changed: in the code that
 * they decode, in the tables, anywhere. Whatever the bytes: an answer or a refusal with a reason,
 * in the end.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"
#include "fuzz/fuzz_target.h"
#include "target/heap/heap.h"

#define LIBS "/usr/lib/x86_64-linux-gnu/"

static const struct {
	const char *path, *allocator;
	const char *decoded[4]; /* functions whose code matters most */
} seeds[] = {
	{LIBS "libc.so.6", "glibc", {"mallinfo2", "malloc_stats", "malloc_trim", "malloc"}},
	{LIBS "libjemalloc.so.2", "jemalloc", {"malloc", "_Znwm", "free", "sdallocx"}},
	{LIBS "libtcmalloc_minimal.so.4",
	 "tcmalloc (gperftools)",
	 {"_ZN22TCMallocImplementation18GetNumericPropertyEPKcPm",
	  "_ZN8tcmalloc15CentralFreeList13OverheadBytesEv",
	  "_ZN8tcmalloc15CentralFreeList9tc_lengthEv",
	  "_ZN8tcmalloc11ThreadCache14GetThreadStatsEPmS1_"}},
};

struct copy {
	int fd;
	size_t size;
	uint64_t at[4], len[4]; /* of what is decoded */
	char path[32];
	uint8_t *bytes;
};

static void find_functions(struct copy *c, size_t seed)
{
	struct sonde_elf *elf;
	struct sonde_sym sym;

	assert(!sonde_elf_open(&elf, c->path, ""));
	for (size_t i = 0; i < 4; i++) {
		assert(!sonde_elf_find(elf, seeds[seed].decoded[i], &sym));
		c->at[i] = sym.offset;
		c->len[i] = sym.size;
	}
	sonde_elf_free(&elf);
}

static int make_copy(struct copy *c, size_t seed)
{
	int from = open(seeds[seed].path, O_RDONLY);
	struct stat st;

	if (from < 0 || fstat(from, &st))
		return -1;
	c->size = (size_t)st.st_size;
	c->bytes = malloc(c->size);
	c->fd = memfd_create("fuzz", MFD_CLOEXEC);
	assert(c->bytes && c->fd >= 0);
	assert(read(from, c->bytes, c->size) == (ssize_t)c->size);
	assert(write(c->fd, c->bytes, c->size) == (ssize_t)c->size);
	close(from);
	snprintf(c->path, sizeof(c->path), "/proc/self/fd/%d", c->fd);
	find_functions(c, seed);
	return 0;
}

static void derive(const struct copy *c, size_t seed)
{
	struct sonde_heap_layout l = {.reader = sonde_heap_reader_find(seeds[seed].allocator)};
	struct sonde_elf *elf;
	int err;

	if (sonde_elf_try(&elf, c->path, ""))
		return;
	err = l.reader->derive(elf, &l);
	assert(!err || err == -EOPNOTSUPP || err == -ENOMEM);
	assert(err != -EOPNOTSUPP || l.why[0]);
	sonde_elf_free(&elf);
}

/* Mutate a stretch, derive, and put it back. */
static void one(const struct copy *c, size_t seed)
{
	size_t which = fuzz_below(6), at, len;
	uint8_t buf[256];

	if (which < 4) {
		len = fuzz_below(c->len[which] < sizeof(buf) ? c->len[which] : sizeof(buf)) + 1;
		at = c->at[which] + fuzz_below(c->len[which] - len + 1);
	} else {
		len = sizeof(buf);
		at = which == 4 ? 0 : fuzz_below(c->size - len);
	}
	memcpy(buf, c->bytes + at, len);
	fuzz_mutate(buf, len, len);
	assert(pwrite(c->fd, buf, len, (off_t)at) == (ssize_t)len);
	derive(c, seed);
	assert(pwrite(c->fd, c->bytes + at, len, (off_t)at) == (ssize_t)len);
}

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 600);

	sonde_log_set_level(SONDE_LOG_NONE);
	for (size_t seed = 0; seed < SONDE_ARRAY_SIZE(seeds); seed++) {
		struct copy c;

		if (make_copy(&c, seed)) {
			printf("no %s here\n", seeds[seed].path);
			continue;
		}
		for (unsigned long i = 0; i < n / SONDE_ARRAY_SIZE(seeds); i++)
			one(&c, seed);
		close(c.fd);
		free(c.bytes);
	}
	printf("%lu mutated libraries\n", n);
	return 0;
}
