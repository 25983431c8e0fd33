// SPDX-License-Identifier: GPL-2.0-or-later
/* SQLite's answers in the terms of this program; see schema.h. */
#include <errno.h>

#include "core/mem.h"
#include "record/schema.h"

static const struct {
	int code, err;
	const char *cause;
} codes[] = {
	{SQLITE_FULL, ENOSPC, "the disk is full"},
	/* A quota and a file size limit come as failed writes: only ENOSPC has a code of its own.
	 */
	{SQLITE_IOERR_WRITE, EIO, "a write failed (quota, file size limit, or a failing disk)"},
	{SQLITE_IOERR_SHORT_READ, EBADMSG, "it is shorter than it says"},
	{SQLITE_IOERR, EIO, "its disk fails"},
	{SQLITE_CORRUPT, EBADMSG, "its pages do not fit together (cut off or damaged)"},
	{SQLITE_NOTADB, EBADMSG, "it is not an SQLite file"},
	{SQLITE_MISMATCH, EBADMSG, "a value has the wrong type"},
	{SQLITE_SCHEMA, EBADMSG, "its tables are not a recording's"},
	{SQLITE_ERROR, EBADMSG, "its tables are not a recording's"},
	{SQLITE_TOOBIG, EBADMSG, "a value is too long"},
	{SQLITE_BUSY, EBUSY, "another program holds a lock on it"},
	{SQLITE_LOCKED, EBUSY, "another program holds a lock on it"},
	{SQLITE_READONLY, EROFS, "it cannot be written"},
	{SQLITE_PERM, EACCES, "permission denied"},
	{SQLITE_CANTOPEN, EACCES, "it, or a file beside it, cannot be opened"},
	{SQLITE_NOMEM, ENOMEM, "out of memory"},
	{SQLITE_CONSTRAINT, EBADMSG, "a value breaks a rule of its table"},
};

int sonde_db_errno(int code)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(codes); i++)
		if (codes[i].code == code || codes[i].code == (code & 0xff))
			return codes[i].err;
	return EIO;
}

const char *sonde_db_cause(int code)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(codes); i++)
		if (codes[i].code == code || codes[i].code == (code & 0xff))
			return codes[i].cause;
	return sqlite3_errstr(code);
}

int sonde_db_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql)
{
	return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

long long sonde_db_number(sqlite3 *db, const char *sql, long long otherwise)
{
	sqlite3_stmt *stmt = NULL;
	long long v = otherwise;

	if (!sonde_db_prepare(db, &stmt, sql) && sqlite3_step(stmt) == SQLITE_ROW &&
	    sqlite3_column_type(stmt, 0) != SQLITE_NULL)
		v = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return v;
}
