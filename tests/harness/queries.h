/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a load asks: mixes of searches and inserts over the corpus that mkcorpus writes. Invariant:
 * a seed, a connection and a number name the same query in every run, over either protocol.
 */
#ifndef HARNESS_QUERIES_H
#define HARNESS_QUERIES_H

#include "harness/wire.h"
#include "harness/words.h"

#define MATCH_BYTES 256

enum mix { MIX_LIGHT, MIX_MIXED, MIX_HEAVY, MIX_INSERT, MIX_DEEP, MIX_COUNT };

static const char *const mix_name[MIX_COUNT] = {"light", "mixed", "heavy", "insert", "deep"};

/* Who asks. */
struct asker {
	const struct words *words;
	enum mix mix;
	const char *index;
	bool api;
	uint64_t seed, connection; /* for ids of inserted documents */
	struct rng rng;
};

static inline void match_words(struct asker *a, char *to, unsigned n, const char *between,
			       size_t skip)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += (size_t)snprintf(to + len, MATCH_BYTES - len, "%s%s", i ? between : "",
					words_draw(a->words, &a->rng, skip));
}

static inline void make_mixed(struct asker *a, char *match, struct wire_search *s)
{
	unsigned kind = rng_below(&a->rng, 20);

	if (kind < 8) {
		match_words(a, match, 1 + rng_below(&a->rng, 3), " ", 0);
	} else if (kind < 12) {
		match[0] = '"';
		match_words(a, match + 1, 2, " ", 0);
		strcat(match, "\"");
	} else if (kind < 17) {
		match_words(a, match, 1 + rng_below(&a->rng, 2), " ", 0);
		s->filter = true;
		s->gid_low = rng_below(&a->rng, 900);
		s->gid_high = s->gid_low + 100;
	} else {
		match_words(a, match, 3, " | ", 50);
		s->sort = "price DESC";
	}
}

static inline void make_search(struct asker *a, char *match, struct wire_search *s)
{
	*s = (struct wire_search){.match = match, .index = a->index, .limit = 20};
	if (a->mix == MIX_LIGHT) {
		match_words(a, match, 1 + rng_below(&a->rng, 2), " ", 200);
	} else if (a->mix == MIX_MIXED) {
		make_mixed(a, match, s);
	} else if (a->mix == MIX_DEEP) {
		/* Deep paging: room for so many matches is allocated afresh for each query. */
		match_words(a, match, 1, " ", 0);
		s->max_matches = 1000000;
	} else {
		match_words(a, match, 4 + rng_below(&a->rng, 3), " | ", 100);
		s->sort = "price DESC, day ASC";
		s->limit = 100;
	}
}

static inline void sql_search(char *sql, size_t room, const struct wire_search *s)
{
	char filter[64] = "", option[48] = "";

	if (s->max_matches)
		snprintf(option, sizeof(option), " OPTION max_matches=%u", s->max_matches);
	if (s->filter)
		snprintf(filter, sizeof(filter), " AND gid BETWEEN %u AND %u", s->gid_low,
			 s->gid_high);
	snprintf(sql, room, "SELECT * FROM %s WHERE MATCH('%s')%s%s%s LIMIT %u%s", s->index,
		 s->match, filter, s->sort ? " ORDER BY " : "", s->sort ? s->sort : "", s->limit,
		 option);
}

/* REPLACE, so that the same seed may run twice. */
static inline void sql_insert(struct asker *a, uint64_t number, char *sql, size_t room)
{
	char title[MATCH_BYTES], body[MATCH_BYTES];

	match_words(a, title, 3, " ", 0);
	match_words(a, body, 15, " ", 0);
	snprintf(
		sql, room,
		"REPLACE INTO rt (id,title,body,gid,price) VALUES (%llu,'%s','%s',%u,%u.5)",
		(unsigned long long)((a->seed & 0xffff) << 44 | (a->connection + 1) << 32 | number),
		title, body, rng_below(&a->rng, 1000), rng_below(&a->rng, 5000));
}

/* The @number-th query of this connection, from 1, as the bytes to send. */
static inline void make_query(struct asker *a, uint64_t number, struct wire_out *o)
{
	char match[MATCH_BYTES + 2], sql[2048];
	struct wire_search s;

	if (a->mix == MIX_INSERT) {
		sql_insert(a, number, sql, sizeof(sql));
	} else {
		make_search(a, match, &s);
		if (a->api) {
			api_search(o, &s);
			return;
		}
		sql_search(sql, sizeof(sql), &s);
	}
	mysql_query(o, sql);
}

#endif
