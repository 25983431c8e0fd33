// SPDX-License-Identifier: GPL-2.0-or-later
/* A growing string; see str.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static int reserve(struct sonde_str *str, size_t more)
{
	size_t need = str->len + more + 1, cap = str->cap ? str->cap : 64;
	char *s;

	if (need <= str->cap)
		return 0;
	while (cap < need)
		cap *= 2;
	s = realloc(str->s, cap);
	if (!s)
		return -ENOMEM;
	str->s = s;
	str->cap = cap;
	return 0;
}

void sonde_str_fini(struct sonde_str *str)
{
	free(str->s);
	*str = (struct sonde_str){0};
}

void sonde_str_clear(struct sonde_str *str)
{
	str->len = 0;
	if (str->s)
		str->s[0] = '\0';
}

int sonde_str_add(struct sonde_str *str, const char *bytes, size_t len)
{
	int err = reserve(str, len);

	if (err)
		return err;
	if (len)
		memcpy(str->s + str->len, bytes, len);
	str->len += len;
	str->s[str->len] = '\0';
	return 0;
}

int sonde_str_addc(struct sonde_str *str, char c)
{
	return sonde_str_add(str, &c, 1);
}

int sonde_str_addf(struct sonde_str *str, const char *fmt, ...)
{
	va_list ap;
	int n, err;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	err = reserve(str, (size_t)n);
	if (err)
		return err;
	va_start(ap, fmt);
	vsnprintf(str->s + str->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	str->len += (size_t)n;
	return 0;
}

const char *sonde_str_get(const struct sonde_str *str)
{
	return str->s ? str->s : "";
}

int sonde_lines_vaddf(char ***lines, size_t *n, size_t *cap, const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		return -ENOMEM;
	if (SONDE_GROW(*lines, *n, *cap)) {
		free(text);
		return -ENOMEM;
	}
	(*lines)[(*n)++] = text;
	return 0;
}

bool sonde_str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Length of the well-formed UTF-8 sequence at @p (at most @n bytes), 0 if malformed (RFC 3629). */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	static const struct {
		unsigned char mask, lead, lo2, hi2;
		size_t len;
	} forms[] = {
		{0xff, 0xe0, 0xa0, 0xbf, 3}, {0xff, 0xed, 0x80, 0x9f, 3},
		{0xff, 0xf0, 0x90, 0xbf, 4}, {0xff, 0xf4, 0x80, 0x8f, 4},
		{0xe0, 0xc0, 0x80, 0xbf, 2}, {0xf0, 0xe0, 0x80, 0xbf, 3},
		{0xfc, 0xf0, 0x80, 0xbf, 4},
	};

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2)
		return 0;
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		if ((p[0] & forms[f].mask) != forms[f].lead)
			continue;
		if (n < forms[f].len || p[1] < forms[f].lo2 || p[1] > forms[f].hi2)
			return 0;
		for (size_t i = 2; i < forms[f].len; i++)
			if ((p[i] & 0xc0) != 0x80)
				return 0;
		return forms[f].len;
	}
	return 0;
}

/* C0 but for tab and newline, DEL, and C1, which some terminals obey too. */
static bool is_control(const unsigned char *p, size_t n)
{
	if (n == 2)
		return p[0] == 0xc2 && p[1] < 0xa0;
	return n == 1 && (p[0] < 0x20 || p[0] == 0x7f) && p[0] != '\t' && p[0] != '\n';
}

int sonde_str_add_utf8(struct sonde_str *str, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_len(p + i, len - i);
		bool bad = !n || is_control(p + i, n);
		int err = bad ? sonde_str_add(str, REPLACEMENT, strlen(REPLACEMENT))
			      : sonde_str_add(str, bytes + i, n);

		if (err)
			return err;
		i += n ? n : 1;
	}
	return 0;
}

const char *sonde_plain(char *buf, size_t size, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t left = strlen(s), used = 0;

	while (left) {
		size_t n = utf8_len(p, left), add;
		bool bad = !n || is_control(p, n);
		const char *from = bad			      ? REPLACEMENT
				   : *p == '\n' || *p == '\t' ? " "
							      : (const char *)p;

		n = n ? n : 1;
		add = bad ? strlen(REPLACEMENT) : n;
		if (used + add >= size)
			break;
		memcpy(buf + used, from, add);
		used += add;
		p += n;
		left -= n;
	}
	buf[used] = '\0';
	return buf;
}
