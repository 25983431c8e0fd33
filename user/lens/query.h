/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside the query lens: what the request's bytes say. Pure functions on bytes that a stranger
 * sent: nothing here trusts a length, and every result is bounded by the caller's buffer.
 */
#ifndef SONDE_LENS_QUERY_H
#define SONDE_LENS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sonde/event.h"

struct sonde_lens_opts;
/* Is a query's time to be divided into parts? Then the fault lens's programs are needed, too. */
bool sonde_query_has_anatomy(const struct sonde_lens_opts *opts);

/* Lower-case name of a command; "command_N" style names are never made: unknown is "unknown". */
const char *sonde_mysql_command_name(unsigned command);
const char *sonde_sphinxapi_command_name(unsigned command);
const char *sonde_http_command_name(unsigned command);

/* The parts of an HTTP request's first bytes; pointers go into them, or a body in chunks into the
 * buffer given. What is not there is empty. */
struct sonde_http_request {
	const char *method, *path, *body;
	size_t method_len, path_len, body_len;
};
/* @joined: room for @len bytes. false: this is no request. */
bool sonde_http_decode(const char *text, size_t len, char *joined, struct sonde_http_request *out);

/*
 * The form of an HTTP request: method, path with its numbers replaced, keys of its query string,
 * and of a body SQL or JSON without literals. *index (SONDE_INDEX_BYTES) as the body names it, or
 * "". Writes at most @size - 1 bytes and a NUL; returns the length, 0 for what is no request.
 */
size_t sonde_http_fingerprint(const char *text, size_t len, bool cut, char *out, size_t size,
			      char *index);

/*
 * The statement in a MySQL request's body (after the command byte): skips the empty list of query
 * attributes that some clients send first. *len is both ways.
 */
const char *sonde_mysql_statement(const char *body, size_t *len);

/*
 * Fingerprint of a statement: literals become `?`, so that queries that differ in values only are
 * one. The rules are those of pt-query-digest, listed in docs/lens-query.md. @cut: the text is not
 * complete. Writes at most @size - 1 bytes and a NUL; returns the length. Not valid UTF-8 where the
 * text is not.
 */
size_t sonde_fingerprint(const char *sql, size_t len, bool cut, char *out, size_t size);

/* FNV-1a, 64 bits: of a fingerprint it is its id in every output. Never 0. */
uint64_t sonde_fingerprint_id(const char *text, size_t len);

/*
 * The index or table a statement works on: the first after FROM, INTO, UPDATE and the like, a list
 * as it stands. "" if there is none. Returns the length.
 */
size_t sonde_sql_index(const char *sql, size_t len, char *out, size_t size);

/* What a SphinxAPI request's body says; pointers go into the body. */
struct sonde_api_request {
	const char *text; /* full-text query (of the first query), or SQL of command SPHINXQL     */
	size_t text_len;
	const char *index;
	size_t index_len;
	const char *order; /* SEARCH: sort clause                                                */
	size_t order_len;
	uint32_t queries; /* SEARCH: queries in the request; otherwise 1                         */
	bool is_sql;
};

/*
 * Decode the first @len bytes of a body. Fields beyond them stay empty: false only if what is there
 * contradicts the protocol.
 */
bool sonde_sphinxapi_decode(unsigned command, unsigned version, const char *body, size_t len,
			    struct sonde_api_request *out);

#endif
