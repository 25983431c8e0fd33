/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time. Everything inside is CLOCK_MONOTONIC ns, the clock of bpf_ktime_get_ns(); outputs convert to
 * UTC by the pair of readings taken at start.
 */
#ifndef SONDE_CORE_CLOCK_H
#define SONDE_CORE_CLOCK_H

#include <stdint.h>
#include <stddef.h>

#define SONDE_NS_PER_SEC 1000000000ull
#define SONDE_NS_PER_MS	 1000000ull

struct sonde_clockpair {
	uint64_t mono_ns; /* CLOCK_MONOTONIC */
	uint64_t real_ns; /* CLOCK_REALTIME, ns since 1970 UTC, at the same instant */
};

uint64_t sonde_mono_ns(void);
uint64_t sonde_real_ns(void);
/* Both clocks at one instant: the tightest of several readings. */
struct sonde_clockpair sonde_clockpair_now(void);
/* UTC ns of a monotonic time. */
uint64_t sonde_clockpair_real(const struct sonde_clockpair *pair, uint64_t mono_ns);
/* "2026-11-30T17:28:47.123456Z" into @buf (at least 28 bytes), returned. */
const char *sonde_fmt_rfc3339(char *buf, size_t size, uint64_t real_ns);

#endif
