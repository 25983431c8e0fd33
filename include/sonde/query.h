/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the query lens's two halves share beside spans: counters and histogram rows. Array indexes
 * only; nothing here reaches a recording.
 */
#ifndef SONDE_QUERY_H
#define SONDE_QUERY_H

/* Protocols whose queries are told apart, in words. */
#define SONDE_QUERY_PROTOCOLS "MySQL, SphinxAPI, HTTP"

#include "hist.h"
#include "part.h"
#include "wire.h"

/* Latency is kept by class of command, so that the sum over classes is every answered query. */
#define SONDE_QUERY_CLASSES(X)                                                                     \
	X(QUERY, "query", SONDE_PROTO_MYSQL, SONDE_MYSQL_QUERY)                                    \
	X(PREPARE, "prepare", SONDE_PROTO_MYSQL, SONDE_MYSQL_PREPARE)                              \
	X(EXECUTE, "execute", SONDE_PROTO_MYSQL, SONDE_MYSQL_EXECUTE)                              \
	X(PING, "ping", SONDE_PROTO_MYSQL, SONDE_MYSQL_PING)                                       \
	X(SEARCH, "search", SONDE_PROTO_SPHINXAPI, SONDE_API_SEARCH)                               \
	X(EXCERPT, "excerpt", SONDE_PROTO_SPHINXAPI, 1)                                            \
	X(UPDATE, "update", SONDE_PROTO_SPHINXAPI, 2)                                              \
	X(STATUS, "status", SONDE_PROTO_SPHINXAPI, 5)                                              \
	X(SPHINXQL, "sphinxql", SONDE_PROTO_SPHINXAPI, 8)                                          \
	X(GET, "get", SONDE_PROTO_HTTP, SONDE_HTTP_GET)                                            \
	X(POST, "post", SONDE_PROTO_HTTP, SONDE_HTTP_POST)                                         \
	X(PUT, "put", SONDE_PROTO_HTTP, SONDE_HTTP_PUT)                                            \
	X(HEAD, "head", SONDE_PROTO_HTTP, SONDE_HTTP_HEAD)                                         \
	X(DELETE, "delete", SONDE_PROTO_HTTP, SONDE_HTTP_DELETE)                                   \
	X(OTHER, "other", SONDE_PROTO_UNKNOWN, 0)

enum sonde_query_class {
#define SONDE_QUERY_CLASS_ENUM(sym, name, proto, command) SONDE_QUERY_CLASS_##sym,
	SONDE_QUERY_CLASSES(SONDE_QUERY_CLASS_ENUM)
#undef SONDE_QUERY_CLASS_ENUM
		SONDE_QUERY_CLASS__MAX
};

/* Rows of the histogram map: latency by class, then wait and service of all. */
enum sonde_query_row {
	SONDE_QUERY_ROW_WAIT = SONDE_QUERY_CLASS__MAX,
	SONDE_QUERY_ROW_SERVICE,
	SONDE_QUERY_ROW_ALLOCATED, /* bytes */
	SONDE_QUERY_ROW__MAX
};

/* One value of the histogram map. */
struct sonde_query_hist {
	sonde_u64 buckets[SONDE_HIST_BUCKETS];
};

enum sonde_query_counter {
	SONDE_QUERY_SPANS = 0, /* queries that ended, in whatever way */
	SONDE_QUERY_ERRORS,  /* of them answered with an error                                    */
	SONDE_QUERY_ABORTED, /* of them without a complete answer                                 */
	SONDE_QUERY_NO_REPLY,	/* of them that the protocol does not answer   */
	SONDE_QUERY_STATEMENTS, /* result sets in the answers */
	SONDE_QUERY_TEXT_SPANS, /* requests that are SQL: what a statement handler should see */
	SONDE_QUERY_HANDLER_CALLS,
	SONDE_QUERY_LOG_CALLS,
	SONDE_QUERY_BYTES_IN,
	SONDE_QUERY_BYTES_OUT,
	SONDE_QUERY_SLOW_SKIPPED, /* spans not sent to the ring: faster than asked for */
	SONDE_QUERY_RUNS,	/* reads, writes and arrivals on the target's connections         */
	SONDE_QUERY_HEAP_SPANS, /* queries that ended whose bytes the allocator's counters tell */
	SONDE_QUERY_HEAP_ALLOCATED,
	SONDE_QUERY_HEAP_FREED,
	SONDE_QUERY_UNFINISHED, /* still being answered at the end; in none of the above         */
	SONDE_QUERY_ANATOMY_EVENTS, /* that changed what queries' time was charged to */
	SONDE_QUERY_DISTURBED,	    /* answered queries that overlapped a window: in no histogram */
	SONDE_QUERY_ENTRY_HITS, /* runs of the programs in the daemon's code, by hook            */
	SONDE_QUERY_RETURN_HITS,
	SONDE_QUERY_YIELD_HITS,
	SONDE_QUERY_RESUME_HITS,
	SONDE_QUERY_BY_HANDLER, /* of SPANS: told by the daemon's handlers */
	SONDE_QUERY_COUNTER__MAX
};

/* A CPU's counters. The sums make means exact; here they are on lines that the CPU has anyway. */
struct sonde_query_counts {
	sonde_u64 v[SONDE_QUERY_COUNTER__MAX];
	sonde_u64 sum[SONDE_QUERY_ROW__MAX]; /* of the values in each histogram row: ns, or bytes */
};

/* Value of map query_parts: what the answered queries of a class took, part by part, on a CPU. */
struct sonde_query_part_sums {
	sonde_u64 spans; /* those that it is of */
	sonde_u64 ns[SONDE_PART__MAX];
};

SONDE_WIRE_INLINE enum sonde_query_class sonde_query_class(sonde_u8 proto, sonde_u16 command)
{
#define SONDE_QUERY_CLASS_TEST(sym, name, p, c)                                                    \
	if (proto == (p) && command == (c))                                                        \
		return SONDE_QUERY_CLASS_##sym;
	SONDE_QUERY_CLASSES(SONDE_QUERY_CLASS_TEST)
#undef SONDE_QUERY_CLASS_TEST
	return SONDE_QUERY_CLASS_OTHER;
}

#endif
