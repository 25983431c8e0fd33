// SPDX-License-Identifier: GPL-2.0-or-later
/* How each column is had from a span; what is not known is absent, never 0. See columns.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "export/columns.h"

static struct sonde_cell count_if(bool known, uint64_t n)
{
	return (struct sonde_cell){known ? SONDE_CELL_COUNT : SONDE_CELL_ABSENT, n, NULL};
}

static struct sonde_cell time_of(uint64_t ns)
{
	return (struct sonde_cell){ns ? SONDE_CELL_TIME : SONDE_CELL_ABSENT, ns, NULL};
}

static struct sonde_cell text_of(const char *s)
{
	return (struct sonde_cell){s && *s ? SONDE_CELL_TEXT : SONDE_CELL_ABSENT, 0, s};
}

static struct sonde_cell id_of(uint64_t id)
{
	return (struct sonde_cell){id ? SONDE_CELL_ID : SONDE_CELL_ABSENT, id, NULL};
}

static const struct {
	uint32_t flag;
	const char *name;
} flag_names[] = {
	{SONDE_SPAN_F_NO_WAIT, "no_wait"},	 {SONDE_SPAN_F_CUT, "cut"},
	{SONDE_SPAN_F_DISTURBED, "disturbed"},	 {SONDE_SPAN_F_END_GUESSED, "end_guessed"},
	{SONDE_SPAN_F_HANDLER, "handler"},	 {SONDE_SPAN_F_UNIX, "unix"},
	{SONDE_SPAN_F_PIPELINED, "pipelined"},	 {SONDE_SPAN_F_NO_TEXT, "no_text"},
	{SONDE_SPAN_F_BY_HANDLER, "by_handler"}, {SONDE_SPAN_F_HOPPED, "hopped"},
};

static struct sonde_cell flags_of(const struct sonde_span *s, char *scratch)
{
	size_t n = 0;

	scratch[0] = '\0';
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(flag_names); i++)
		if (s->flags & flag_names[i].flag)
			n += (size_t)snprintf(scratch + n, SONDE_CELL_SCRATCH - n, "%s%s",
					      n ? "|" : "", flag_names[i].name);
	return text_of(scratch);
}

static bool ended(const struct sonde_span *s)
{
	return s->last_ns != 0 && (s->arrival_ns || s->start_ns);
}

#define HANDLER(s) ((s)->flags & SONDE_SPAN_F_HANDLER)
#define WAITED(s)  (!((s)->flags & SONDE_SPAN_F_NO_WAIT) && (s)->arrival_ns && (s)->start_ns)

/*	column		      how it is had */
#define COLUMNS(X)                                                                                 \
	X(target, count_if(true, s->target))                                                       \
	X(pid, count_if(s->pid, s->pid))                                                           \
	X(tid, count_if(s->tid, s->tid))                                                           \
	X(connection_id, id_of(s->conn))                                                           \
	X(seq, count_if(true, s->seq))                                                             \
	X(client, text_of(s->client))                                                              \
	X(protocol, text_of(sonde_proto_name(s->proto)))                                           \
	X(command, text_of(s->command))                                                            \
	X(command_id, count_if(true, s->command_id))                                               \
	X(index, text_of(s->index))                                                                \
	X(status, text_of(sonde_span_status_name(s->status)))                                      \
	X(error_code, count_if(s->status == SONDE_SPAN_ERROR, s->error))                           \
	X(statements, count_if(true, s->statements))                                               \
	X(arrival_utc, time_of(s->arrival_ns))                                                     \
	X(start_utc, time_of(s->start_ns))                                                         \
	X(request_end_utc, time_of(s->request_end_ns))                                             \
	X(first_byte_utc, time_of(s->first_ns))                                                    \
	X(last_byte_utc, time_of(s->last_ns))                                                      \
	X(duration_ns, count_if(ended(s), sonde_span_duration_ns(s)))                              \
	X(wait_ns, count_if(WAITED(s), sonde_span_wait_ns(s)))                                     \
	X(service_ns, count_if(s->first_ns && s->start_ns, sonde_span_service_ns(s)))              \
	X(send_ns, count_if(s->last_ns && s->first_ns, sonde_span_send_ns(s)))                     \
	X(request_bytes, count_if(true, s->bytes_in))                                              \
	X(response_bytes, count_if(true, s->bytes_out))                                            \
	X(alloc_bytes, count_if(s->has_alloc, s->alloc_bytes))                                     \
	X(alloc_calls, count_if(s->has_alloc, s->alloc_calls))                                     \
	X(heap_allocated_bytes, count_if(s->has_heap, s->heap_allocated))                          \
	X(heap_freed_bytes, count_if(s->has_heap, s->heap_freed))                                  \
	X(faults, count_if(s->has_faults, s->faults))                                              \
	X(fault_ns, count_if(s->has_faults, s->fault_ns))                                          \
	X(handler_utc, time_of(HANDLER(s) ? s->handler_ns : 0))                                    \
	X(found_rows, count_if(HANDLER(s), s->found))                                              \
	X(handler_wall_ms, count_if(HANDLER(s), s->handler_wall_ms))                               \
	X(handler_hits, count_if(HANDLER(s), s->handler_hits))                                     \
	X(fingerprint_id, id_of(s->fingerprint_id))                                                \
	X(fingerprint, text_of(s->fingerprint))                                                    \
	X(text, text_of(s->text))                                                                  \
	X(text_full_bytes, count_if(true, s->request_len))

/* The parts that the duration is divided into, and how many faults of each class there were. */
#define PART_OF(id, sym, name, help)                                                        \
	static struct sonde_cell get_##name##_ns(const struct sonde_span *s, char *scratch)        \
	{                                                                                          \
		(void)scratch;                                                                     \
		return count_if(s->has_parts, s->part_ns[id]);                                     \
	}
SONDE_PARTS(PART_OF)
#undef PART_OF

#define FAULTS(X)                                                                                  \
	X(fault_base, BASE)                                                                        \
	X(fault_mthp, MTHP)                                                                        \
	X(fault_pmd, PMD)                                                                          \
	X(fault_cow, COW) X(fault_file, FILE) X(fault_swap, SWAP) X(fault_other, OTHER)
#define FAULTS_OF(name, sym)                                                                       \
	static struct sonde_cell get_##name##_count(const struct sonde_span *s, char *scratch)     \
	{                                                                                          \
		(void)scratch;                                                                     \
		return count_if(s->has_parts,                                                      \
				s->fault_count[SONDE_PART_FAULT_##sym - SONDE_PART_FAULT_BASE]);   \
	}
FAULTS(FAULTS_OF)
#undef FAULTS_OF

#define GETTER(column, how)                                                                        \
	static struct sonde_cell get_##column(const struct sonde_span *s, char *scratch)           \
	{                                                                                          \
		(void)scratch;                                                                     \
		return how;                                                                        \
	}
COLUMNS(GETTER)
#undef GETTER

const struct sonde_column sonde_span_columns[] = {
#define COLUMN(column, how) {#column, SONDE_COLUMN_QUERY, get_##column},
	COLUMNS(COLUMN)
#undef COLUMN
		{"flags", SONDE_COLUMN_QUERY, flags_of},
#define COLUMN(id, sym, name, help) {#name "_ns", SONDE_COLUMN_ANATOMY, get_##name##_ns},
	SONDE_PARTS(COLUMN)
#undef COLUMN
#define COLUMN(name, sym) {#name "_count", SONDE_COLUMN_ANATOMY, get_##name##_count},
		FAULTS(COLUMN)
#undef COLUMN
};
const size_t sonde_span_column_count = SONDE_ARRAY_SIZE(sonde_span_columns);

const char *sonde_fmt_id(char *buf, size_t size, uint64_t id)
{
	snprintf(buf, size, "0x%016" PRIx64, id);
	return buf;
}

const char *sonde_fmt_double(char *buf, size_t size, double v)
{
	if (v == floor(v) && fabs(v) < 9007199254740992.0) {
		snprintf(buf, size, "%.0f", v);
		return buf;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	return buf;
}
