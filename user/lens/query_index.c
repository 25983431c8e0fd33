// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index or table of a statement, by a scan of its words: no grammar, so it may miss one, but a
 * word inside a string or a comment is never taken for a keyword.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "lens/query.h"

struct scan {
	const char *p, *end;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '@' ||
	       (unsigned char)c >= 0x80;
}

/* Over a quoted string, its quotes doubled or escaped inside; returns after the closing one. */
static const char *skip_quoted(const char *p, const char *end)
{
	char quote = *p++;

	for (; p < end; p++) {
		if (*p == '\\' && quote != '`')
			p++;
		else if (*p == quote && (p + 1 == end || p[1] != quote))
			return p + 1;
		else if (*p == quote)
			p++;
	}
	return end;
}

static void skip_space(struct scan *s)
{
	while (s->p < s->end) {
		if (isspace((unsigned char)*s->p)) {
			s->p++;
		} else if (s->end - s->p >= 2 && s->p[0] == '/' && s->p[1] == '*') {
			const char *close = memmem(s->p + 2, (size_t)(s->end - s->p - 2), "*/", 2);

			s->p = close ? close + 2 : s->end;
		} else {
			return;
		}
	}
}

/* Next word, quoted name or single character; 0 at the end. */
static size_t next_token(struct scan *s, const char **token)
{
	skip_space(s);
	*token = s->p;
	if (s->p >= s->end)
		return 0;
	if (*s->p == '`' || *s->p == '\'' || *s->p == '"')
		s->p = skip_quoted(s->p, s->end);
	else if (is_word(*s->p))
		while (s->p < s->end && is_word(*s->p))
			s->p++;
	else
		s->p++;
	return (size_t)(s->p - *token);
}

static bool is(const char *token, size_t n, const char *word)
{
	return n == strlen(word) && !strncasecmp(token, word, n);
}

static bool is_one_of(const char *token, size_t n, const char *const *words)
{
	for (; *words; words++)
		if (is(token, n, *words))
			return true;
	return false;
}

static size_t add_name(char *out, size_t size, size_t at, const char *name, size_t n)
{
	if (n >= 2 && (*name == '`' || *name == '\'' || *name == '"')) {
		name++;
		n -= name[n - 2] == name[-1] ? 2 : 1;
	}
	if (at && at + 1 < size)
		out[at++] = ',';
	n = n < size - 1 - at ? n : size - 1 - at;
	memcpy(out + at, name, n);
	out[at + n] = '\0';
	return at + n;
}

/* Names from here, separated by commas. */
static size_t take_list(struct scan *s, char *out, size_t size)
{
	const char *t;
	size_t n, at = 0;

	for (;;) {
		n = next_token(s, &t);
		if (!n || !(is_word(*t) || *t == '`'))
			return at;
		at = add_name(out, size, at, t, n);
		n = next_token(s, &t);
		if (!n || *t != ',')
			return at;
	}
}

/* CALL SNIPPETS('data', 'index', ...): the second string. */
static size_t take_call(struct scan *s, char *out, size_t size)
{
	const char *t;
	size_t n;
	int strings = 0;

	while ((n = next_token(s, &t)))
		if ((*t == '\'' || *t == '"') && ++strings == 2)
			return add_name(out, size, 0, t, n);
	return 0;
}

size_t sonde_sql_index(const char *sql, size_t len, char *out, size_t size)
{
	static const char *const before[] = {"from",  "into",	  "update", "rtindex", "index",
					     "table", "describe", "desc",   NULL};
	static const char *const skipped[] = {"low_priority", "ignore", "if",	 "not", "exists",
					      "rtindex",      "index",	"table", NULL};
	struct scan s = {sql, sql + len}, from;
	const char *t;
	size_t n, words = 0;
	bool order = false;

	if (!size)
		return 0;
	out[0] = '\0';
	for (; (n = next_token(&s, &t)); words++) {
		if (words == 0 && is(t, n, "call"))
			return take_call(&s, out, size);
		/* "desc" is a keyword of its own only in front; ORDER BY has another. */
		if (!is_one_of(t, n, before) || (order && *t != 'f' && *t != 'F') ||
		    (words && (is(t, n, "desc") || is(t, n, "describe")))) {
			order = order || is(t, n, "order");
			continue;
		}
		for (from = s; (n = next_token(&s, &t)) && is_one_of(t, n, skipped);)
			from = s;
		s = from;
		n = take_list(&s, out, size);
		if (n)
			return n;
	}
	return 0;
}
