// SPDX-License-Identifier: GPL-2.0-or-later
/* Time; see clock.h. */
#include <stdio.h>
#include <time.h>

#include "core/clock.h"

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * SONDE_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t sonde_mono_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t sonde_real_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

struct sonde_clockpair sonde_clockpair_now(void)
{
	struct sonde_clockpair best = {0};
	uint64_t best_gap = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t a = sonde_mono_ns(), real = sonde_real_ns(), b = sonde_mono_ns();

		if (b - a >= best_gap)
			continue;
		best_gap = b - a;
		best = (struct sonde_clockpair){.mono_ns = a + (b - a) / 2, .real_ns = real};
	}
	return best;
}

uint64_t sonde_clockpair_real(const struct sonde_clockpair *pair, uint64_t mono_ns)
{
	return pair->real_ns + (mono_ns - pair->mono_ns); /* wraps right for earlier times */
}

const char *sonde_fmt_rfc3339(char *buf, size_t size, uint64_t real_ns)
{
	time_t sec = (time_t)(real_ns / SONDE_NS_PER_SEC);
	struct tm tm;
	size_t n;

	gmtime_r(&sec, &tm);
	n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, size - n, ".%06uZ", (unsigned)(real_ns % SONDE_NS_PER_SEC / 1000));
	return buf;
}
