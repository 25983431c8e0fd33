// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The schema's text, built in from schema.sql, and table enum, whose rows derive from the same
 * tables as the program's own names: a recording explains its numbers without this program.
 */
#include <stdio.h>

#include "core/mem.h"
#include "model/visitor.h"
#include "record/schema.h"
#include "sonde/event.h"

asm(".section .rodata\n"
    ".global sonde_schema_sql\n"
    "sonde_schema_sql:\n"
    ".incbin \"user/record/schema.sql\"\n"
    ".byte 0\n"
    ".global sonde_schema_stacks_sql\n"
    "sonde_schema_stacks_sql:\n"
    ".incbin \"user/record/schema_stacks.sql\"\n"
    ".byte 0\n"
    ".global sonde_schema_anatomy_sql\n"
    "sonde_schema_anatomy_sql:\n"
    ".incbin \"user/record/schema_anatomy.sql\"\n"
    ".byte 0\n"
    ".previous\n");

struct enum_row {
	const char *kind;
	int value;
	const char *name, *help;
};

static const struct enum_row fixed_rows[] = {
	{"series", SONDE_SERIES_COUNTER, "counter", "cumulative since attach"},
	{"series", SONDE_SERIES_GAUGE, "gauge", "a level at an instant"},
	{"series", SONDE_SERIES_HIST, "histogram", "counts by bucket"},
	{"flag", SONDE_SPAN_F_NO_WAIT, "no_wait", "arrival not known: no queue wait"},
	{"flag", SONDE_SPAN_F_CUT, "cut", "text is shorter than the request"},
	{"flag", SONDE_SPAN_F_DISTURBED, "disturbed", "overlapped an allocation probe"},
	{"flag", SONDE_SPAN_F_END_GUESSED, "end_guessed", "end is the last send before the next"},
	{"flag", SONDE_SPAN_F_HANDLER, "handler", "the query handler was seen"},
	{"flag", SONDE_SPAN_F_UNIX, "unix", "came over a unix socket"},
	{"flag", SONDE_SPAN_F_PIPELINED, "pipelined", "arrived while another was answered"},
	{"flag", SONDE_SPAN_F_NO_TEXT, "no_text", "request bytes could not be read"},
	{"flag", SONDE_SPAN_F_HEAP, "heap", "the allocator's own counters are known"},
	{"flag", SONDE_SPAN_F_BY_HANDLER, "by_handler",
	 "told by the daemon's handler, not decoded from the socket"},
#define LENS(id, sym, name) {"lens", id, name, ""},
	SONDE_LENS_IDS(LENS)
#undef LENS
#define CAUSE(id, sym, name, loses, help) {"drop", id, name, help},
		SONDE_DROP_CAUSES(CAUSE)
#undef CAUSE
#define END(id, sym, name, help) {"stack_end", id, name, help},
			SONDE_STACK_ENDS(END)
#undef END
#define PART(id, sym, name, help) {"part", id, #name, help},
				SONDE_PARTS(PART)
#undef PART
};

/* Names that a function gives: the numbers from first until it answers "?". */
static const char *note_name(unsigned v)
{
	return sonde_note_level_name((enum sonde_note_level)v);
}

static const struct {
	const char *kind;
	const char *(*name)(unsigned value);
	unsigned first;
} named[] = {
	{"status", sonde_span_status_name, 0},
	{"proto", sonde_proto_name, 0},
	{"note", note_name, 1},
};

static int insert_row(sqlite3_stmt *stmt, const struct enum_row *row)
{
	int rc;

	sqlite3_bind_text(stmt, 1, row->kind, -1, SQLITE_STATIC);
	sqlite3_bind_int(stmt, 2, row->value);
	sqlite3_bind_text(stmt, 3, row->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, row->help, -1, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_enums(sqlite3_stmt *stmt)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fixed_rows) && !rc; i++)
		rc = insert_row(stmt, &fixed_rows[i]);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(named) && !rc; i++) {
		for (unsigned v = named[i].first; *named[i].name(v) != '?' && !rc; v++) {
			struct enum_row row = {named[i].kind, (int)v, named[i].name(v), ""};

			rc = insert_row(stmt, &row);
		}
	}
	return rc;
}

int sonde_schema_create(sqlite3 *db)
{
	char head[128];
	sqlite3_stmt *stmt = NULL;
	int rc;

	snprintf(head, sizeof(head), "PRAGMA application_id = %d; PRAGMA user_version = %d; BEGIN;",
		 SONDE_RECORD_APPLICATION_ID, SONDE_RECORD_SCHEMA);
	rc = sqlite3_exec(db, head, NULL, NULL, NULL);
	if (!rc)
		rc = sqlite3_exec(db, sonde_schema_sql, NULL, NULL, NULL);
	if (!rc)
		rc = sqlite3_exec(db, sonde_schema_stacks_sql, NULL, NULL, NULL);
	if (!rc)
		rc = sqlite3_exec(db, sonde_schema_anatomy_sql, NULL, NULL, NULL);
	if (!rc)
		rc = sonde_db_prepare(db, &stmt, "INSERT INTO enum VALUES (?,?,?,?)");
	if (!rc)
		rc = insert_enums(stmt);
	sqlite3_finalize(stmt);
	return rc ? rc : sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}
