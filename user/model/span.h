/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A span is one query as the model knows it: decoded, named, and with no trace of how it was seen.
 * Strings are borrowed for the duration of the call that passes it.
 */
#ifndef SONDE_MODEL_SPAN_H
#define SONDE_MODEL_SPAN_H

#include <stdint.h>
#include <stdbool.h>

#include "sonde/event.h"
#include "sonde/part.h"

struct sonde_span {
	uint64_t conn, seq; /* connection id, number of the query on it   */
	uint32_t target;    /* index in the session's target list         */
	uint32_t pid, tid;
	/* CLOCK_MONOTONIC ns; 0 = not known. arrival <= start <= request_end <= first <= last. */
	uint64_t arrival_ns, start_ns, request_end_ns, first_ns, last_ns;
	uint64_t bytes_in, bytes_out;
	uint64_t alloc_bytes, alloc_calls, faults, fault_ns; /* valid as has_alloc / has_faults say */
	bool has_alloc, has_faults;
	/* Valid as has_heap says: what the allocator itself counted for the query's thread, size classes
	 * included, from the request read to the answer's last byte. */
	uint64_t heap_allocated, heap_freed;
	bool has_heap;
	/* Valid as has_parts says: how the duration divides into parts, whose sum it is, and how many
	 * faults of each class there were (SONDE_PART_FAULT_BASE + i). */
	uint64_t part_ns[SONDE_PART__MAX];
	uint32_t fault_count[SONDE_PART_FAULTS];
	bool has_parts;
	uint64_t handler_ns, found;
	uint32_t handler_wall_ms, handler_hits;
	uint32_t flags;	   /* enum sonde_span_flag                        */
	uint8_t proto;	   /* enum sonde_proto                            */
	uint8_t status;	   /* enum sonde_span_status                      */
	uint32_t error;	   /* protocol's code                             */
	uint32_t statements;
	uint16_t command_id;
	uint64_t fingerprint_id; /* hash of fingerprint; 0 = none         */
	const char *command;	 /* "query", "search", "ping"             */
	const char *client;	 /* "127.0.0.1:51234", "unix"             */
	const char *index;	 /* index or table, "" if not known       */
	const char *fingerprint; /* literals replaced; "" if none         */
	const char *text;	 /* request text as captured, valid UTF-8; NULL unless it may be kept */
	uint32_t request_len;	 /* full length on the wire               */
};

/* End to end as the client would see it less the network: last byte - arrival (start if arrival is
 * not known). 0 only where no response was seen. */
static inline uint64_t sonde_span_duration_ns(const struct sonde_span *s)
{
	uint64_t begin = s->arrival_ns ? s->arrival_ns : s->start_ns;

	return s->last_ns > begin ? s->last_ns - begin : 0;
}

/* Queue wait: the data was there and nobody read it. Valid unless SONDE_SPAN_F_NO_WAIT. */
static inline uint64_t sonde_span_wait_ns(const struct sonde_span *s)
{
	return s->arrival_ns && s->start_ns > s->arrival_ns ? s->start_ns - s->arrival_ns : 0;
}

/* Service: from the first read to the first byte of the response. */
static inline uint64_t sonde_span_service_ns(const struct sonde_span *s)
{
	return s->first_ns > s->start_ns ? s->first_ns - s->start_ns : 0;
}

/* Send: first to last byte of the response. */
static inline uint64_t sonde_span_send_ns(const struct sonde_span *s)
{
	return s->last_ns > s->first_ns ? s->last_ns - s->first_ns : 0;
}

/* Lower-case name of a status or protocol, "?" for an unknown number. */
const char *sonde_span_status_name(unsigned status);
const char *sonde_proto_name(unsigned proto);
/* Of a part: its name, and what it is in a few words; "?" for an unknown number. */
const char *sonde_part_name(unsigned part);
const char *sonde_part_help(unsigned part);

#endif
