// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers with units; one parser for every option, so that junk is refused in one place. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"

struct unit {
	const char *name;
	double scale;
};

static const struct unit byte_units[] = {
	{"", 1},
	{"B", 1},
	{"K", 1024.0},
	{"M", 1048576.0},
	{"G", 1073741824.0},
	{"T", 1099511627776.0},
	{"KiB", 1024.0},
	{"MiB", 1048576.0},
	{"GiB", 1073741824.0},
	{"TiB", 1099511627776.0},
};

static const struct unit time_units[] = {
	{"", 1e9},  {"ns", 1},	 {"us", 1e3},	{"ms", 1e6},
	{"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};

int sonde_parse_u64(const char *s, uint64_t *out)
{
	char *end;
	int base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
	uint64_t v;

	if (!isdigit((unsigned char)s[0]))
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, base);
	if (errno == ERANGE)
		return -ERANGE;
	if (*end || end == s)
		return -EINVAL;
	*out = v;
	return 0;
}

static int parse_scaled(const char *s, const struct unit *units, size_t n, uint64_t *out)
{
	char *end;
	double v;

	/* strtod would take hexadecimal, "inf" and "nan"; a digit must come first. */
	if (!isdigit((unsigned char)s[0]) || s[1] == 'x' || s[1] == 'X')
		return -EINVAL;
	v = strtod(s, &end);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(end, units[i].name))
			continue;
		v = v * units[i].scale + 0.5;
		if (!(v < 18446744073709551616.0))
			return -ERANGE;
		*out = (uint64_t)v;
		return 0;
	}
	return -EINVAL;
}

int sonde_parse_bytes(const char *s, uint64_t *out)
{
	return parse_scaled(s, byte_units, SONDE_ARRAY_SIZE(byte_units), out);
}

int sonde_parse_duration(const char *s, uint64_t *out_ns)
{
	return parse_scaled(s, time_units, SONDE_ARRAY_SIZE(time_units), out_ns);
}

int sonde_parse_percent(const char *s, double *out)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)s[0]) || s[1] == 'x' || s[1] == 'X')
		return -EINVAL;
	v = strtod(s, &end);
	if (strcmp(end, "%"))
		return -EINVAL;
	*out = v / 100.0;
	return 0;
}

int sonde_parse_real(const char *s, double *out)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)s[0]) || s[strspn(s, "0123456789.")])
		return -EINVAL;
	v = strtod(s, &end);
	if (*end)
		return -EINVAL;
	*out = v;
	return 0;
}

static const char *fmt_scaled(char *buf, size_t size, double v, const struct unit *units, size_t n)
{
	size_t i = 0;
	double shown;

	while (i + 1 < n && fabs(v) >= units[i + 1].scale)
		i++;
	shown = v / units[i].scale;
	snprintf(buf, size, "%.*f %s",
		 i == 0 || fabs(shown) >= 99.95 ? 0
		 : fabs(shown) >= 9.995		? 1
						: 2,
		 shown, units[i].name);
	return buf;
}

const char *sonde_fmt_bytes(char *buf, size_t size, double bytes)
{
	static const struct unit u[] = {
		{"B", 1},
		{"KiB", 1024.0},
		{"MiB", 1048576.0},
		{"GiB", 1073741824.0},
		{"TiB", 1099511627776.0},
	};

	return fmt_scaled(buf, size, bytes, u, SONDE_ARRAY_SIZE(u));
}

const char *sonde_fmt_ns(char *buf, size_t size, double ns)
{
	static const struct unit u[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

	return fmt_scaled(buf, size, ns, u, SONDE_ARRAY_SIZE(u));
}

const char *sonde_fmt_count(char *buf, size_t size, uint64_t n)
{
	char digits[32];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t o = 0;

	for (int i = 0; i < len && o + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = digits[i];
	}
	buf[o] = '\0';
	return buf;
}
