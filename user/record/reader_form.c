// SPDX-License-Identifier: GPL-2.0-or-later
/* What a form of query is called; see reader.h. */
#include <stdio.h>

#include "record/reader_impl.h"
#include "record/schema.h"

const char *sonde_reader_fingerprint(const struct sonde_reader *r, uint64_t id, char *buf,
				     size_t size)
{
	sqlite3_stmt *st = NULL;

	*buf = '\0';
	if (sonde_db_prepare(r->db, &st, "SELECT text FROM fingerprint WHERE id = ?1"))
		return buf;
	sqlite3_bind_int64(st, 1, (int64_t)id);
	if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0))
		snprintf(buf, size, "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return buf;
}
