// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gathers spans in one pass: what is kept of each is its group's sums, its bucket's sums, and the
 * whole of it only if it is among the slowest. Spans that overlapped an allocation probe count, but
 * stay out of every latency.
 */
#include <errno.h>
#include <inttypes.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "show/report_queries.h"

#define MAX_HISTS 1024 /* 36 KiB each; groups beyond have no p95 */

int sonde_query_table_init(struct sonde_query_table *t, size_t slowest, enum sonde_query_key by)
{
	*t = (struct sonde_query_table){.max_slow = slowest, .by = by};
	t->slow = calloc(slowest + 1, sizeof(*t->slow));
	t->parts = calloc(SONDE_HIST_BUCKETS, sizeof(*t->parts));
	if (t->slow && t->parts)
		return 0;
	sonde_query_table_fini(t);
	return -ENOMEM;
}

static void free_kept(struct sonde_query_kept *k)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(k->strings); i++)
		free(k->strings[i]);
	*k = (struct sonde_query_kept){0};
}

void sonde_query_table_fini(struct sonde_query_table *t)
{
	for (size_t i = 0; i < t->n_groups; i++) {
		free(t->groups[i].command);
		free(t->groups[i].fingerprint);
		sonde_hist_fini(&t->groups[i].hist);
	}
	for (size_t i = 0; i < t->n_slow; i++)
		free_kept(&t->slow[i]);
	free(t->groups);
	free(t->slots);
	free(t->slow);
	free(t->parts);
	*t = (struct sonde_query_table){0};
}

/* Over both strings; a hash of equal strings is equal, the rest strcmp() decides. */
static uint64_t hash_of(const char *a, const char *b)
{
	uint64_t h = sonde_fnv1a(SONDE_FNV1A_BASIS, a, strlen(a) + 1);

	return sonde_fnv1a(h, b, strlen(b));
}

static int grow_slots(struct sonde_query_table *t)
{
	size_t n = t->n_slots ? t->n_slots * 2 : 256, at;
	uint32_t *slots;

	if (t->n_groups * 2 < t->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_groups; i++) {
		for (at = t->groups[i].hash & (n - 1); slots[at]; at = (at + 1) & (n - 1))
			;
		slots[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	return 0;
}

static int new_group(struct sonde_query_table *t, size_t slot, uint64_t hash, const char *command,
		     const char *fingerprint)
{
	struct sonde_query_group g = {.hash = hash};

	if (SONDE_GROW(t->groups, t->n_groups, t->cap_groups))
		return -ENOMEM;
	g.command = strdup(command);
	g.fingerprint = strdup(fingerprint);
	if (!g.command || !g.fingerprint || (t->n_groups < MAX_HISTS && sonde_hist_init(&g.hist))) {
		free(g.command);
		free(g.fingerprint);
		return -ENOMEM;
	}
	t->groups[t->n_groups++] = g;
	t->slots[slot] = (uint32_t)t->n_groups;
	return 0;
}

static int find_group(struct sonde_query_table *t, const char *command, const char *fingerprint,
		      struct sonde_query_group **out)
{
	uint64_t hash = hash_of(command, fingerprint);
	size_t at;
	int err = grow_slots(t);

	if (err)
		return err;
	for (at = hash & (t->n_slots - 1); t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
		struct sonde_query_group *g = &t->groups[t->slots[at] - 1];

		if (g->hash == hash && !strcmp(g->command, command) &&
		    !strcmp(g->fingerprint, fingerprint)) {
			*out = g;
			return 0;
		}
	}
	err = new_group(t, at, hash, command, fingerprint);
	if (!err)
		*out = &t->groups[t->n_groups - 1];
	return err;
}

static void add_parts(struct sonde_query_table *t, const struct sonde_span *s, uint64_t ns)
{
	struct sonde_query_parts *p = &t->parts[sonde_hist_index(ns)];

	p->count++;
	p->duration += (double)ns;
	p->wait += (double)sonde_span_wait_ns(s);
	p->service += (double)sonde_span_service_ns(s);
	p->send += (double)sonde_span_send_ns(s);
	p->bytes_out += (double)s->bytes_out;
	if (s->has_heap) {
		p->heap_spans++;
		p->heap += (double)s->heap_allocated;
	}
	if (s->has_parts) {
		p->divided++;
		p->divided_ns += (double)ns;
		for (int i = 0; i < SONDE_PART__MAX; i++)
			p->part[i] += (double)s->part_ns[i];
	}
	if (!s->has_faults)
		return;
	p->timed_faults++;
	p->faults += (double)s->fault_ns;
}

static void sift_up(struct sonde_query_kept *heap, size_t i)
{
	struct sonde_query_kept item = heap[i];

	for (; i &&
	       sonde_span_duration_ns(&heap[(i - 1) / 2].span) > sonde_span_duration_ns(&item.span);
	     i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = item;
}

static void sift_down(struct sonde_query_kept *heap, size_t n)
{
	struct sonde_query_kept top = heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && sonde_span_duration_ns(&heap[child + 1].span) <
					     sonde_span_duration_ns(&heap[child].span))
			child++;
		if (sonde_span_duration_ns(&heap[child].span) >= sonde_span_duration_ns(&top.span))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = top;
}

/* A copy that owns its strings. */
static int keep(struct sonde_query_kept *k, const struct sonde_span *s)
{
	const char **const to[] = {&k->span.command, &k->span.client, &k->span.index,
				   &k->span.fingerprint, &k->span.text};

	k->span = *s;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(to); i++) {
		k->strings[i] = strdup(*to[i] ? *to[i] : "");
		if (!k->strings[i]) {
			free_kept(k);
			return -ENOMEM;
		}
		*to[i] = k->strings[i];
	}
	return 0;
}

static int add_slow(struct sonde_query_table *t, const struct sonde_span *s, uint64_t ns)
{
	struct sonde_query_kept k = {0};
	bool full = t->n_slow == t->max_slow;
	int err;

	if (!t->max_slow || (full && ns <= sonde_span_duration_ns(&t->slow[0].span)))
		return 0;
	err = keep(&k, s);
	if (err)
		return err;
	if (full) {
		free_kept(&t->slow[0]);
		t->slow[0] = k;
		sift_down(t->slow, t->n_slow);
	} else {
		t->slow[t->n_slow] = k;
		sift_up(t->slow, t->n_slow++);
	}
	return 0;
}

const char *sonde_query_key_name(enum sonde_query_key by)
{
	static const char *const names[] = {
		[SONDE_QUERY_BY_FORM] = "fingerprint", [SONDE_QUERY_BY_COMMAND] = "command",
		[SONDE_QUERY_BY_INDEX] = "index",      [SONDE_QUERY_BY_CONNECTION] = "connection",
		[SONDE_QUERY_BY_CLIENT] = "client",    [SONDE_QUERY_BY_THREAD] = "thread",
		[SONDE_QUERY_BY_STATUS] = "status",
	};

	return (unsigned)by < SONDE_ARRAY_SIZE(names) ? names[by] : "?";
}

static const char *or_none(const char *s, const char *none)
{
	return s && *s ? s : none;
}

/* The text that @s is put together by, in @buf where it has to be made. */
static const char *key_of(enum sonde_query_key by, const struct sonde_span *s, char *buf,
			  size_t size)
{
	const char *client = or_none(s->client, "client not known"), *port = strrchr(client, ':');

	switch (by) {
	case SONDE_QUERY_BY_COMMAND:
		return or_none(s->command, "?");
	case SONDE_QUERY_BY_INDEX:
		return or_none(s->index, "index not known");
	case SONDE_QUERY_BY_CONNECTION:
		snprintf(buf, size, "%016" PRIx64 " %s", s->conn, client);
		return buf;
	case SONDE_QUERY_BY_CLIENT:
		snprintf(buf, size, "%.*s", port ? (int)(port - client) : (int)size, client);
		return buf;
	case SONDE_QUERY_BY_THREAD:
		snprintf(buf, size, "%" PRIu32, s->tid);
		return buf;
	case SONDE_QUERY_BY_STATUS:
		snprintf(buf, size, s->status == SONDE_SPAN_ERROR ? "%s %" PRIu32 : "%s",
			 sonde_span_status_name(s->status), s->error);
		return buf;
	default:
		return or_none(s->fingerprint, "");
	}
}

static bool is_error(const struct sonde_span *s)
{
	return s->status == SONDE_SPAN_ERROR || s->status == SONDE_SPAN_ABORTED;
}

int sonde_query_table_add(struct sonde_query_table *t, const struct sonde_span *s)
{
	uint64_t ns = sonde_span_duration_ns(s);
	struct sonde_query_group *g;
	char key[128];
	int err = find_group(t, t->by == SONDE_QUERY_BY_FORM && s->command ? s->command : "",
			     key_of(t->by, s, key, sizeof(key)), &g);

	if (err)
		return err;
	t->spans++;
	g->count++;
	t->errors += is_error(s);
	g->errors += is_error(s);
	if (s->flags & SONDE_SPAN_F_DISTURBED) {
		t->disturbed++;
		g->disturbed++;
		return 0;
	}
	/* Not answered, so in no latency; but one that was cut off after long is worth a line. */
	if (!s->last_ns || s->status == SONDE_SPAN_ABORTED) {
		t->unended++;
		return s->last_ns ? add_slow(t, s, ns) : 0;
	}
	if (s->has_heap) {
		t->heap_spans++;
		g->heap_spans++;
		g->heap_allocated += s->heap_allocated;
	}
	t->no_wait += s->flags & SONDE_SPAN_F_NO_WAIT ? 1 : 0;
	t->total_ns += ns;
	g->total_ns += ns;
	if (ns > g->worst_ns) {
		g->worst_ns = ns;
		g->worst_begin_ns = s->arrival_ns ? s->arrival_ns : s->start_ns;
	}
	if (g->hist.buckets)
		sonde_hist_add(&g->hist, ns);
	add_parts(t, s, ns);
	return add_slow(t, s, ns);
}
