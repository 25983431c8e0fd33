/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Byte mutations shared by the fuzzers of target/: seeded, so that a failure can be repeated. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t fuzz_state = 88172645463325252ull;

static inline uint64_t fuzz_next(void)
{
	fuzz_state ^= fuzz_state << 13;
	fuzz_state ^= fuzz_state >> 7;
	fuzz_state ^= fuzz_state << 17;
	return fuzz_state;
}

static inline uint64_t fuzz_below(uint64_t n)
{
	return n ? fuzz_next() % n : 0;
}

/* Change some of @buf's @len bytes (room for @cap): flips, interesting values, cuts, repeats. */
static inline size_t fuzz_mutate(uint8_t *buf, size_t len, size_t cap)
{
	static const uint8_t odd[] = {0, 1, 7, 8, 0x7f, 0x80, 0xff, '\n', ' ', '-'};

	for (uint64_t n = 1 + fuzz_below(6); n && len; n--) {
		size_t at = fuzz_below(len), run = 1 + fuzz_below(8);

		switch (fuzz_below(5)) {
		case 0:
			buf[at] ^= (uint8_t)(1u << fuzz_below(8));
			break;
		case 1:
			buf[at] = odd[fuzz_below(sizeof(odd))];
			break;
		case 2:
			run = run > len - at ? len - at : run;
			memmove(buf + at, buf + at + run, len - at - run);
			len -= run;
			break;
		case 3:
			run = run > len - at ? len - at : run;
			if (len + run > cap)
				break;
			memmove(buf + at + run, buf + at, len - at);
			len += run;
			break;
		default:
			buf[at] = (uint8_t)fuzz_next();
		}
	}
	return len;
}

static inline unsigned long fuzz_iterations(int argc, char **argv, unsigned long fallback)
{
	return argc > 1 ? strtoul(argv[1], NULL, 10) : fallback;
}

#endif
