// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a ring record to a span of the model. This runs for every query, so what depends on the
 * request's bytes only is kept by their hash, and clients' names by connection.
 *
 * The invariant: nothing of the target reaches the model unless it is valid UTF-8.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "lens/query_impl.h"

#define PREPARED_BEFORE "(prepared before attach)"
#define PREPARED_UNSEEN "(prepared statement)" /* a handler is not told the number it gets */

static bool is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x7f)
			return false;
	return true;
}

/* A heap copy of @n bytes as valid UTF-8. NULL: no memory. */
static char *clean_copy(const char *s, size_t n)
{
	struct sonde_str out = {0};

	if (is_plain(s, n))
		return strndup(s, n);
	if (sonde_str_add_utf8(&out, s, n)) {
		sonde_str_fini(&out);
		return NULL;
	}
	return out.s;
}

static void clean_index(char *index)
{
	for (unsigned char *p = (unsigned char *)index; *p; p++)
		if (*p < 0x20 || *p >= 0x7f)
			*p = '?';
}

/* A word-wise hash, for the cache only; 0 stands for an empty slot. */
static uint64_t hash_bytes(const char *p, size_t n, uint64_t seed)
{
	uint64_t h = seed * 0x9e3779b97f4a7c15u + n, v;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, p, n);
	h = (h ^ v) * 0xc4ceb9fe1a85ec53u;
	h ^= h >> 29;
	return h ? h : 1;
}

static size_t describe_sql(const char *sql, size_t n, bool cut, char *out, size_t size, char *index)
{
	sonde_sql_index(sql, n, index, SONDE_INDEX_BYTES);
	return sonde_fingerprint(sql, n, cut, out, size);
}

/* SphinxAPI has no SQL: its form is the command, the index and the sort clause. */
static size_t describe_api(const struct sonde_ev_span *ev, bool cut, char *out, size_t size,
			   struct query_text *t)
{
	struct sonde_api_request r;
	const char *name = sonde_sphinxapi_command_name(ev->command);
	int n;

	if (!sonde_sphinxapi_decode(ev->command, ev->version, ev->text, ev->text_len, &r))
		return 0;
	t->queries = r.queries;
	snprintf(t->index, sizeof(t->index), "%.*s", (int)r.index_len, r.index);
	if (r.is_sql)
		return describe_sql(r.text, r.text_len, cut, out, size, t->index);
	if (!r.index_len)
		return 0;
	n = snprintf(out, size, "%s %.*s%s%s%.*s", name, (int)r.index_len, r.index,
		     ev->command == SONDE_API_SEARCH ? " match(?)" : "",
		     r.order_len ? " order by " : "", (int)r.order_len, r.order);
	return (size_t)n < size ? (size_t)n : size - 1;
}

/* Is its text the bytes of an HTTP request? A handler's is what its arguments hold. */
static bool is_http(const struct sonde_ev_span *ev)
{
	return ev->proto == SONDE_PROTO_HTTP && !(ev->flags & SONDE_SPAN_F_BY_HANDLER);
}

static int describe(const struct sonde_ev_span *ev, struct query_text *t)
{
	char out[2 * SONDE_TEXT_BYTES];
	bool cut = ev->flags & SONDE_SPAN_F_CUT;
	size_t n = 0, len = ev->text_len;
	char *copy = NULL;

	t->index[0] = '\0';
	t->queries = 1;
	if (ev->proto == SONDE_PROTO_SPHINXAPI) {
		n = describe_api(ev, cut, out, sizeof(out), t);
	} else if (is_http(ev)) {
		n = sonde_http_fingerprint(ev->text, len, cut, out, sizeof(out), t->index);
	} else if (ev->command == SONDE_MYSQL_QUERY || ev->command == SONDE_MYSQL_PREPARE) {
		const char *sql = sonde_mysql_statement(ev->text, &len);

		n = describe_sql(sql, len, cut, out, sizeof(out), t->index);
	} else if (ev->proto == SONDE_PROTO_UNKNOWN) {
		n = describe_sql(ev->text, len, cut, out, sizeof(out), t->index);
	}
	clean_index(t->index);
	if (n) {
		copy = clean_copy(out, n);
		if (!copy)
			return -ENOMEM;
	}
	free(t->fingerprint);
	t->fingerprint = copy;
	t->id = copy ? sonde_fingerprint_id(copy, strlen(copy)) : 0;
	return 0;
}

/* What the bytes of this request say. NULL: no memory. */
static const struct query_text *text_get(struct query_state *st, const struct sonde_ev_span *ev)
{
	uint64_t seed = (uint64_t)ev->proto << 48 | (uint64_t)ev->command << 32 |
			(uint64_t)ev->version << 16 | (ev->flags & SONDE_SPAN_F_CUT);
	uint64_t key = hash_bytes(ev->text, ev->text_len, seed);
	struct query_text *t = &st->texts[key % QUERY_TEXTS];

	if (t->key == key)
		return t;
	t->key = 0;
	if (describe(ev, t))
		return NULL;
	t->key = key;
	return t;
}

static const char *client_get(struct query_state *st, const struct sonde_ev_span *ev)
{
	struct query_client *c = &st->clients[ev->conn % QUERY_CLIENTS];
	char addr[INET6_ADDRSTRLEN];

	if (ev->flags & SONDE_SPAN_F_UNIX)
		return "unix";
	if (c->conn == ev->conn)
		return c->name;
	if (!inet_ntop(ev->family, ev->peer_addr, addr, sizeof(addr)))
		return "";
	snprintf(c->name, sizeof(c->name), ev->family == AF_INET6 ? "[%s]:%u" : "%s:%u", addr,
		 ev->peer_port);
	c->conn = ev->conn;
	return c->name;
}

static struct query_prepared *prepared_slot(struct query_state *st, uint64_t conn,
					    uint32_t statement)
{
	return &st->prepared[(conn * 31 + statement) % QUERY_PREPARED];
}

static int prepared_put(struct query_state *st, const struct sonde_ev_span *ev,
			const struct query_text *t)
{
	struct query_prepared *p = prepared_slot(st, ev->conn, ev->error);
	char *copy = strdup(t->fingerprint ? t->fingerprint : "");

	if (!copy)
		return -ENOMEM;
	free(p->fingerprint);
	*p = (struct query_prepared){ev->conn, ev->error, t->id, copy, ""};
	memcpy(p->index, t->index, sizeof(p->index));
	return 0;
}

/* An EXECUTE names its statement by number, in the first 4 bytes. */
static void prepared_find(struct query_state *st, const struct sonde_ev_span *ev,
			  struct sonde_span *out)
{
	const struct query_prepared *p;
	uint32_t statement;

	out->fingerprint = ev->flags & SONDE_SPAN_F_BY_HANDLER ? PREPARED_UNSEEN : PREPARED_BEFORE;
	out->fingerprint_id = sonde_fingerprint_id(out->fingerprint, strlen(out->fingerprint));
	if (ev->text_len < sizeof(statement) || ev->flags & SONDE_SPAN_F_BY_HANDLER)
		return;
	memcpy(&statement, ev->text, sizeof(statement));
	p = prepared_slot(st, ev->conn, statement);
	if (p->conn != ev->conn || p->statement != statement || !p->fingerprint)
		return;
	out->fingerprint = p->fingerprint;
	out->fingerprint_id = p->id;
	out->index = p->index;
}

static uint32_t target_of(const struct sonde_target_list *targets, uint32_t tgid)
{
	for (size_t i = targets->n; i-- > 0;)
		if ((uint32_t)targets->t[i].pid == tgid)
			return (uint32_t)i;
	return 0; /* a child of a target that is not one itself */
}

static void copy_fields(const struct sonde_ev_span *ev, struct sonde_span *s)
{
	s->conn = ev->conn;
	s->seq = ev->seq;
	s->pid = ev->h.tgid;
	s->tid = ev->h.tid;
	s->arrival_ns = ev->arrival_ns;
	s->start_ns = ev->start_ns;
	s->request_end_ns = ev->request_end_ns;
	s->first_ns = ev->first_ns;
	s->last_ns = ev->last_ns;
	s->bytes_in = ev->bytes_in;
	s->bytes_out = ev->bytes_out;
	s->handler_ns = ev->handler_ns;
	s->found = ev->found;
	s->handler_wall_ms = ev->handler_wall_ms;
	s->handler_hits = ev->handler_hits;
	s->flags = ev->flags & ~(uint32_t)SONDE_SPAN_F_PARTS; /* see copy_parts() */
	s->proto = ev->proto;
	s->status = ev->status;
	s->error = ev->status == SONDE_SPAN_ERROR ? ev->error : 0;
	s->statements = ev->statements;
	s->command_id = ev->command;
	s->request_len = ev->request_len;
}

static void copy_parts(const struct sonde_ev_span *ev, struct sonde_span *s)
{
	s->has_parts = ev->flags & SONDE_SPAN_F_PARTS;
	if (!s->has_parts)
		return;
	memcpy(s->part_ns, ev->part_ns, sizeof(s->part_ns));
	memcpy(s->fault_count, ev->fault_count, sizeof(s->fault_count));
}

/* What other lenses charged to the query; another thread's doings are not known. */
static void copy_charges(const struct sonde_lens_ctx *ctx, const struct sonde_ev_span *ev,
			 struct sonde_span *s)
{
	if (ev->flags & SONDE_SPAN_F_HOPPED)
		return;
	s->alloc_bytes = ev->alloc_bytes;
	s->alloc_calls = ev->alloc_calls;
	s->faults = ev->faults;
	s->fault_ns = ev->fault_ns;
	s->has_alloc = ctx->opts->alloc_exact;
	s->has_heap = ev->flags & SONDE_SPAN_F_HEAP;
	if (s->has_heap) {
		s->heap_allocated = ev->heap_allocated;
		s->heap_freed = ev->heap_freed;
	}
	s->has_faults = ev->faults > 0;
}

/* The request line without the version, and the body: headers may hold secrets. */
static int http_text(struct query_state *st, const struct sonde_ev_span *ev, struct sonde_span *s)
{
	char joined[SONDE_TEXT_BYTES];
	struct sonde_http_request r;

	if (!sonde_http_decode(ev->text, ev->text_len, joined, &r))
		return 0;
	sonde_str_clear(&st->text);
	if (sonde_str_add_utf8(&st->text, r.method, (size_t)(r.path + r.path_len - r.method)) ||
	    (r.body_len && (sonde_str_add_utf8(&st->text, " ", 1) ||
			    sonde_str_add_utf8(&st->text, r.body, r.body_len))))
		return -ENOMEM;
	s->text = st->text.s;
	return 0;
}

/* The text is kept only where it was asked for. */
static int copy_text(struct sonde_lens_ctx *ctx, const struct sonde_ev_span *ev,
		     struct sonde_span *s)
{
	struct query_state *st = ctx->priv;
	struct sonde_api_request api;
	const char *text = ev->text;
	size_t n = ev->text_len;

	if (!ctx->opts->query_text || !n)
		return 0;
	if (ev->proto == SONDE_PROTO_SPHINXAPI) {
		if (!sonde_sphinxapi_decode(ev->command, ev->version, text, n, &api))
			return 0;
		text = api.text;
		n = api.text_len;
	} else if (is_http(ev)) {
		return http_text(st, ev, s);
	} else if (ev->command == SONDE_MYSQL_EXECUTE) {
		return 0; /* an id and binary values */
	} else {
		text = sonde_mysql_statement(text, &n);
	}
	sonde_str_clear(&st->text);
	if (sonde_str_add_utf8(&st->text, text, n))
		return -ENOMEM;
	s->text = n ? st->text.s : NULL;
	return 0;
}

static int describe_span(struct query_state *st, const struct sonde_ev_span *ev,
			 struct sonde_span *s)
{
	const struct query_text *t = text_get(st, ev);

	if (!t)
		return -ENOMEM;
	s->fingerprint = t->fingerprint ? t->fingerprint : "";
	s->fingerprint_id = t->id;
	s->index = t->index;
	if (ev->proto == SONDE_PROTO_SPHINXAPI) {
		s->command = sonde_sphinxapi_command_name(ev->command);
		s->statements = t->queries;
		return 0;
	}
	if (is_http(ev)) {
		s->command = sonde_http_command_name(ev->command);
		return 0;
	}
	s->command = ev->proto == SONDE_PROTO_UNKNOWN ? "request"
						      : sonde_mysql_command_name(ev->command);
	if (ev->command == SONDE_MYSQL_EXECUTE)
		prepared_find(st, ev, s);
	if (ev->command == SONDE_MYSQL_PREPARE && ev->status == SONDE_SPAN_OK &&
	    !(ev->flags & SONDE_SPAN_F_BY_HANDLER))
		return prepared_put(st, ev, t);
	return 0;
}

int query_decode(struct sonde_lens_ctx *ctx, const struct sonde_ev_hdr *h, size_t size)
{
	const struct sonde_ev_span *ev = (const struct sonde_ev_span *)h;
	struct query_state *st = ctx->priv;
	struct sonde_span s = {.index = "", .fingerprint = ""};
	char index[SONDE_INDEX_BYTES];
	int err;

	if (h->kind != SONDE_EV_SPAN || size < offsetof(struct sonde_ev_span, text) ||
	    ev->text_len > SONDE_TEXT_BYTES ||
	    size < offsetof(struct sonde_ev_span, text) + ev->text_len)
		return 0;
	copy_fields(ev, &s);
	copy_charges(ctx, ev, &s);
	copy_parts(ev, &s);
	s.target = target_of(ctx->targets, h->tgid);
	s.client = client_get(st, ev);
	err = describe_span(st, ev, &s);
	err = err ? err : copy_text(ctx, ev, &s);
	if (err)
		return err;
	if (ev->index[0]) {
		memcpy(index, ev->index, sizeof(index));
		index[sizeof(index) - 1] = '\0';
		clean_index(index);
		s.index = index;
	}
	return sonde_visit(ctx->out, span, &s);
}

void query_texts_fini(struct query_state *st)
{
	for (size_t i = 0; i < QUERY_TEXTS; i++)
		free(st->texts[i].fingerprint);
	for (size_t i = 0; i < QUERY_PREPARED; i++)
		free(st->prepared[i].fingerprint);
	sonde_str_fini(&st->text);
}
