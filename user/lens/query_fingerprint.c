// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fingerprints, by the rules of pt-query-digest (docs/lens-query.md lists them), in two passes over
 * bytes: the first writes the statement without comments, values and needless spaces, the second
 * folds lists and repeats in what the first wrote. What does not fit is cut at the end.
 */
#include <ctype.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "lens/query.h"

struct writer {
	char *out;
	size_t n, size; /* size without the NUL */
};

static bool word_char(unsigned char c)
{
	return isalnum(c) || c == '_' || c >= 0x80;
}

static void put(struct writer *w, char c)
{
	if (w->n < w->size)
		w->out[w->n++] = c;
}

static void put_space(struct writer *w)
{
	if (w->n && w->out[w->n - 1] != ' ')
		put(w, ' ');
}

static bool ends_operand(char c)
{
	return word_char((unsigned char)c) || c == '?' || c == ')' || c == '`';
}

/* A value: a sign right before it belongs to it, unless it stands between two operands. */
static void put_value(struct writer *w)
{
	while (w->n && (w->out[w->n - 1] == '-' || w->out[w->n - 1] == '+') &&
	       !(w->n > 1 && ends_operand(w->out[w->n - 2])))
		w->n--;
	put(w, '?');
}

static const char *after_quoted(const char *p, const char *end)
{
	char quote = *p++;

	while (p < end) {
		if (*p == '\\') {
			p += p + 1 < end ? 2 : 1;
		} else if (*p == quote) {
			if (p + 1 == end || p[1] != quote)
				return p + 1;
			p += 2;
		} else {
			p++;
		}
	}
	return end;
}

static const char *after_line(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));

	return nl ? nl + 1 : end;
}

/* A comment at @p: where it ends, or NULL if there is none. Version comments are code. */
static const char *after_comment(const char *p, const char *end)
{
	const char *close;

	if (*p == '#')
		return after_line(p, end);
	if (end - p < 2)
		return NULL;
	if (p[0] == '-' && p[1] == '-' && (p + 2 == end || isspace((unsigned char)p[2])))
		return after_line(p, end);
	if (p[0] != '/' || p[1] != '*' || (p + 2 < end && p[2] == '!'))
		return NULL;
	close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
	return close ? close + 2 : end;
}

/* A number at @p, in any notation; p[0] is a digit. */
static const char *after_number(const char *p, const char *end)
{
	while (p < end && (isxdigit((unsigned char)*p) || *p == '.' || *p == 'x' || *p == 'X' ||
			   ((*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E'))))
		p++;
	return p;
}

static bool word_is(const char *p, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (!word[i] || tolower((unsigned char)p[i]) != word[i])
			return false;
	return !word[n];
}

/* A word, lower case; NULL, TRUE and FALSE are values. */
static const char *put_word(struct writer *w, const char *p, const char *end)
{
	const char *from = p;
	size_t n;

	while (p < end && word_char((unsigned char)*p))
		p++;
	n = (size_t)(p - from);
	if (word_is(from, n, "null") || word_is(from, n, "true") || word_is(from, n, "false")) {
		put_value(w);
		return p;
	}
	/* x'1F' and b'01': the mark belongs to the string behind it */
	if (n == 1 && p < end && *p == '\'' && strchr("xXbBnN", *from))
		return p;
	for (; from < p; from++)
		put(w, (char)tolower((unsigned char)*from));
	return p;
}

/* First pass. */
static void put_plain(struct writer *w, const char *p, const char *end)
{
	const char *next;

	while (p < end) {
		unsigned char c = (unsigned char)*p;

		if (isspace(c)) {
			put_space(w);
			p++;
		} else if ((c == '#' || c == '-' || c == '/') && (next = after_comment(p, end))) {
			put_space(w);
			p = next;
		} else if (c == '\'' || c == '"') {
			p = after_quoted(p, end);
			put_value(w);
		} else if (isdigit(c)) {
			p = after_number(p, end);
			put_value(w);
		} else if (c == '.' && p + 1 < end && isdigit((unsigned char)p[1]) &&
			   !(w->n && (word_char((unsigned char)w->out[w->n - 1]) ||
				      w->out[w->n - 1] == '`'))) {
			p = after_number(p + 1, end);
			put_value(w);
		} else if (word_char(c)) {
			p = put_word(w, p, end);
		} else {
			put(w, (char)c);
			p++;
		}
	}
	while (w->n && (w->out[w->n - 1] == ' ' || w->out[w->n - 1] == ';'))
		w->n--;
}

/* ---- second pass ---- */

struct fold {
	const char *s;
	size_t in, n;
	struct writer w;
	bool cut;
};

static bool at_word(const struct fold *f, size_t at, const char *word, size_t n)
{
	return at + n <= f->n && !memcmp(f->s + at, word, n) &&
	       (!at || !word_char((unsigned char)f->s[at - 1])) &&
	       (at + n == f->n || !word_char((unsigned char)f->s[at + n]));
}

/* End of a run of "(?, ?), (?)" from @at, or @at itself if there is none. */
static size_t after_lists(const struct fold *f, size_t at)
{
	size_t end = at, i = at;

	while (i < f->n) {
		while (i < f->n && (f->s[i] == ' ' || f->s[i] == ','))
			i++;
		if (i >= f->n || f->s[i] != '(')
			break;
		for (i++; i < f->n && (f->s[i] == '?' || f->s[i] == ',' || f->s[i] == ' ');)
			i++;
		if (i == f->n && f->cut)
			return i;
		if (i >= f->n || f->s[i] != ')')
			break;
		end = ++i;
	}
	return end;
}

static void emit(struct fold *f, const char *text)
{
	while (*text)
		put(&f->w, *text++);
}

/* IN (?, ?) and VALUES (?, ?), (?, ?): any number of values is one form. */
static bool fold_list(struct fold *f)
{
	static const char *const words[] = {"in", "values", "value"};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]), end;

		if (!at_word(f, f->in, words[i], n))
			continue;
		end = after_lists(f, f->in + n);
		if (end == f->in + n)
			return false;
		f->in = end;
		emit(f, words[i]);
		emit(f, "(?+)");
		return true;
	}
	return false;
}

static size_t match(const struct fold *f, size_t at, const char *text)
{
	size_t n = strlen(text);

	return at + n <= f->n && !memcmp(f->s + at, text, n) ? n : 0;
}

/* LIMIT ?, ? and LIMIT ? OFFSET ? are LIMIT ?. */
static bool fold_limit(struct fold *f)
{
	static const char *const forms[] = {"limit ?, ?", "limit ?,?", "limit ? offset ?",
					    "limit ? , ?"};

	if (!at_word(f, f->in, "limit", 5))
		return false;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(forms); i++) {
		size_t n = match(f, f->in, forms[i]);

		if (!n)
			continue;
		f->in += n;
		emit(f, "limit ?");
		return true;
	}
	return false;
}

/* ASC is what ORDER BY does anyway. */
static bool fold_asc(struct fold *f, bool ordered)
{
	if (!ordered || !match(f, f->in, " asc") || !at_word(f, f->in + 1, "asc", 3))
		return false;
	f->in += 4;
	return true;
}

/* SELECT x UNION SELECT x UNION SELECT x: the repeats say nothing. @select: where x began. */
static bool fold_union(struct fold *f, size_t select)
{
	bool all = match(f, f->in, " union all ");
	const char *word = all ? " union all " : " union ";
	const char *body = f->w.out + select;
	size_t n = f->w.n - select, skip = strlen(word), end = f->in;

	if (!n || !match(f, f->in, word))
		return false;
	while (match(f, end, word) && end + skip + n <= f->n &&
	       !memcmp(f->s + end + skip, body, n) &&
	       (end + skip + n == f->n || !word_char((unsigned char)f->s[end + skip + n])))
		end += skip + n;
	if (end == f->in)
		return false;
	f->in = end;
	emit(f, all ? " /*repeat union all*/" : " /*repeat union*/");
	return true;
}

static void fold_all(struct fold *f)
{
	bool ordered = false;
	size_t select = 0;

	while (f->in < f->n) {
		char c = f->s[f->in];

		if (c == 's' && at_word(f, f->in, "select", 6)) {
			select = f->w.n;
			ordered = false;
		} else if (c == 'o' && at_word(f, f->in, "order by", 8)) {
			ordered = true;
		}
		if (((c == 'i' || c == 'v') && fold_list(f)) || (c == 'l' && fold_limit(f)) ||
		    (c == ' ' && (fold_asc(f, ordered) || fold_union(f, select))))
			continue;
		put(&f->w, c);
		f->in++;
	}
}

/* ---- statements with a form of their own ---- */

static size_t copy_lower(char *out, size_t size, const char *text, size_t n)
{
	n = n < size - 1 ? n : size - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)text[i]);
	out[n] = '\0';
	return n;
}

static size_t fingerprint_call(const char *sql, const char *end, char *out, size_t size)
{
	const char *p = sql + 4;

	while (p < end && isspace((unsigned char)*p))
		p++;
	while (p < end && (word_char((unsigned char)*p) || *p == '.'))
		p++;
	return copy_lower(out, size, sql, (size_t)(p - sql));
}

size_t sonde_fingerprint(const char *sql, size_t len, bool cut, char *out, size_t size)
{
	const char *end = sql + len;
	char plain[2 * SONDE_TEXT_BYTES];
	struct writer w = {.out = plain, .size = sizeof(plain)};
	struct fold f = {.s = plain, .w = {.out = out, .size = size ? size - 1 : 0}};

	if (!size)
		return 0;
	while (sql < end && isspace((unsigned char)*sql))
		sql++;
	if (end - sql > 5 && word_is(sql, 4, "call") && isspace((unsigned char)sql[4]))
		return fingerprint_call(sql, end, out, size);
	if (end - sql > 4 && word_is(sql, 3, "use") && isspace((unsigned char)sql[3]) &&
	    !memchr(sql, '(', (size_t)(end - sql)))
		return copy_lower(out, size, "use ?", 5);
	put_plain(&w, sql, end);
	f.n = w.n;
	f.cut = cut || w.n == w.size;
	fold_all(&f);
	out[f.w.n] = '\0';
	return f.w.n;
}

uint64_t sonde_fingerprint_id(const char *text, size_t len)
{
	uint64_t h = sonde_fnv1a(SONDE_FNV1A_BASIS, text, len);

	return h ? h : 1;
}
