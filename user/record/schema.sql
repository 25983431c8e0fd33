-- SPDX-License-Identifier: GPL-2.0-or-later
-- Schema 4 of a sonde recording, with schema_stacks.sql and schema_anatomy.sql. docs/recording.md explains it;
-- docs/schema-changes.md lists changes.
-- Every time is UTC, in ns since 1970. NULL means "not known", never 0. Numbers of kinds, levels,
-- causes and states are named in table enum. Append columns and tables, never change a meaning.

CREATE TABLE meta (
	id    INTEGER PRIMARY KEY,
	key   TEXT NOT NULL UNIQUE,
	value TEXT NOT NULL
) STRICT;

CREATE TABLE enum (
	kind  TEXT NOT NULL,
	value INTEGER NOT NULL,
	name  TEXT NOT NULL,
	help  TEXT NOT NULL,
	PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;

-- Strings that many rows share: commands, clients, indexes, reasons of absence.
CREATE TABLE name (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL
) STRICT;

-- One row an interval; the row is the last thing of its transaction.
CREATE TABLE tick (
	ts_ns        INTEGER PRIMARY KEY,
	spans_seen   INTEGER NOT NULL,
	spans_stored INTEGER NOT NULL
) STRICT;

CREATE TABLE series (
	id     INTEGER PRIMARY KEY,
	kind   INTEGER NOT NULL, -- enum 'series'
	name   TEXT NOT NULL,
	label  TEXT NOT NULL,
	target INTEGER NOT NULL,
	unit   TEXT NOT NULL,
	help   TEXT NOT NULL,
	UNIQUE (kind, name, label, target)
) STRICT;

-- Metrics. value NULL: absent names the reason.
CREATE TABLE value (
	ts_ns  INTEGER NOT NULL,
	series INTEGER NOT NULL REFERENCES series (id),
	value  REAL,
	absent INTEGER REFERENCES name (id),
	PRIMARY KEY (ts_ns, series)
) STRICT, WITHOUT ROWID;

-- Histograms, one per series and UTC minute; from_ns and to_ns say what of the minute was observed.
CREATE TABLE hist_window (
	window_ns INTEGER NOT NULL,
	series    INTEGER NOT NULL REFERENCES series (id),
	from_ns   INTEGER NOT NULL,
	to_ns     INTEGER NOT NULL,
	count     INTEGER NOT NULL,
	sum       REAL NOT NULL,
	min       INTEGER NOT NULL,
	max       INTEGER NOT NULL,
	PRIMARY KEY (window_ns, series)
) STRICT, WITHOUT ROWID;

CREATE TABLE hist (
	window_ns INTEGER NOT NULL,
	series    INTEGER NOT NULL REFERENCES series (id),
	bucket    INTEGER NOT NULL,
	count     INTEGER NOT NULL,
	PRIMARY KEY (window_ns, series, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
	id     INTEGER PRIMARY KEY,
	ts_ns  INTEGER NOT NULL,
	level  INTEGER NOT NULL, -- enum 'note'
	lens   TEXT NOT NULL,
	what   TEXT NOT NULL,
	remedy TEXT NOT NULL
) STRICT;

-- What was not seen, cumulative; a row where a count changed.
CREATE TABLE drops (
	ts_ns INTEGER NOT NULL,
	lens  INTEGER NOT NULL, -- enum 'lens'
	cause INTEGER NOT NULL, -- enum 'drop'
	count INTEGER NOT NULL,
	PRIMARY KEY (ts_ns, lens, cause)
) STRICT, WITHOUT ROWID;

-- Requests with their literals replaced. id is the hash's 64 bits as a signed number.
CREATE TABLE fingerprint (
	id   INTEGER PRIMARY KEY,
	text TEXT NOT NULL
) STRICT;

-- A span is one query. start_ns and later times are NULL where not seen; alloc_*, fault*, handler_*,
-- heap_* where not measured.
CREATE TABLE span (
	id              INTEGER PRIMARY KEY,
	target          INTEGER NOT NULL,
	pid             INTEGER NOT NULL,
	tid             INTEGER NOT NULL,
	conn            INTEGER NOT NULL,
	seq             INTEGER NOT NULL,
	client          INTEGER REFERENCES name (id),
	proto           INTEGER NOT NULL, -- enum 'proto'
	command         INTEGER REFERENCES name (id),
	command_id      INTEGER NOT NULL,
	index_name      INTEGER REFERENCES name (id),
	fingerprint     INTEGER REFERENCES fingerprint (id),
	status          INTEGER NOT NULL, -- enum 'status'
	error           INTEGER NOT NULL,
	flags           INTEGER NOT NULL, -- bits: enum 'flag'
	statements      INTEGER NOT NULL,
	arrival_ns      INTEGER,
	start_ns        INTEGER,
	request_end_ns  INTEGER,
	first_ns        INTEGER,
	last_ns         INTEGER,
	bytes_in        INTEGER NOT NULL,
	bytes_out       INTEGER NOT NULL,
	request_len     INTEGER NOT NULL,
	alloc_bytes     INTEGER,
	alloc_calls     INTEGER,
	faults          INTEGER,
	fault_ns        INTEGER,
	handler_ns      INTEGER,
	found           INTEGER,
	handler_wall_ms INTEGER,
	handler_hits    INTEGER,
	heap_allocated  INTEGER, -- what the allocator counted for the query's thread
	heap_freed      INTEGER
) STRICT;

-- Only where the text itself was asked for. DELETE FROM query_text; VACUUM; makes a file fit to share.
CREATE TABLE query_text (
	span INTEGER PRIMARY KEY REFERENCES span (id),
	text TEXT NOT NULL
) STRICT;

-- Views: the same with names and derived times, for people.
CREATE VIEW query AS
SELECT s.id, s.target, s.pid, s.tid, printf('%016x', s.conn) AS conn, s.seq,
       cl.name AS client, p.name AS proto, co.name AS command, ix.name AS index_name,
       st.name AS status, s.error, s.flags, s.statements,
       s.arrival_ns, s.start_ns, s.first_ns, s.last_ns,
       max(s.last_ns - coalesce(s.arrival_ns, s.start_ns), 0) AS duration_ns,
       max(s.start_ns - s.arrival_ns, 0) AS wait_ns,
       max(s.first_ns - s.start_ns, 0) AS service_ns,
       max(s.last_ns - s.first_ns, 0) AS send_ns,
       s.bytes_in, s.bytes_out, s.alloc_bytes, s.alloc_calls, s.faults, s.fault_ns,
       s.heap_allocated, s.heap_freed, s.found, s.handler_wall_ms,
       printf('%016x', s.fingerprint) AS fingerprint_id, f.text AS fingerprint, t.text AS text
FROM span s
LEFT JOIN name cl ON cl.id = s.client
LEFT JOIN name co ON co.id = s.command
LEFT JOIN name ix ON ix.id = s.index_name
LEFT JOIN enum p ON p.kind = 'proto' AND p.value = s.proto
LEFT JOIN enum st ON st.kind = 'status' AND st.value = s.status
LEFT JOIN fingerprint f ON f.id = s.fingerprint
LEFT JOIN query_text t ON t.span = s.id;

CREATE VIEW metric AS
SELECT v.ts_ns, s.target, s.name, s.label, v.value, s.unit, n.name AS absent
FROM value v JOIN series s ON s.id = v.series LEFT JOIN name n ON n.id = v.absent;

-- low: the least value of the bucket (7 mantissa bits: 128 buckets for each power of two).
CREATE VIEW histogram AS
SELECT h.window_ns, s.target, s.name, s.label, s.unit, h.bucket, h.count,
       CASE WHEN h.bucket < 128 THEN h.bucket
            ELSE (128 + h.bucket % 128) << (h.bucket / 128 - 1) END AS low
FROM hist h JOIN series s ON s.id = h.series;

CREATE VIEW drop_total AS
SELECT l.name AS lens, c.name AS cause, max(d.count) AS count, c.help
FROM drops d
JOIN enum l ON l.kind = 'lens' AND l.value = d.lens
JOIN enum c ON c.kind = 'drop' AND c.value = d.cause
GROUP BY d.lens, d.cause;
