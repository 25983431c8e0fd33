-- SPDX-License-Identifier: GPL-2.0-or-later
-- Where a query's time went, since schema 4. Part of schema.sql, in a file of its own since the step
-- from schema 3 runs it too. The parts are those of table enum, kind 'part', which says what each is.

-- A row for each span whose anatomy was seen. The times are disjoint and their sum is the span's
-- duration; the counts are its page faults by class.
CREATE TABLE anatomy (
	span               INTEGER PRIMARY KEY REFERENCES span (id),
	queued_ns          INTEGER NOT NULL,
	user_ns            INTEGER NOT NULL,
	fault_base_ns      INTEGER NOT NULL,
	fault_mthp_ns      INTEGER NOT NULL,
	fault_pmd_ns       INTEGER NOT NULL,
	fault_cow_ns       INTEGER NOT NULL,
	fault_file_ns      INTEGER NOT NULL,
	fault_swap_ns      INTEGER NOT NULL,
	fault_other_ns     INTEGER NOT NULL,
	reclaim_ns         INTEGER NOT NULL,
	compaction_ns      INTEGER NOT NULL,
	sys_madvise_ns     INTEGER NOT NULL,
	sys_munmap_ns      INTEGER NOT NULL,
	sys_mmap_ns        INTEGER NOT NULL,
	sys_brk_ns         INTEGER NOT NULL,
	sys_other_ns       INTEGER NOT NULL,
	runqueue_ns        INTEGER NOT NULL,
	off_mmap_lock_ns   INTEGER NOT NULL,
	off_alloc_lock_ns  INTEGER NOT NULL,
	off_lock_ns        INTEGER NOT NULL,
	off_io_ns          INTEGER NOT NULL,
	off_socket_ns      INTEGER NOT NULL,
	off_sleep_ns       INTEGER NOT NULL,
	off_other_ns       INTEGER NOT NULL,
	unattributed_ns    INTEGER NOT NULL,
	fault_base_count   INTEGER NOT NULL,
	fault_mthp_count   INTEGER NOT NULL,
	fault_pmd_count    INTEGER NOT NULL,
	fault_cow_count    INTEGER NOT NULL,
	fault_file_count   INTEGER NOT NULL,
	fault_swap_count   INTEGER NOT NULL,
	fault_other_count  INTEGER NOT NULL
) STRICT;
