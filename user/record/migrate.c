// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Steps from one schema version to the next. The reader runs them on a private copy of an older
 * recording, so the file itself never changes. The last row ends the table; there is a row for
 * every version before SONDE_RECORD_SCHEMA, which a test checks with a recording of each.
 */
#include <stddef.h>

#include "record/schema.h"

static const struct {
	int from;
	const char *sql;
} steps[] = {
	{.from = 1,
	 .sql = "ALTER TABLE span ADD COLUMN heap_allocated INTEGER;"
		"ALTER TABLE span ADD COLUMN heap_freed INTEGER"},
	{.from = 2, .sql = sonde_schema_stacks_sql},
	{.from = 3, .sql = sonde_schema_anatomy_sql},
	{.from = SONDE_RECORD_SCHEMA, .sql = NULL},
};

int sonde_schema_migrate(sqlite3 *db, int from)
{
	int at = from, rc = SQLITE_OK;

	for (int i = 0; steps[i].sql && !rc; i++) {
		if (steps[i].from != at)
			continue;
		rc = sqlite3_exec(db, steps[i].sql, NULL, NULL, NULL);
		at++;
	}
	if (rc)
		return rc;
	return at == SONDE_RECORD_SCHEMA ? SQLITE_OK : SQLITE_MISMATCH;
}
