/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A growing string. Always NUL-terminated once anything was added; `len` excludes the NUL, so it may
 * hold any bytes. Zero-initialise, fini when done.
 */
#ifndef SONDE_CORE_STR_H
#define SONDE_CORE_STR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>

struct sonde_str {
	char *s;
	size_t len, cap;
};

void sonde_str_fini(struct sonde_str *str);
void sonde_str_clear(struct sonde_str *str);
/* Each returns 0 or -ENOMEM, the string unchanged on failure. */
int sonde_str_add(struct sonde_str *str, const char *bytes, size_t len);
int sonde_str_addc(struct sonde_str *str, char c);
int sonde_str_addf(struct sonde_str *str, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The text, "" while empty; owned by @str. */
const char *sonde_str_get(const struct sonde_str *str);

#define sonde_autostr __attribute__((cleanup(sonde_str_fini)))

/*
 * Append a formatted line to the heap array @lines of *n, whose room *cap is; whoever has the array frees
 * it and its lines. 0 or -ENOMEM, the array as it was.
 */
int sonde_lines_vaddf(char ***lines, size_t *n, size_t *cap, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

bool sonde_str_starts(const char *s, const char *prefix);

/*
 * Append @bytes as valid UTF-8: malformed sequences and control characters other than tab and newline
 * become U+FFFD. Used wherever bytes of the target reach an output.
 */
int sonde_str_add_utf8(struct sonde_str *str, const char *bytes, size_t len);

/*
 * The same into @buf (@size > 0) as one line, tab and newline as blanks, cut between two characters where
 * it does not fit. Returns @buf. A process chooses its own name: what it says must not steer a terminal.
 */
const char *sonde_plain(char *buf, size_t size, const char *s);
#define SONDE_PLAIN_MAX 512
#define SONDE_PLAIN(s)	sonde_plain((char[SONDE_PLAIN_MAX]){0}, SONDE_PLAIN_MAX, (s))

#endif
