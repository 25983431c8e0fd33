// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Machine code, random and mutated from real prologues: choosing a site, finding wrappers. Whatever
 * the bytes, the invariants of a site hold.
 */
#include <assert.h>
#include <stdio.h>

#include "fuzz/fuzz_target.h"
#include "target/heap/jemalloc_code.h"
#include "target/site.h"
#include "target/wrapper.h"

static const uint8_t seeds[][48] = {
	/* glibc's free */
	{0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0, 0x55, 0x48, 0x8d, 0x77, 0xf0, 0x53, 0xc3},
	/* endbr64; push; sub; call; jmp back */
	{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x83, 0xec, 8, 0xe8, 1, 0, 0, 0, 0xeb, 0xf0, 0xc3},
	/* gperftools' sized delete */
	{0x48, 0x8b, 5,	   1, 2,    3,	  0,	0x48, 0x85, 0xc0, 0x75, 0x10, 0xf7, 0xc7,
	 0xff, 0x1f, 0,	   0, 0x74, 0x0d, 0x48, 0x81, 0xfe, 0,	  4,	0,    0,    0x77,
	 8,    0xc3, 0xe9, 0, 1,    0,	  0,	0xe9, 0,    2,	  0,	0},
	/* jemalloc's malloc */
	{0x48, 0x8b, 0x0d, 0x49, 0x96, 0x0a, 0,	  0x64, 0x48, 0x8b, 0x91, 0x38,
	 3,    0,    0,	   0x64, 0x48, 0x3b, 0x91, 0x40, 3,	   0,	 0,    0x64,
	 0x48, 0x89, 0x91, 0x38, 3,    0,    0,	   0xc3},
	/* nop5, test, jne, jmp through a register */
	{0x0f, 0x1f, 0x44, 0, 0, 0x31, 0xc0, 0x75, 2, 0xff, 0xe0, 0x41, 0x54, 0xc3},
};

static bool counted(void *ctx, int64_t target)
{
	(void)ctx;
	return target & 4;
}

static void check_site(const uint8_t *code, size_t len, unsigned args)
{
	struct sonde_site site, entry;
	enum sonde_insn_kind kind;

	if (sonde_site_choose_code(code, len, args, false, &site))
		return;
	assert(site.slide < len && site.offset == site.slide &&
	       memchr(site.insn, 0, sizeof(site.insn)));
	assert(!sonde_insn_kind(code + site.slide, len - site.slide, &kind) && kind == site.kind);
	assert(!site.slide || site.kind == SONDE_INSN_EMULATED);
	assert(site.slide || !site.sp_delta);
	/* The mask only ever takes sites away. */
	assert(sonde_site_choose_code(code, len, 0, false, &entry) == 0);
	assert(entry.slide >= site.slide);
}

static void check_wrapper(const uint8_t *code, size_t len, unsigned args)
{
	struct sonde_wrapper w;

	if (sonde_wrapper_analyse(code, len, args, counted, NULL, &w))
		return;
	assert(w.n_split <= SONDE_MAX_SPLIT && (w.wrap == SONDE_WRAP_SOMETIMES || !w.n_split));
	for (size_t i = 0; i < w.n_split; i++) {
		assert(w.split[i].offset < len);
		for (size_t k = 0; k < i; k++)
			assert(w.split[i].offset != w.split[k].offset);
	}
}

/* A place comes of an instruction that names it, so it is never out of reach of one. */
static void check_counter(const uint8_t *code, size_t len)
{
	struct sonde_jemalloc_place p = {1, 1};

	if (sonde_jemalloc_counter(code, len, 0x1000, &p))
		assert(p.word == 1 && p.offset == 1);
	else
		assert(p.offset <= 1 << 20 && p.offset >= -(1 << 20));
}

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 100000);

	for (unsigned long i = 0; i < n; i++) {
		size_t len = sizeof(seeds[0]), cut;
		/* Exactly as long as said, so that a sanitizer sees every byte beyond. */
		uint8_t buf[64], *code;

		memcpy(buf, seeds[i % (sizeof(seeds) / sizeof(seeds[0]))], len);
		if (i % 5 == 4)
			for (size_t k = 0; k < len; k++)
				buf[k] = (uint8_t)fuzz_next();
		len = fuzz_mutate(buf, len, sizeof(buf));
		cut = len - fuzz_below(len);
		code = malloc(cut);
		if (!code)
			return 1;
		memcpy(code, buf, cut);
		check_site(code, cut, (unsigned)fuzz_below(16));
		check_wrapper(code, cut, (unsigned)fuzz_below(16));
		check_counter(code, cut);
		free(code);
	}
	return 0;
}
