/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers in and out. Parsing takes the whole string or refuses it; units are part of the number.
 */
#ifndef SONDE_CORE_NUM_H
#define SONDE_CORE_NUM_H

#include <stdint.h>
#include <stddef.h>

/* Plain decimal (or 0x hexadecimal) unsigned number: 0, -EINVAL (junk, sign, empty), -ERANGE. */
int sonde_parse_u64(const char *s, uint64_t *out);
/* Bytes: "4096", "64K", "64M", "1.5G", "2T", optional "B" or "iB"; powers of 1024. */
int sonde_parse_bytes(const char *s, uint64_t *out);
/* Duration in ns: "250ms", "30s", "5m", "6h", "2d", "100us", "50ns"; a bare number is seconds. */
int sonde_parse_duration(const char *s, uint64_t *out_ns);
/* Percentage "1%" or "0.5%" as a fraction; a bare number is refused, so that 1 is never 100 %. */
int sonde_parse_percent(const char *s, double *out);

/* Plain decimal number, "3" or "2.5": no sign, no exponent, no unit. */
int sonde_parse_real(const char *s, double *out);

/* Short human forms into @buf, returned: "28.8 GiB", "3.9 ms", "61,240". */
const char *sonde_fmt_bytes(char *buf, size_t size, double bytes);
const char *sonde_fmt_ns(char *buf, size_t size, double ns);
const char *sonde_fmt_count(char *buf, size_t size, uint64_t n);

#endif
