/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The shape of a recording, for the writer and the reader only. The text of schema.sql is the one
 * definition; a change is a new version here, a step in migrate.c and a line in
 * docs/schema-changes.md.
 */
#ifndef SONDE_RECORD_SCHEMA_H
#define SONDE_RECORD_SCHEMA_H

#include <sqlite3.h>

#define SONDE_RECORD_APPLICATION_ID 0x534f4e44 /* "SOND" */
#define SONDE_RECORD_SCHEMA	    4

/* Stored in series.kind: append, never renumber. The first two are enum sonde_metric_kind. */
enum sonde_series_kind {
	SONDE_SERIES_COUNTER = 1,
	SONDE_SERIES_GAUGE = 2,
	SONDE_SERIES_HIST = 3,
};

/* schema.sql, and what schemas 3 and 4 added, NUL-terminated. */
extern const char sonde_schema_sql[], sonde_schema_stacks_sql[], sonde_schema_anatomy_sql[];

/* Create tables, views and the rows of table enum in an empty database. A SQLite code. */
int sonde_schema_create(sqlite3 *db);

/*
 * Bring an open database from schema @from to the current one. Only ever called on a copy. A SQLite
 * code; SQLITE_MISMATCH where there is no step for @from.
 */
int sonde_schema_migrate(sqlite3 *db, int from);

/* The errno for a SQLite code (extended or not), and the cause in words. */
int sonde_db_errno(int code);
const char *sonde_db_cause(int code);
/* Prepare @sql; a SQLite code. */
int sonde_db_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql);
/* The first column of the first row as a number, @otherwise where there is none. */
long long sonde_db_number(sqlite3 *db, const char *sql, long long otherwise);

#endif
