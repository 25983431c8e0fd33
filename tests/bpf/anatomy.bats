#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The anatomy of queries against a server that writes down, by its own clocks, what each step of each query
# cost it (tests/harness/anatomywork.c). A query's row there is found by client port and number. Run queue
# time is compared with the kernel's schedstat, so a busy machine does not matter; what remains is what the
# two see differently: interrupts, and the host. So three of four queries have to agree.

bats_require_minimum_version 1.5.0

load anatomy_helpers

# Both sides of each query: table `both`, with the parts summed up as cpu, off and faults.
join_truth() {
	rm -f "$T/x.db"
	sqlite3 "$T/x.db" '.mode tabs' "CREATE TABLE truth (port, seq INTEGER, wall INTEGER, t_cpu INTEGER,
		t_rq INTEGER, t_faults INTEGER, spin INTEGER, touch INTEGER, huge INTEGER, purge INTEGER,
		map INTEGER, unmap INTEGER, brk INTEGER, sleep INTEGER, lock INTEGER, socket INTEGER,
		io INTEGER, mmaplock INTEGER, cache INTEGER)" ".import $T/truth truth" \
		"ATTACH 'file:$R?mode=ro' AS rec" "CREATE TABLE both AS SELECT t.*, a.*, q.duration_ns,
		user_ns + fault_base_ns + fault_mthp_ns + fault_pmd_ns + fault_cow_ns + fault_file_ns
		+ fault_swap_ns + fault_other_ns + reclaim_ns + compaction_ns + sys_madvise_ns
		+ sys_munmap_ns + sys_mmap_ns + sys_brk_ns + sys_other_ns AS cpu,
		off_mmap_lock_ns + off_alloc_lock_ns + off_lock_ns + off_io_ns + off_socket_ns
		+ off_sleep_ns + off_other_ns AS off,
		fault_base_count + fault_mthp_count + fault_pmd_count + fault_cow_count + fault_file_count +
		fault_swap_count + fault_other_count AS faults
		FROM truth t JOIN rec.query q ON q.client = '127.0.0.1:' || t.port AND q.seq = t.seq
		JOIN rec.anatomy a ON a.span = q.id"
}

both() { sqlite3 -readonly -bail "$T/x.db" "SELECT $1 FROM both"; }

# At most 5 % or 50 us apart in three of four queries.
agree() { # PART TRUTH [US]
	local n good

	n=$(both "count(*)")
	good=$(both "count(*) FILTER (WHERE abs(($1) - ($2)) <= max(${3:-50} * 1000, ($2) * 0.05))")
	[ "$n" -gt 0 ] && [ $((good * 4)) -ge $((n * 3)) ] || {
		echo "$1: $good of $n queries agree with $2" >&2
		both "$1, $2, cpu, t_cpu, runqueue_ns, t_rq" >&2
		return 1
	}
}

# CPU and run queue together are exact. How they divide is not what schedstat says where a thread that the
# kernel hides from tracing had the CPU (docs/lens-stall.md), or the host.
agree_all() {
	agree "cpu + runqueue_ns" "t_cpu + t_rq"
	agree cpu t_cpu 200
	agree off "wall - t_cpu - t_rq"
	agree unattributed_ns 0
}

# Whatever was asked: every span has parts, whose sum is its duration, and none is less than nothing.
whole() { # SPANS
	local columns
	columns=$(sql "SELECT group_concat(name, ' + ') FROM pragma_table_info('anatomy')
		WHERE name LIKE '%_ns'")
	equal "$1" "$(sql 'SELECT count(*) FROM anatomy')" "spans with an anatomy"
	equal "$1" "$(sql "SELECT count(*) FROM anatomy JOIN query ON query.id = span
		WHERE duration_ns = $columns")" "spans that are the sum of their parts"
	equal 0 "$(sql "SELECT count(*) FROM anatomy WHERE min(${columns// +/,}) < 0")" "parts below 0"
	equal 0 "$(sql 'SELECT coalesce(sum(count), 0) FROM drop_total')" drops
}

one_kind() { # STEP PART TRUTH
	serve
	record --lens query
	ask 1 20 "$1"
	finish
	whole 20
	join_truth
	equal 20 "$(both 'count(*)')" "queries that the server wrote down"
	agree "$2" "$3"
	agree_all
}

@test "a query that computes is user CPU" {
	one_kind "spin 3000" user_ns spin
	equal 0 "$(both 'count(*) FILTER (WHERE off > 0)')" "queries that waited"
}

@test "one that sleeps is sleep" { one_kind "sleep 2000" off_sleep_ns sleep; }

@test "one that waits for a mutex is another lock" { one_kind "lock 2000" off_lock_ns lock; }

@test "one that waits for an answer over a socket is socket" {
	one_kind "socket 2000" off_socket_ns socket
}

@test "one that reads from disk is I/O" {
	[ "$(stat -f -c %T "$BATS_TEST_TMPDIR")" != tmpfs ] || skip "no disk below $BATS_TEST_TMPDIR"
	one_kind "io 5" off_io_ns io
}

@test "one that waits for mmap_lock is that" {
	one_kind "mmaplock 16384" "off_mmap_lock_ns + off_sleep_ns" mmaplock
	equal 1 "$(both 'count(*) FILTER (WHERE off_mmap_lock_ns > off / 2) >= 4')" \
		"queries that are mostly that"
}

@test "one that touches pages is base faults, each of them" {
	one_kind "touch 150" fault_base_ns touch
	# The first one also brings in code, before and after the server's own count.
	equal 0 "$(both 'count(*) FILTER (WHERE seq > 1 AND fault_base_count <> 150)')" \
		"queries with another number of base faults"
	equal 0 "$(both 'count(*) FILTER (WHERE seq > 1 AND faults <> t_faults)')" \
		"queries with another number of faults than rusage has"
}

@test "one that touches huge pages is those" {
	local thp
	thp=$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || true)
	[ -n "$thp" ] && [[ $thp != *'[never]'* ]] || skip "no transparent huge pages"
	one_kind "huge 8" "fault_pmd_ns + compaction_ns + reclaim_ns + fault_base_ns" huge
	# The kernel may find no free block of 2 MiB; then the fault gives a base page, and says so.
	equal 0 "$(both 'count(*) FILTER (WHERE fault_pmd_count + fault_base_count < 8)')" \
		"queries with fewer"
	equal 1 "$(both 'sum(fault_pmd_count) > 0')" "huge pages at all"
}

@test "one that purges is madvise" { one_kind "purge 8192" sys_madvise_ns purge; }

@test "one that maps is mmap and munmap" {
	one_kind "map 8192" sys_mmap_ns map
	agree sys_munmap_ns unmap
}

@test "one that moves the break is brk, and its faults" {
	one_kind "brk 512" "sys_brk_ns + fault_base_ns" brk
	equal 0 "$(both 'count(*) FILTER (WHERE sys_brk_ns = 0)')" "queries without brk"
}

@test "one that has to free its cgroup's memory first is reclaim, and another is not" {
	local parent=/sys/fs/cgroup/memory
	[ -e $parent/memory.limit_in_bytes ] || skip "no memory cgroup (v1) here"
	serve
	record --lens query,thp
	ask 1 5 "cache 65536"
	finish
	whole 5
	equal 0 "$(sql 'SELECT sum(reclaim_ns) FROM anatomy')" "reclaim without a limit"
	rm -f "$R"* "$T/truth"* "$T/port"
	group=$parent/sonde-anatomy-$$
	mkdir "$group"
	echo 48000000 >"$group/memory.limit_in_bytes"
	launch=(bash -c 'echo $BASHPID >'"$group"'/cgroup.procs; exec "$0" "$@"')
	serve
	record --lens query,thp
	ask 1 5 "cache 65536"
	finish
	whole 5
	equal 5 "$(sql 'SELECT count(*) FROM anatomy WHERE reclaim_ns BETWEEN 1 AND sys_other_ns * 10')" \
		"queries that reclaimed"
	# Another lens's programs saw at least as much: also what the server reclaims between queries.
	equal 1 "$(sql "SELECT (SELECT sum(reclaim_ns) FROM anatomy) <= 1.05 * max(value) FROM metric
		WHERE name = 'thp.stall_time' AND label = 'memcg_reclaim'")" "no more than there was"
}

@test "48 connections at once, with every step: each query's is its own" {
	serve
	record --lens query,fault,stall --fault-mode sampled
	ask 48 5 "spin 300; sleep 1000; touch 60; lock 500; socket 500; purge 512; map 256"
	finish
	whole 240
	join_truth
	equal 240 "$(both 'count(*)')" queries
	agree off_sleep_ns sleep
	agree off_lock_ns lock
	agree off_socket_ns socket
	agree fault_base_ns touch
	agree_all
}

@test "a query that another thread answers is followed by the wake" {
	serve --pool 8
	record --lens query
	ask 2 40 "spin 2000; sleep 1000; touch 100" 5
	finish
	whole 80
	join_truth
	# A worker that was not asleep takes a query without being woken: its time is nobody's. Hence the
	# pauses: without them it was 36 to 59 of 80 here. What is cold after one costs 50 us of user time
	# beside the work, of which there is more for that reason.
	equal 1 "$(both 'count(*) FILTER (WHERE off_sleep_ns > 0) >= 40')" "at least half were followed"
	equal 0 "$(both 'count(*) FILTER (WHERE off_sleep_ns = 0 AND
		unattributed_ns < wall)')" "queries that were not followed, and yet explained"
	sqlite3 "$T/x.db" 'DELETE FROM both WHERE off_sleep_ns = 0'
	agree off_sleep_ns sleep
	agree user_ns spin
	agree fault_base_ns touch
	agree cpu t_cpu
}

@test "one thread that reads three queries before it answers them: none gets another's time" {
	serve --batch 3
	record --lens query
	ask 3 10 "spin 2000"
	finish
	whole 30
	join_truth
	equal 30 "$(both 'count(*)')" queries
	# The one read last is the thread's from the answer before its own on; of the others nobody knows.
	agree "CASE WHEN user_ns > spin / 2 THEN user_ns ELSE spin END" spin
	equal 1 "$(both 'count(*) FILTER (WHERE user_ns > spin / 2) = 10')" \
		"one in three is explained"
	equal 0 "$(both 'count(*) FILTER (WHERE user_ns < spin / 2 AND unattributed_ns < wall)')" \
		"that are explained in part"
}

@test "a query that was under way at attach has none; those after it have" {
	local before
	serve
	ask 1 30 "sleep 1000000" 3>&- &
	pids+=("$!")
	sleep 0.5 # its first query is asleep then, whatever the machine does
	record --lens query
	before=$(rows)
	until_true answered $((before + 2))
	finish
	equal 1 "$(sql 'SELECT count(*) > 0 FROM anatomy')" "spans with an anatomy"
	# The first of all began before the attach.
	[ "$(sql 'SELECT count(*) FROM anatomy')" -lt "$(rows)" ]
	equal 0 "$(sql 'SELECT count(*) FROM anatomy JOIN query ON query.id = span
		WHERE off_sleep_ns NOT BETWEEN 1000000000 AND duration_ns')" "that lack some of their sleep"
}
rows() { wc -l <"$T/truth"; }
answered() { [ "$(rows)" -ge "$1" ]; }

@test "an aborted query's parts are its duration; one that did not end has none" {
	serve
	record --lens query
	ask 1 1 "sleep 1000; forget 0"
	ask 1 1 "sleep 300000000" 3>&- &
	pids+=("$!")
	until_true grep -q . "$T/truth"
	sleep 1
	finish
	equal "aborted|1
unfinished|0" "$(sql 'SELECT status, count(span) FROM query LEFT JOIN anatomy ON query.id = span
		GROUP BY status ORDER BY status')" "anatomies by status"
	equal 0 "$(sql 'SELECT coalesce(sum(count), 0) FROM drop_total')" drops
}

@test "the totals have every query, traced or not" {
	serve
	record --lens query --slower-than 60s
	ask 4 25 "spin 200; sleep 300"
	finish
	equal 0 "$(sql 'SELECT count(*) FROM query')" "query traces"
	last() { # METRIC LABEL
		sql "SELECT CAST(value AS INTEGER) FROM metric WHERE name = '$1' AND label = '$2'
			ORDER BY ts_ns DESC LIMIT 1"
	}
	equal 100 "$(last query.part_spans '')" "queries in the totals"
	equal 100 "$(last query.part_spans query)" "by command"
	equal 1 "$(($(last query.part.off_sleep '') >= 100 * 300000))" "time asleep"
	# Together they are what the latency histogram has, whose sum is exact.
	equal "$(sql "SELECT CAST(sum(h.sum) AS INTEGER) FROM hist_window h JOIN series s
		ON s.id = h.series WHERE s.name = 'query.latency' AND s.label = ''")" \
		"$(sql "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v FROM metric
			WHERE name LIKE 'query.part.%' AND label = '' GROUP BY name)")" "sum of all parts"
}

@test "where system calls are read instead of sockets it is the same" {
	export SONDE_FORCE_SYSCALLS=1
	serve
	record --lens query
	ask 1 1 "spin 10" # the accept that was under way is not seen to return
	ask 2 20 "spin 500; sleep 1000"
	finish
	[ "$(sql 'SELECT count(*) FROM query')" -ge 40 ]
	whole "$(sql 'SELECT count(*) FROM query')"
	join_truth
	sqlite3 "$T/x.db" 'DELETE FROM both WHERE spin < 400000'
	agree user_ns spin
	agree off_sleep_ns sleep
	agree unattributed_ns 0
}

@test "off is off, and stat has it when asked" {
	serve
	record --lens query --anatomy off
	ask 1 5 "spin 100"
	finish
	equal 5 "$(sql 'SELECT count(*) FROM query')" spans
	equal 0 "$(sql 'SELECT count(*) FROM anatomy')" anatomies
	equal 0 "$(sql "SELECT count(*) FROM metric WHERE name LIKE 'query.part%'")" totals
	"$SONDE" stat -p "$server" --lens query --anatomy on -i 200ms >"$T/stat" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	until_true grep -q '^[0-9][0-9]:' "$T/stat" # an interval is over
	ask 1 20 "sleep 2000; spin 100"
	finish
	grep -E 'where it went +.*asleep [0-9]+ %' "$T/stat" || {
		cat "$T/stat" >&2
		return 1
	}
}
