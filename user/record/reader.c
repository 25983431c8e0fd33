// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Opens a recording. The first 100 bytes decide whether it is one (SQLite's header holds our
 * application id and the schema's version); then it is opened read-only, with SQLite told to trust
 * nothing in it. A recording that still has its -wal file is read together with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "record/reader_impl.h"
#include "record/schema.h"

#define MAX_VALUE_BYTES (4 << 20) /* no text or blob of ours comes near */

/* SQLite's file header: https://www.sqlite.org/fileformat.html, section 1.3. */
#define HEADER_BYTES	      100
#define HEADER_USER_VERSION   60
#define HEADER_APPLICATION_ID 68

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int check_version(const char *path, uint32_t version)
{
	if (version > SONDE_RECORD_SCHEMA)
		return sonde_err(
			EPROTO,
			"%s was written by a newer sonde (schema %u, this one reads up to %d): "
			"read it with that version",
			path, version, SONDE_RECORD_SCHEMA);
	if (version < 1)
		return sonde_err(EBADMSG, "%s is not a sonde recording: it has no schema version",
				 path);
	return 0;
}

static int check_header(const char *path, uint32_t *version)
{
	sonde_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	unsigned char head[HEADER_BYTES];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return sonde_err(errno, "cannot open recording %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return sonde_err(EBADMSG, "%s is not a sonde recording: it is not a regular file",
				 path);
	n = read(fd, head, sizeof(head));
	if (n < 0)
		return sonde_err(errno, "cannot read recording %s: %s", path, strerror(errno));
	if (n < HEADER_BYTES)
		return sonde_err(EBADMSG, "%s is not a sonde recording: it has only %zd bytes",
				 path, n);
	if (memcmp(head, "SQLite format 3", 16) ||
	    be32(head + HEADER_APPLICATION_ID) != SONDE_RECORD_APPLICATION_ID)
		return sonde_err(EBADMSG,
				 "%s is not a sonde recording; make one with: sonde record -o FILE",
				 path);
	*version = be32(head + HEADER_USER_VERSION);
	return check_version(path, *version);
}

int sonde_reader_fail(const struct sonde_reader *r, int code)
{
	int err = sonde_db_errno(code);

	if (err == EBADMSG || err == EIO)
		return sonde_err(
			EBADMSG,
			"recording %s is damaged: %s; sqlite3 %s .recover saves what can be read",
			r->path, sonde_db_cause(code), r->path);
	return sonde_err(err, "cannot read recording %s: %s", r->path, sonde_db_cause(code));
}

/* Before any statement: no triggers, functions or virtual tables of the file run, sizes are
 * bounded. */
static int open_db(struct sonde_reader *r, const char *name, int flags)
{
	int rc;

	sqlite3_close(r->db);
	r->db = NULL;
	rc = sqlite3_open_v2(name, &r->db, SQLITE_OPEN_NOMUTEX | flags, NULL);
	if (rc)
		return rc;
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_extended_result_codes(r->db, 1);
	sqlite3_limit(r->db, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
	sqlite3_busy_timeout(r->db, 2000);
	rc = sqlite3_exec(r->db, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY", NULL,
			  NULL, NULL);
	return rc ? rc
		  : sqlite3_exec(r->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
}

static bool has_wal(const char *path)
{
	char wal[PATH_MAX];
	struct stat st;

	snprintf(wal, sizeof(wal), "%s-wal", path);
	return !stat(wal, &st) && st.st_size > 0;
}

static int uri_of(const char *path, struct sonde_str *uri)
{
	int err = sonde_str_addf(uri, "file:");

	for (const char *p = path; *p && !err; p++)
		err = strchr("%?#", *p) ? sonde_str_addf(uri, "%%%02x", (unsigned char)*p)
					: sonde_str_addc(uri, *p);
	return err ? err : sonde_str_addf(uri, "?immutable=1");
}

/* A file in WAL mode needs a -shm file beside it, which cannot be made everywhere. If there is no
 * log to be read with it, the file is all there is and may be read as it stands. */
static int open_readonly(struct sonde_reader *r)
{
	sonde_autostr struct sonde_str uri = {0};
	int rc = open_db(r, r->path, SQLITE_OPEN_READONLY), base = rc & 0xff;

	if (!rc)
		return 0;
	if (base != SQLITE_CANTOPEN && base != SQLITE_READONLY && base != SQLITE_IOERR)
		return sonde_reader_fail(r, rc);
	if (has_wal(r->path))
		return sonde_err(
			EACCES,
			"cannot read recording %s: it was not closed and its directory cannot be "
			"written; copy it with its -wal file to a directory that can",
			r->path);
	if (uri_of(r->path, &uri))
		return sonde_reader_fail(r, SQLITE_NOMEM);
	rc = open_db(r, uri.s, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
	return rc ? sonde_reader_fail(r, rc) : 0;
}

/* Bring an older recording up to date, in a temporary copy. */
static int migrate(struct sonde_reader *r, uint32_t version)
{
	sqlite3_backup *backup;
	sqlite3 *copy = NULL;
	int rc = sqlite3_open("", &copy);

	if (!rc) {
		backup = sqlite3_backup_init(copy, "main", r->db, "main");
		rc = backup ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(copy);
		sqlite3_backup_finish(backup);
		rc = rc == SQLITE_DONE ? sonde_schema_migrate(copy, (int)version) : rc;
	}
	if (rc) {
		sqlite3_close(copy);
		return sonde_reader_fail(r, rc);
	}
	sqlite3_close(r->db);
	r->db = copy;
	return 0;
}

/* The names must be tables, not views that a stranger put in their place. */
static int check_tables(struct sonde_reader *r)
{
	static const char sql[] =
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name "
		"IN "
		"('meta','name','tick','series','value','hist_window','hist','note','drops',"
		"'fingerprint','span','query_text','frame','stack','stack_frame','stack_count',"
		"'anatomy')";
	sqlite3_stmt *stmt = NULL;
	int rc = sonde_db_prepare(r->db, &stmt, sql), n = 0;

	if (!rc)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		n = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	if (rc != SQLITE_ROW)
		return sonde_reader_fail(r, rc);
	return n == 17 ? 0 : sonde_reader_fail(r, SQLITE_SCHEMA);
}

int sonde_reader_open(struct sonde_reader **out, const char *path)
{
	struct sonde_reader *r;
	uint32_t version;
	int err = check_header(path, &version);

	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (r)
		r->path = strdup(path);
	if (!r || !r->path) {
		free(r);
		return sonde_err(ENOMEM, "cannot open recording %s: out of memory", path);
	}
	err = open_readonly(r);
	if (!err && version < SONDE_RECORD_SCHEMA)
		err = migrate(r, version);
	if (!err)
		err = check_tables(r);
	if (!err)
		err = sonde_reader_load(r);
	if (err)
		sonde_reader_free(&r);
	else
		*out = r;
	if (!err && !sonde_meta_find(&r->meta, "recording.begin_ns"))
		sonde_warn("recording %s is empty: it was cut before its first interval, or moved "
			   "without "
			   "its -wal file",
			   path);
	return err;
}

static void free_tables(struct sonde_reader *r)
{
	for (size_t i = 0; i < r->n_names; i++)
		free(r->names[i].name);
	for (size_t i = 0; i < r->n_series; i++) {
		free(r->series[i].name);
		free(r->series[i].label);
		free(r->series[i].unit);
		free(r->series[i].help);
	}
	free(r->names);
	free(r->series);
	r->names = NULL;
	r->series = NULL;
	r->n_names = r->cap_names = r->n_series = r->cap_series = 0;
	sonde_meta_fini(&r->meta);
}

void sonde_reader_free(struct sonde_reader **rp)
{
	struct sonde_reader *r = *rp;

	if (!r)
		return;
	*rp = NULL;
	free_tables(r);
	sqlite3_close(r->db);
	free(r->path);
	free(r);
}

const char *sonde_reader_path(const struct sonde_reader *r)
{
	return r->path;
}

const struct sonde_meta *sonde_reader_meta(const struct sonde_reader *r)
{
	return &r->meta;
}

bool sonde_reader_complete(const struct sonde_reader *r)
{
	return r->complete;
}

uint64_t sonde_reader_start_ns(const struct sonde_reader *r)
{
	return r->start_ns;
}

uint64_t sonde_reader_end_ns(const struct sonde_reader *r)
{
	return r->end_ns;
}

const struct sonde_clockpair *sonde_reader_clock(const struct sonde_reader *r)
{
	return &r->clock;
}

static const char *text_of(sqlite3_stmt *stmt, int col)
{
	const char *s = (const char *)sqlite3_column_text(stmt, col);

	return s ? s : "";
}

/* Run @sql and give each row to @row. 0 or -errno (logged). */
static int for_rows(struct sonde_reader *r, const char *sql,
		    int (*row)(struct sonde_reader *r, sqlite3_stmt *stmt))
{
	sqlite3_stmt *stmt = NULL;
	int rc = sonde_db_prepare(r->db, &stmt, sql), err = 0;

	if (!rc)
		rc = SQLITE_ROW;
	while (rc == SQLITE_ROW && !err) {
		rc = sqlite3_step(stmt);
		if (rc == SQLITE_ROW)
			err = row(r, stmt);
	}
	sqlite3_finalize(stmt);
	if (err)
		return sonde_reader_fail(r, SQLITE_NOMEM);
	return rc == SQLITE_DONE ? 0 : sonde_reader_fail(r, rc);
}

static int meta_row(struct sonde_reader *r, sqlite3_stmt *stmt)
{
	return sonde_meta_set(&r->meta, text_of(stmt, 0), "%s", text_of(stmt, 1));
}

static int name_row(struct sonde_reader *r, sqlite3_stmt *stmt)
{
	char *name = strdup(text_of(stmt, 1));

	if (!name || SONDE_GROW(r->names, r->n_names, r->cap_names)) {
		free(name);
		return -ENOMEM;
	}
	r->names[r->n_names++] = (struct sonde_reader_name){sqlite3_column_int64(stmt, 0), name};
	return 0;
}

static int series_row(struct sonde_reader *r, sqlite3_stmt *stmt)
{
	struct sonde_reader_series *s;

	if (SONDE_GROW(r->series, r->n_series, r->cap_series))
		return -ENOMEM;
	s = &r->series[r->n_series++];
	*s = (struct sonde_reader_series){
		.id = sqlite3_column_int64(stmt, 0),
		.kind = sqlite3_column_int(stmt, 1),
		.target = (uint32_t)sqlite3_column_int64(stmt, 2),
		.name = strdup(text_of(stmt, 3)),
		.label = strdup(text_of(stmt, 4)),
		.unit = strdup(text_of(stmt, 5)),
		.help = strdup(text_of(stmt, 6)),
	};
	if (!s->name || !s->label || !s->unit || !s->help)
		return -ENOMEM;
	s->metric = (struct sonde_metric_desc){s->name, s->unit, (enum sonde_metric_kind)s->kind,
					       s->help};
	s->hist = (struct sonde_hist_desc){s->name, s->unit, s->help};
	return 0;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* When the first interval began: recordings of older versions do not say, and in a damaged one it
 * may be after the interval's end. */
static uint64_t active_of(const struct sonde_reader *r)
{
	const char *text = sonde_meta_find(&r->meta, "recording.active_ns");
	int64_t first = sonde_db_number(r->db, "SELECT min(ts_ns) FROM tick", INT64_MAX);
	uint64_t ns;

	return text && !sonde_parse_u64(text, &ns) && (int64_t)ns >= 0 && (int64_t)ns <= first ? ns
											       : 0;
}

/* The first moment anything is known of, and the last tick. */
static void load_times(struct sonde_reader *r)
{
	static const char *const firsts[] = {
		"SELECT min(ts_ns) FROM tick",
		"SELECT min(ts_ns) FROM value",
		"SELECT min(from_ns) FROM hist_window",
	};
	int64_t begin = (int64_t)r->clock.real_ns, t;
	int64_t first = r->active_ns ? (int64_t)r->active_ns : INT64_MAX;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(firsts); i++) {
		t = sonde_db_number(r->db, firsts[i], INT64_MAX);
		if (t < first && t >= 0)
			first = t;
	}
	r->start_ns = (uint64_t)(first == INT64_MAX ? begin : first);
	r->end_ns = max_u64((uint64_t)sonde_db_number(r->db, "SELECT max(ts_ns) FROM tick", 0),
			    r->start_ns);
}

/* A finished recording knows; of any other the last tick does. */
static int load_span_counts(struct sonde_reader *r)
{
	static const struct {
		const char *key, *sql;
	} counts[] = {
		{"recording.spans_seen", "SELECT spans_seen FROM tick ORDER BY ts_ns DESC LIMIT 1"},
		{"recording.spans_stored",
		 "SELECT spans_stored FROM tick ORDER BY ts_ns DESC LIMIT 1"},
	};
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(counts) && !err; i++)
		if (!r->complete || !sonde_meta_find(&r->meta, counts[i].key))
			err = sonde_meta_set(&r->meta, counts[i].key, "%lld",
					     sonde_db_number(r->db, counts[i].sql, 0));
	return err;
}

static int load_meta(struct sonde_reader *r)
{
	const char *complete;
	int err = for_rows(r, "SELECT key, value FROM meta ORDER BY id", meta_row);

	if (err)
		return err;
	if (!sonde_meta_clock(&r->meta, &r->clock))
		r->clock = (struct sonde_clockpair){0};
	complete = sonde_meta_find(&r->meta, "complete");
	r->complete = complete && !strcmp(complete, "1");
	r->active_ns = active_of(r);
	load_times(r);
	err = sonde_meta_set_clock(&r->meta, &r->clock);
	err = err ? err : sonde_meta_set(&r->meta, "complete", "%d", r->complete);
	err = err ? err : sonde_meta_set(&r->meta, "recording.path", "%s", r->path);
	err = err ? err : sonde_meta_set(&r->meta, "recording.start_ns", "%" PRIu64, r->start_ns);
	err = err ? err : sonde_meta_set(&r->meta, "recording.end_ns", "%" PRIu64, r->end_ns);
	err = err ? err : load_span_counts(r);
	return err ? sonde_reader_fail(r, SQLITE_NOMEM) : 0;
}

int sonde_reader_load(struct sonde_reader *r)
{
	int err;

	free_tables(r);
	err = load_meta(r);
	if (!err)
		err = for_rows(r, "SELECT id, name FROM name ORDER BY id", name_row);
	if (!err)
		err = for_rows(r,
			       "SELECT id, kind, target, name, label, unit, help FROM series "
			       "ORDER BY id",
			       series_row);
	return err;
}

/* Both tables are sorted and begin with their id. */
static int compare_id(const void *key, const void *row)
{
	int64_t a = *(const int64_t *)key, b = *(const int64_t *)row;

	return a < b ? -1 : a > b;
}

const char *sonde_reader_name(const struct sonde_reader *r, int64_t id)
{
	const struct sonde_reader_name *n =
		r->n_names ? bsearch(&id, r->names, r->n_names, sizeof(*n), compare_id) : NULL;

	return n ? n->name : NULL;
}

const struct sonde_reader_series *sonde_reader_find_series(const struct sonde_reader *r, int64_t id)
{
	const struct sonde_reader_series *s = NULL;

	return r->n_series ? bsearch(&id, r->series, r->n_series, sizeof(*s), compare_id) : NULL;
}
