#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Counters mode on jemalloc against what jemalloc says of itself: totals and live bytes from each thread's
# own counters (tests/bench/tlscheck.c), and the bytes of each query (tests/bench/echo.c).

bats_require_minimum_version 1.5.0

ARCHIVE=/usr/lib/x86_64-linux-gnu/libjemalloc_pic.a

load recorded_helpers

setup() {
	recorded_setup
	export TLSCHECK_PRELOAD=libjemalloc.so.2
}

ticked() { [ "$(sql 'SELECT count(*) > 1 FROM tick')" = 1 ]; } # a difference takes two
metric() { sql "SELECT CAST(value AS INTEGER) FROM metric WHERE name = '$1' AND value IS NOT NULL
	ORDER BY ts_ns DESC LIMIT 1"; }

needs() { # FEATURE
	"$SONDE" doctor --json | grep -q "\"$1\" *: *\"yes\"" || skip "$1"
}

check() { # MODE READINGS [JEMWORK [THREADS]]
	run "$B/bench/tlscheck" "$1" "$2" "${3:-$B/harness/jemwork}" "${4:-8}"
	echo "# $output" >&3
	[ "$status" = 0 ]
}

# A jemwork that has jemalloc in it.
build() { # NAME ARGUMENTS...
	local name=$1

	[ -e "$ARCHIVE" ] || skip "libjemalloc-dev"
	shift
	unset TLSCHECK_PRELOAD
	gcc -O1 -w -o "$T/$name" tests/harness/jemwork.c "$@" -lstdc++ -ldl -lm -lpthread
}

@test "at rest every reading equals jemalloc's own to the byte, 1,000 times" { check rest 1000; }

@test "under load 1,000 readings lie within 1 % of what the threads say" { check load 1000; }

@test "threads that end are in the sum to the byte, 15,000 of them" { check come 300; }

@test "a layout one word off is refused by the scratch process" { check wrong 1; }

@test "jemalloc inside the executable, with symbols" {
	build inside -Wl,--whole-archive "$ARCHIVE" -Wl,--no-whole-archive
	check come 20 "$T/inside" 4
	build static -static "${ARCHIVE/_pic/}"
	check come 20 "$T/static" 4
}

@test "jemalloc inside the executable under names of its own (je_malloc)" {
	build first -c -o "$T/unused.o" # for the skip
	nm "$ARCHIVE" 2>/dev/null | awk '$2 == "T" && $3 !~ /^(je_|_Z)/ { print $3, "je_" $3 }' |
		sort -u >"$T/names"
	objcopy --redefine-syms="$T/names" "$ARCHIVE" "$T/libje.a"
	build prefixed -Wl,--whole-archive "$T/libje.a" -Wl,--no-whole-archive
	check come 20 "$T/prefixed" 4
}

@test "jemalloc inside an executable without symbols is refused, with the reason" {
	build inside -Wl,--whole-archive "$ARCHIVE" -Wl,--no-whole-archive
	strip "$T/inside"
	run "$B/bench/tlscheck" rest 1 "$T/inside" 2
	[ "$status" = 1 ]
	[[ $output == *"no scratch process can confirm what its code suggests"* ]]
}

serve() { # ECHO-ARGUMENTS...
	serve_program env LD_PRELOAD="${PRELOAD-libjemalloc.so.2}" "$B/bench/echo" "$@"
}
record() { record_server "$@"; } # ARGUMENTS...

# The server's nth query allocates n % 8 + 1 blocks of 1000 bytes, a size class of 1024, and frees half of
# them, rounded down, before it answers.
@test "each query's bytes are what it allocated and freed" {
	serve --alloc 8
	record --lens query,alloc
	"$B/bench/echoload" "$port" --queries 8000 --connections 1 >/dev/null
	finish
	equal 8000 "$(sql 'SELECT count(*) FROM span')" spans
	equal 0 "$(sql 'SELECT count(*) FROM span
		WHERE heap_allocated <> 1024 * ((seq - 1) % 8 + 1)
		OR heap_freed <> 1024 * (((seq - 1) % 8 + 1) / 2)')" "spans with other bytes"
	equal 8000 "$(metric query.heap_spans)" "queries whose bytes are known"
	equal $((8000 * 4608)) "$(metric query.heap_allocated)" "their sum"
	equal $((8000 * 2048)) "$(metric query.heap_freed)" "their frees"
	equal 1 "$(sql 'SELECT sum(sum) = 8000 * 4608 FROM hist_window h JOIN series s ON s.id = h.series
		WHERE s.name = '"'query.allocated'")" "histogram's sum"
	equal 1 "$(sql "SELECT sum(value = 0) > 0 AND min(value) >= 0 FROM metric
		WHERE name = 'alloc.live'")" "live bytes go back to what they were"
}

@test "without a recording queries have their bytes as well" {
	serve --alloc 8
	"$SONDE" stat -p "$server" --lens query,alloc -i 100ms -d 300s >"$T/out" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	until_true test -s "$T/out"
	"$B/bench/echoload" "$port" --queries 8000 --connections 4 >/dev/null
	finish
	grep -q 'B/query' "$T/out"
	grep -q 'allocated  mean 4.50 KiB a query, 2.00 KiB given back' "$T/out"
}

@test "glibc keeps no such counters: a query's bytes are absent, not 0" {
	PRELOAD='' serve --alloc 8
	record --lens query,alloc
	"$B/bench/echoload" "$port" --queries 100 --connections 1 >/dev/null
	finish
	equal 100 "$(sql 'SELECT count(*) FROM span WHERE heap_allocated IS NULL AND heap_freed IS NULL')" \
		"spans without bytes"
	equal 0 "$(sql "SELECT count(*) FROM metric WHERE name LIKE 'query.heap%'")" "sums"
}

@test "a kernel that cannot read threads: absent with the reason, and nothing else is lost" {
	export SONDE_WITHOUT=iter_sleepable
	serve --alloc 8
	record --lens query,alloc
	"$B/bench/echoload" "$port" --queries 100 --connections 1 >/dev/null
	finish
	equal 100 "$(sql 'SELECT count(*) FROM span')" spans
	equal 1 "$(sql "SELECT count(*) > 0 FROM metric WHERE name = 'alloc.allocated'
		AND absent LIKE '%iter_sleepable%'")" "reason"
}

lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }
ticks() { sql 'SELECT count(*) FROM tick'; }
more_ticks() { [ "$(ticks)" -gt "$1" ]; }

work() { # COMMAND: jemwork does it and says the truth
	local n
	n=$(wc -l <"$T/truth")
	echo "$1" >&8
	until_true lines "$T/truth" $((n + 1))
	truth=($(tail -n 1 "$T/truth")) # truth ALLOCATED FREED LIVE STATS
}

@test "threads that ended before attach: jemalloc's own statistics bound what is live" {
	local before now
	mkfifo "$T/in"
	LD_PRELOAD=libjemalloc.so.2 "$B/harness/jemwork" 2 "$T/slots" <"$T/in" >"$T/truth" 3>&- &
	server=$!
	pids+=("$server")
	exec 8>"$T/in"
	until_true lines "$T/truth" 1
	work "come 20"
	before=$((truth[1] - truth[2]))
	record --lens alloc
	work "come 20"
	work step
	now=$(ticks)
	until_true more_ticks $((now + 1))
	finish
	exec 8>&-
	equal 1 "$(sql "SELECT count(*) > 0 AND count(value) = 0 FROM metric
		WHERE name = 'alloc.allocated' AND absent LIKE 'threads ended before attach%'")" \
		"what is live is absent with the reason"
	equal "${truth[4]}" "$(metric alloc.at_most)" "bound: stats.allocated"
	equal $((truth[1] - truth[2] - before)) "$(metric alloc.live)" "change of live bytes"
	equal 0 "$(metric alloc.ends_lost)" "threads that ended unread"
}

@test "after an exec the old places are not read: another allocator's queries have no bytes" {
	mkfifo "$T/go"
	LD_PRELOAD=libjemalloc.so.2 bash -c "read -r _ <'$T/go'
		exec env -u LD_PRELOAD '$B/bench/echo' --alloc 8 >'$T/echo'" 3>&- &
	server=$!
	pids+=("$server")
	record --lens query,alloc -i 2s
	equal 1 "$(sql "SELECT count(*) > 0 FROM metric WHERE name = 'alloc.allocated' AND value > 0")" \
		"read before"
	echo >"$T/go"
	until_true test -s "$T/echo"
	"$B/bench/echoload" "$(head -n 1 "$T/echo")" --queries 100 --connections 1 >/dev/null
	finish
	equal 100 "$(sql 'SELECT count(*) FROM span WHERE heap_allocated IS NULL')" "spans without bytes"
}

# jemwork, started by sonde: `come` ends 15 threads at once, before anybody could have looked.
started() { # WHAT-SONDE-STARTS...
	local now

	mkfifo "$T/in"
	"$SONDE" run --alloc=jemalloc -o "$R" -d 300s -i 500ms --lens alloc -- "$@" \
		<"$T/in" >"$T/truth" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	exec 8>"$T/in"
	echo "come 15" >&8
	until_true lines "$T/truth" 2
	work step
	now=$(ticks)
	until_true more_ticks $((now + 2))
	kill -INT "$sonde"
	exec 8>&-
	wait "$sonde" || true
	cat "$T/err"
}

@test "a command that sonde starts is counted from its first instruction, ended threads included" {
	started "$B/harness/jemwork" 2 "$T/slots"
	echo "# ${truth[*]}" >&3
	equal "${truth[3]}" "$(metric alloc.allocated)" "live bytes"
	[ "$(metric alloc.handed_out)" -ge "${truth[1]}" ]
	equal 0 "$(metric alloc.counted_from)" "time that is not counted"
	equal 0 "$(sql "SELECT count(*) FROM note WHERE what LIKE '%ended by then%'")" "no caveat"
}

@test "a command that a shell replaces itself by is counted whole, or since when is said" {
	started sh -c "exec $B/harness/jemwork 2 $T/slots"
	echo "# ${truth[*]}, from $(metric alloc.counted_from)" >&3
	if [ "$(metric alloc.counted_from)" = 0 ]; then
		equal "${truth[3]}" "$(metric alloc.allocated)" "live bytes"
	else
		equal 1 "$(sql "SELECT count(*) FROM note WHERE what LIKE '%counted from +%'")" "note"
	fi
}

@test "what a process counted before it forked is counted once" {
	local now

	mkfifo "$T/in"
	"$SONDE" run --alloc=jemalloc -o "$R" -d 300s -i 200ms --lens alloc -- \
		"$B/harness/jemfork" <"$T/in" >"$T/truth" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	exec 8>"$T/in"
	until_true lines "$T/truth" 1
	truth=($(head -n 1 "$T/truth"))
	now=$(ticks)
	until_true more_ticks $((now + 2))
	kill -INT "$sonde"
	exec 8>&-
	wait "$sonde" || true
	equal 2 "$(sql "SELECT count(DISTINCT target) FROM metric
		WHERE name = 'alloc.handed_out'")" "processes counted"
	equal "${truth[1]}" "$(sql "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v
		FROM metric WHERE name = 'alloc.handed_out' GROUP BY target)")" "bytes of both"
}

@test "what a process counted before it forked is counted once, behind a shell as well" {
	local now

	mkfifo "$T/in"
	"$SONDE" run --alloc=jemalloc -o "$R" -d 300s -i 200ms --lens alloc -- \
		sh -c "sleep 0.1; exec $B/harness/jemfork" <"$T/in" >"$T/truth" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	exec 8>"$T/in"
	until_true lines "$T/truth" 1
	truth=($(head -n 1 "$T/truth"))
	now=$(ticks)
	until_true more_ticks $((now + 2))
	kill -INT "$sonde"
	exec 8>&-
	wait "$sonde" || true
	# The shell's own bytes, and its sleep's, are in it too; what jemfork did is there once, or
	# the recording says from when on it counts.
	now=$(sql "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v
		FROM metric WHERE name = 'alloc.handed_out' GROUP BY target)")
	echo "# ${truth[1]} and ${now}, from $(sql "SELECT max(value) FROM metric
		WHERE name = 'alloc.counted_from'")" >&3
	[ "$now" -lt $((truth[1] + (1 << 20))) ]
	[ "$now" -ge "${truth[1]}" ] || [ "$(sql "SELECT count(*) FROM note
		WHERE what LIKE '%counted from +%'")" -gt 0 ]
}
