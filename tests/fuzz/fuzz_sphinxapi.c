// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SphinxAPI bodies, good ones mutated and cut: what the decoder returns lies inside the body,
 * whatever the lengths in it say.  fuzz_sphinxapi [ITERATIONS] [SEED]
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lens/query.h"

static uint64_t rng;

static uint32_t rnd(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16) % below;
}

static void u32(uint8_t *b, size_t *n, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		b[(*n)++] = (uint8_t)(v >> shift);
}

static void text(uint8_t *b, size_t *n, uint32_t len)
{
	u32(b, n, len);
	memset(b + *n, 'a' + (int)rnd(26), len);
	*n += len;
}

static size_t make(uint8_t *b)
{
	size_t n = 0;

	for (uint32_t k = 1 + rnd(12); k--;) {
		if (rnd(3))
			u32(b, &n, rnd(4) ? rnd(20) : (uint32_t)rng);
		else
			text(b, &n, rnd(40));
	}
	for (uint32_t flips = rnd(3) ? 0 : rnd(5); flips--;)
		b[rnd((uint32_t)n)] = (uint8_t)rnd(256);
	return n;
}

static void inside(const char *p, size_t n, const uint8_t *b, size_t len)
{
	if (n)
		assert((const uint8_t *)p >= b && (const uint8_t *)p + n <= b + len);
}

static void one(void)
{
	static const unsigned versions[] = {0x101, 0x104, 0x113, 0x119, 0x11b, 0x11e, 0x120, 0x128};
	struct sonde_api_request r;
	uint8_t b[1024], *copy;
	size_t n = make(b), len = rnd(2) ? n : rnd((uint32_t)n + 1);

	copy = malloc(len ? len : 1);
	if (!copy)
		exit(1);
	memcpy(copy, b, len);
	if (sonde_sphinxapi_decode(rnd(24), versions[rnd(8)], (const char *)copy, len, &r)) {
		inside(r.text, r.text_len, copy, len);
		inside(r.index, r.index_len, copy, len);
		inside(r.order, r.order_len, copy, len);
		assert(r.queries >= 1 && r.queries <= 4096);
	}
	free(copy);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;

	rng = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252u;
	for (uint64_t i = 0; i < rounds; i++)
		one();
	printf("fuzz_sphinxapi: %llu bodies\n", (unsigned long long)rounds);
	return 0;
}
