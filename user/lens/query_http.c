// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an HTTP request asks for: its form, with what changes from one to the next replaced. Paths
 * keep their words, numbers in them become `?`; a query string keeps its keys. Manticore's
 * endpoints are looked into: SQL in /sql and /cli, and JSON bodies, whose shape stays and whose
 * values become `?`.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "lens/query.h"
#include "sonde/wire.h"

const char *sonde_http_command_name(unsigned command)
{
	static const struct {
		unsigned command;
		const char *name;
	} names[] = {
		{SONDE_HTTP_GET, "get"},	 {SONDE_HTTP_POST, "post"},
		{SONDE_HTTP_PUT, "put"},	 {SONDE_HTTP_HEAD, "head"},
		{SONDE_HTTP_DELETE, "delete"},	 {SONDE_HTTP_PATCH, "patch"},
		{SONDE_HTTP_OPTIONS, "options"},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (names[i].command == command)
			return names[i].name;
	return "unknown";
}

static const char *find(const char *s, size_t n, const char *what)
{
	return memmem(s, n, what, strlen(what));
}

/* Is the body in chunks, as a header before @body says? */
static bool is_chunked(const char *text, const char *body)
{
	static const char name[] = "\ntransfer-encoding:", value[] = "chunked";

	for (const char *at = text; at + sizeof(name) - 1 <= body; at++) {
		if (strncasecmp(at, name, sizeof(name) - 1))
			continue;
		for (at += sizeof(name) - 1; at < body && *at == ' '; at++)
			;
		return body - at >= (ptrdiff_t)sizeof(value) - 1 &&
		       !strncasecmp(at, value, sizeof(value) - 1);
	}
	return false;
}

static int hex(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
					    : -1;
}

/* The chunks of @n bytes without their sizes, as far as they go; the length. */
static size_t join_chunks(const char *s, size_t n, char *to)
{
	size_t i = 0, o = 0, size;

	while (i < n && hex(s[i]) >= 0) {
		for (size = 0; i < n && hex(s[i]) >= 0 && size <= n; i++)
			size = size * 16 + (size_t)hex(s[i]);
		while (i < n && s[i] != '\n')
			i++;
		for (i++; i < n && size; size--)
			to[o++] = s[i++];
		i += 2; /* the line's end behind the chunk */
	}
	return o;
}

bool sonde_http_decode(const char *text, size_t len, char *joined, struct sonde_http_request *out)
{
	const char *line_end = find(text, len, "\r\n"), *blank = memchr(text, ' ', len), *end,
		   *body;

	if (!blank)
		return false;
	out->method = text;
	out->method_len = (size_t)(blank - text);
	out->path = blank + 1;
	end = line_end ? line_end : text + len;
	if (end < out->path)
		return false;
	out->path_len = 0;
	while (out->path + out->path_len < end && !strchr(" \r\n", out->path[out->path_len]))
		out->path_len++;
	body = find(text, len, "\r\n\r\n");
	out->body = body ? body + 4 : text + len;
	out->body_len = (size_t)(text + len - out->body);
	if (body && is_chunked(text, body)) {
		out->body_len = join_chunks(out->body, out->body_len, joined);
		out->body = joined;
	}
	return true;
}

struct out {
	char *s;
	size_t n, size;
};

static void put(struct out *o, char c)
{
	/* A NUL would end it, and a line's end is not for a table. */
	if (o->n + 1 < o->size)
		o->s[o->n++] = (unsigned char)c < ' ' ? '.' : c;
}

static void put_text(struct out *o, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(o, s[i]);
}

static bool is_number(const char *s, size_t n)
{
	bool digit = false;

	for (size_t i = 0; i < n; i++) {
		if (!isxdigit((unsigned char)s[i]) && s[i] != '-')
			return false;
		digit |= isdigit((unsigned char)s[i]) != 0;
	}
	return digit;
}

/* Segments that are numbers, hexadecimal ids and UUIDs are values. */
static void put_path(struct out *o, const char *path, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = 0;

		while (i + len < n && path[i + len] != '/')
			len++;
		if (is_number(path + i, len))
			put(o, '?');
		else
			put_text(o, path + i, len);
		i += len;
		if (i < n)
			put(o, path[i++]);
	}
}

/* "a=1&b=2" is "a=?&b=?". */
static void put_arguments(struct out *o, const char *s, size_t n)
{
	bool value = false;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '&') {
			value = false;
			put(o, '&');
		} else if (!value) {
			put(o, s[i]);
			value = s[i] == '=';
			if (value)
				put(o, '?');
		}
	}
}

/* Past the string that begins at @s[0] == '"'; the whole of it where it has no end. */
static size_t string_len(const char *s, size_t n)
{
	size_t i = 1;

	while (i < n && s[i] != '"')
		i += s[i] == '\\' ? 2 : 1;
	return i < n ? i + 1 : n;
}

static bool is_key(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && isspace((unsigned char)s[i]))
		i++;
	return i < n && s[i] == ':';
}

/* A value: `?`, and one for a list of them. */
static void put_value(struct out *o)
{
	if (o->n >= 2 && o->s[o->n - 1] == ',' && o->s[o->n - 2] == '?') {
		o->n--;
		return;
	}
	put(o, '?');
}

/* The first value only: of lines of JSON (/bulk) the first stands for all. */
static void put_json(struct out *o, const char *s, size_t n)
{
	int depth = 0;

	for (size_t i = 0; i < n;) {
		size_t len = 1;

		if (s[i] == '"') {
			len = string_len(s + i, n - i);
			if (is_key(s + i + len, n - i - len))
				put_text(o, s + i, len);
			else
				put_value(o);
		} else if (s[i] && strchr("{}[]:,", s[i])) {
			put(o, s[i]);
			depth += s[i] == '{' || s[i] == '[';
			depth -= s[i] == '}' || s[i] == ']';
			if (depth <= 0)
				return;
		} else if (!isspace((unsigned char)s[i])) {
			while (i + len < n && s[i + len] && !strchr("{}[]:,\"", s[i + len]) &&
			       !isspace((unsigned char)s[i + len]))
				len++;
			put_value(o);
		}
		i += len;
	}
}

/* The value of the first key "index" or "table". */
static void json_index(const char *s, size_t n, char *index, size_t size)
{
	static const char *const keys[] = {"\"index\"", "\"table\""};

	for (size_t k = 0; k < SONDE_ARRAY_SIZE(keys) && !*index; k++) {
		const char *at = find(s, n, keys[k]), *end = s + n;

		if (!at)
			continue;
		at += strlen(keys[k]);
		while (at < end && (*at == ':' || isspace((unsigned char)*at)))
			at++;
		if (at < end && *at == '"') {
			size_t len = string_len(at, (size_t)(end - at));

			if (len > 2)
				snprintf(index, size, "%.*s", (int)(len - 2), at + 1);
		}
	}
}

/* application/x-www-form-urlencoded, in a buffer of at least @n bytes; its length. */
static size_t decode_form(const char *s, size_t n, char *to)
{
	size_t o = 0;

	for (size_t i = 0; i < n && s[i] != '&'; i++) {
		if (s[i] == '%' && i + 2 < n) {
			to[o++] = (char)((hex(s[i + 1]) & 15) << 4 | (hex(s[i + 2]) & 15));
			i += 2;
		} else {
			to[o++] = s[i] == '+' ? ' ' : s[i];
		}
	}
	return o;
}

/* SQL in a body: raw, or as the argument "query". */
static void put_sql(struct out *o, const char *body, size_t n, bool cut, char *index)
{
	char sql[SONDE_TEXT_BYTES], form[2 * SONDE_TEXT_BYTES];
	const char *query = find(body, n, "query=");
	size_t len = n < sizeof(sql) ? n : sizeof(sql);

	if (query)
		len = decode_form(query + 6, (size_t)(body + n - query - 6), sql);
	else
		memcpy(sql, body, len);
	sonde_sql_index(sql, len, index, SONDE_INDEX_BYTES);
	put(o, ' ');
	put_text(o, form, sonde_fingerprint(sql, len, cut, form, sizeof(form)));
}

static bool is_sql_endpoint(const char *path, size_t n)
{
	return (n == 4 && (!memcmp(path, "/sql", 4) || !memcmp(path, "/cli", 4))) ||
	       (n == 9 && !memcmp(path, "/cli_json", 9));
}

size_t sonde_http_fingerprint(const char *text, size_t len, bool cut, char *out, size_t size,
			      char *index)
{
	char joined[SONDE_TEXT_BYTES];
	struct sonde_http_request r;
	struct out o = {out, 0, size};
	const char *question;
	size_t path;

	*index = '\0';
	if (!size || len > sizeof(joined) || !sonde_http_decode(text, len, joined, &r))
		return 0;
	question = memchr(r.path, '?', r.path_len);
	path = question ? (size_t)(question - r.path) : r.path_len;
	put_text(&o, r.method, r.method_len);
	put(&o, ' ');
	put_path(&o, r.path, path);
	if (question && !is_sql_endpoint(r.path, path)) {
		put(&o, '?');
		put_arguments(&o, question + 1, r.path_len - path - 1);
	}
	if (is_sql_endpoint(r.path, path) && (r.body_len || question)) {
		if (r.body_len)
			put_sql(&o, r.body, r.body_len, cut, index);
		else
			put_sql(&o, question + 1, r.path_len - path - 1, cut, index);
	} else if (r.body_len && (*r.body == '{' || *r.body == '[')) {
		json_index(r.body, r.body_len, index, SONDE_INDEX_BYTES);
		put(&o, ' ');
		put_json(&o, r.body, r.body_len);
	}
	out[o.n] = '\0';
	return o.n;
}
