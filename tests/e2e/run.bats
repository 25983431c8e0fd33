#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `sonde run`: what it says it set is what the process has, what it starts is observed whole and ends with
# it, and the system is as it was. Tests that set the system's huge page setting put it back.

bats_require_minimum_version 1.5.0
load helpers

WORK=$searchd_build/harness/faultwork
ENABLED=/sys/kernel/mm/transparent_hugepage/enabled

setting() { sed 's/.*\[\(.*\)\].*/\1/' "$ENABLED"; }

setup_file() {
	# Who asks for a huge page must get it: memory that other tests left in pieces is moved together.
	[ ! -w /proc/sys/vm/compact_memory ] || echo 1 >/proc/sys/vm/compact_memory
	THP_BEFORE=$(setting)
	export THP_BEFORE
}

setup() {
	[ -e "$ENABLED" ] || skip "no transparent huge pages in this kernel"
}

teardown() {
	echo "$THP_BEFORE" >"$ENABLED"
	end_started
	[ ! -e "$BATS_TEST_TMPDIR/daemon" ] || {
		searchd_stop "$(<"$BATS_TEST_TMPDIR/daemon")"
		rm -rf "$(<"$BATS_TEST_TMPDIR/daemon")"
	}
}

# A program that waits for us at every step: WORK_PID. Its words are in work.out.
work_begin() { # OPTION... -- COMMAND...
	mkfifo "$BATS_TEST_TMPDIR/in"
	"$SONDE" run -o "$BATS_TEST_TMPDIR/work.sonde" -i 100ms "$@" <"$BATS_TEST_TMPDIR/in" \
		>"$BATS_TEST_TMPDIR/work.out" 2>"$BATS_TEST_TMPDIR/sonde.err" 3>&- &
	SONDE_PID=$!
	started "$SONDE_PID"
	exec 7>"$BATS_TEST_TMPDIR/in"
	wait_for 60 grep -q ready "$BATS_TEST_TMPDIR/work.out" || {
		cat "$BATS_TEST_TMPDIR/sonde.err" >&2
		return 1
	}
	WORK_PID=$(sed -n 's/ready //p' "$BATS_TEST_TMPDIR/work.out")
	wait_for 30 recording_runs "$BATS_TEST_TMPDIR/work.sonde"
}

work_step() { # WORD that it then says
	echo >&7
	wait_for 30 grep -q "$1" "$BATS_TEST_TMPDIR/work.out"
}

work_end() { # the program ends by itself, and sonde with it
	echo >&7
	exec 7>&-
	wait "$SONDE_PID"
}

meta() { # KEY [FILE]
	recording_sql "${2:-$BATS_TEST_TMPDIR/work.sonde}" \
		"SELECT value FROM rec.meta WHERE key = '$1'"
}

total() { # METRIC LABEL-PATTERN [FILE]: last values of a counter, summed over its series
	recording_sql "${3:-$BATS_TEST_TMPDIR/work.sonde}" "SELECT CAST(coalesce(sum(value), 0) AS INT)
		FROM (SELECT v.value, max(v.ts_ns) FROM rec.value v JOIN rec.series s ON s.id = v.series
		WHERE s.name = '$1' AND s.label LIKE '$2' AND s.kind = 1 GROUP BY s.id)"
}

huge_kb() { awk '/^AnonHugePages/ {print $2}' "/proc/$1/smaps_rollup"; }
thp_enabled() { awk '/^THP_enabled/ {print $2}' "/proc/$1/status"; }

needs_advised() {
	"$SONDE" run --thp=advised --lens rss -- sleep 0.1 >/dev/null 2>"$BATS_TEST_TMPDIR/why" || {
		local status=$?
		equal 5 $status "exit status where the kernel cannot"
		grep -q 'Linux 6.18' "$BATS_TEST_TMPDIR/why"
		skip "PR_THP_DISABLE_EXCEPT_ADVISED is not in this kernel"
	}
}

@test "--thp=off: no huge page even where the program asks for them" {
	work_begin --thp=off -- "$WORK" huge 16
	work_step done
	equal 0 "$(thp_enabled "$WORK_PID")" THP_enabled
	equal 0 "$(huge_kb "$WORK_PID")" "AnonHugePages kB"
	work_end
	equal 1 "$(meta run.thp_disable)" PR_GET_THP_DISABLE
	equal 0 "$(meta target.0.thp_enabled)" "THP_enabled in the recording"
	equal 0 "$(total fault.count 'pmd%')" "PMD faults"
	equal "$THP_BEFORE" "$(setting)" "the system's setting"
}

@test "--thp=system: the program's advice is heard" {
	echo madvise >"$ENABLED"
	work_begin --thp=system -- "$WORK" huge 16
	work_step done
	equal 1 "$(thp_enabled "$WORK_PID")" THP_enabled
	equal $((16 * 2048)) "$(huge_kb "$WORK_PID")" "AnonHugePages kB"
	work_end
	equal 0 "$(meta run.thp_disable)" PR_GET_THP_DISABLE
	equal 16 "$(total fault.count pmd.minor)" "PMD faults"
}

@test "--thp=advised: advised memory gets them, other memory does not, whatever the system says" {
	needs_advised
	echo always >"$ENABLED"
	work_begin --thp=advised -- "$WORK" huge 16
	work_step done
	equal $((16 * 2048)) "$(huge_kb "$WORK_PID")" "AnonHugePages kB"
	work_end
	equal 3 "$(meta run.thp_disable)" PR_GET_THP_DISABLE
	equal 1 "$(meta target.0.thp_enabled)" "THP_enabled, which does not tell"
	equal 16 "$(total fault.count pmd.minor)" "PMD faults"

	# dd reads into 64 MiB that nobody advises.
	for thp in advised system; do
		"$SONDE" run -q --thp=$thp -o "$BATS_TEST_TMPDIR/$thp.sonde" -- \
			dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null
	done
	equal 0 "$(total fault.count '%pmd%' "$BATS_TEST_TMPDIR/advised.sonde")" "unadvised"
	[ "$(total fault.count '%pmd%' "$BATS_TEST_TMPDIR/system.sonde")" -ge 31 ]
}

@test "a setting is inherited by what the command execs and forks" {
	run --separate-stderr "$SONDE" run --thp=off --lens rss --json -- \
		sh -c 'sh -c "grep THP_enabled /proc/self/status >&2; sleep 0.2"'
	equal 0 "$status" "exit status"
	[[ $stderr == *THP_enabled:*0* ]]
}

@test "--alloc=jemalloc is mapped, detected, and its settings are recorded" {
	ldconfig -p | grep -q libjemalloc.so.2 || skip "libjemalloc is not installed"
	work_begin --alloc=jemalloc --alloc-conf thp:never --env MALLOC_ARENA_MAX=2 -- "$WORK" base 1
	grep -q 'libjemalloc' "/proc/$WORK_PID/maps"
	work_step done
	work_end
	equal jemalloc "$(meta target.0.allocator)" allocator
	[ -n "$(meta target.0.allocator_version)" ]
	equal thp:never "$(meta target.0.env.MALLOC_CONF)" MALLOC_CONF
	equal 2 "$(meta target.0.env.MALLOC_ARENA_MAX)" MALLOC_ARENA_MAX
	equal jemalloc "$(meta run.alloc)" "what was asked for"
}

@test "an allocator by path, and the system's own with its setting" {
	local lib
	lib=$(ldconfig -p | awk '/libtcmalloc_minimal.so.4 / && /x86-64/ {print $NF; exit}')
	[ -n "$lib" ] || skip "libtcmalloc_minimal is not installed"
	work_begin --alloc="$lib" -- "$WORK" base 1
	grep -q libtcmalloc_minimal "/proc/$WORK_PID/maps"
	work_step done
	work_end
	[[ $(meta target.0.allocator) == tcmalloc* ]]

	rm "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/work.sonde" "$BATS_TEST_TMPDIR/work.out"
	work_begin --alloc-conf glibc.malloc.hugetlb=1 -- "$WORK" base 1
	run -1 grep tcmalloc "/proc/$WORK_PID/maps"
	work_step done
	work_end
	equal glibc "$(meta target.0.allocator)" allocator
	equal glibc.malloc.hugetlb=1 "$(meta target.0.env.GLIBC_TUNABLES)" GLIBC_TUNABLES
}

@test "what cannot be set is refused before anything is started" {
	refuses 2 "'nosuch' is not system, jemalloc, tcmalloc or the path" run --alloc=nosuch -- true
	refuses 2 "no malloc and free" run --alloc=/lib/x86_64-linux-gnu/libm.so.6 -- true
	refuses 1 "/nonexistent" run --alloc=/nonexistent/lib.so -- true
	refuses 2 "'NAME'" run --env NAME -- true
	refuses 2 "thp: 'sometimes'" run --thp=sometimes -- true
	refuses 2 "nothing to start" run --thp=off
	refuses 2 "without -o" run --spans none -- true
	refuses 1 "cannot run /nonexistent/program" run -o "$BATS_TEST_TMPDIR/x" -- /nonexistent/program
	[ ! -e "$BATS_TEST_TMPDIR/x" ]
}

@test "an allocator that did not get in ends the run with the reason" {
	ldconfig -p | grep -q libjemalloc.so.2 || skip "libjemalloc is not installed"
	echo 'int main(void) { extern int sleep(unsigned); sleep(60); return 0; }' |
		cc -static -x c -o "$BATS_TEST_TMPDIR/static" -
	for command in "$BATS_TEST_TMPDIR/static" "env -i sleep 60"; do
		# shellcheck disable=SC2086
		run --separate-stderr timeout 60 "$SONDE" run --alloc=jemalloc -o \
			"$BATS_TEST_TMPDIR/x.sonde" --overwrite -- $command
		[ "$status" -ge 1 ] && [ "$status" -le 2 ]
		[[ $stderr == *"statically linked"* || $stderr == *"LD_PRELOAD did not reach it"* ]]
	done
	run -1 pgrep -f "^$BATS_TEST_TMPDIR/static"
}

@test "a change of the system's setting meanwhile is an event with its time" {
	echo madvise >"$ENABLED"
	work_begin --lens rss -- "$WORK" base 1
	local before after events="FROM rec.note n JOIN rec.enum e ON e.kind = 'note' AND
		e.value = n.level WHERE e.name = 'event' AND n.what LIKE 'thp.enabled changed%'"
	before=$(date +%s%N)
	echo always >"$ENABLED"
	changed() {
		[ "$(recording_sql "$BATS_TEST_TMPDIR/work.sonde" "SELECT count(*) $events")" = "$1" ]
	}
	wait_for 30 changed 1
	after=$(date +%s%N)
	echo madvise >"$ENABLED"
	wait_for 30 changed 2
	work_step done
	work_end
	equal "thp.enabled changed from madvise to always" \
		"$(recording_sql "$BATS_TEST_TMPDIR/work.sonde" \
			"SELECT what $events ORDER BY n.id LIMIT 1")" event
	equal 1 "$(recording_sql "$BATS_TEST_TMPDIR/work.sonde" \
		"SELECT min(n.ts_ns) BETWEEN $before AND $after $events")" "its time"
	equal madvise "$(meta thp.enabled)" "the setting at the beginning"
	for key in thp.defrag thp.max_ptes_none thp.hugepages-2048kB.enabled; do
		[ -n "$(meta $key)" ] || [ $key = thp.hugepages-2048kB.enabled ]
	done
}

# ---- searchd ----

daemon_dir() {
	mktemp -d /tmp/sonde-XXXXXX | tee "$BATS_TEST_TMPDIR/daemon"
}

@test "a daemon that goes into the background is followed, observed and ended" {
	local dir f=$BATS_TEST_TMPDIR/d.sonde
	dir=$(daemon_dir)
	searchd_prepare "$dir" docs=1000
	"$SONDE" run -i 100ms -o "$f" -- searchd --config "$dir/searchd.conf" >"$dir/out" \
		2>"$dir/err" </dev/null 3>&- &
	SONDE_PID=$!
	started "$SONDE_PID"
	searchd_wait_up "$dir" "${SEARCHD_SQL##*:}"
	searchd_note "$dir"
	serves() { grep -q . <(recording_sql "$f" "SELECT 1 FROM rec.note WHERE what LIKE
		'%(pid $SEARCHD_PID) listens%'"); }
	wait_for 30 serves
	"$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 4 --queries 400 >/dev/null
	sonde_finish
	equal "$SEARCHD_PID" "$(meta "target.$(meta serving "$f").pid" "$f")" "who serves"
	equal 400 "$(recording_sql "$f" "SELECT count(*) FROM rec.span WHERE pid = $SEARCHD_PID")" spans
	is_gone "$SEARCHD_PID"
	is_gone "$SEARCHD_WATCHDOG"
}

@test "--keep leaves the command running" {
	local dir
	dir=$(daemon_dir)
	searchd_start_under "$dir" docs=1000 -- "$SONDE" run --lens rss -d 300ms --keep --
	wait "$SEARCHD_RUNNER"
	searchd_is_ours "$SEARCHD_PID" "$dir"
	"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 1 --queries 10 >/dev/null
}

faults_of() { # PID
	awk '{print $10 + $12}' "/proc/$1/stat"
}

vmstat_huge() { awk '$1 == "thp_fault_alloc" {print $2}' /proc/vmstat; }

ticks() { recording_sql "$1" "SELECT count(*) FROM rec.tick"; }
ticks_pass() { [ "$(ticks "$1")" -gt $(($2 + 1)) ]; }

# A started command is looked at ten times a second for the sockets on which it serves: until then its
# queries are not seen. Ask until one is, and a reading more has all that were.
until_queries_seen() { # FILE
	one_seen() {
		"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 1 --queries 1 >/dev/null
		[ "$(total query.spans % "$1")" -gt 0 ]
	}
	wait_for 30 one_seen "$1"
	wait_for 30 ticks_pass "$1" "$(ticks "$1")"
}

# The whole life of a searchd under one setting: what was recorded is what the kernel counted.
arm() { # ALLOC THP
	local dir f=$BATS_TEST_TMPDIR/$1-$2.sonde counted huge before grown first
	dir=$(daemon_dir)
	before=$(vmstat_huge)
	searchd_start_under "$dir" docs=20000 -- "$SONDE" run --alloc="$1" --thp="$2" --spans none \
		-o "$f" --
	SONDE_PID=$SEARCHD_RUNNER
	started "$SONDE_PID"
	until_queries_seen "$f"
	first=$(total query.spans % "$f")
	"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 2 --queries 200 --mix light --seed 5 >/dev/null
	"$LOAD" --sphinxql "$SEARCHD_UNIX" --connections 1 --queries 20 --mix deep --seed 6 >/dev/null
	counted=$(faults_of "$SEARCHD_PID")
	huge=$(huge_kb "$SEARCHD_PID")
	kill -INT "$SONDE_PID"
	wait "$SONDE_PID"
	grown=$(($(vmstat_huge) - before))
	local seen kernel pmd
	seen=$(total fault.count % "$f")
	kernel=$(($(total proc.minflt % "$f") + $(total proc.majflt % "$f")))
	pmd=$(total fault.count '%pmd%' "$f")
	echo "$1 $2: $seen faults seen, $kernel by /proc while recorded, $counted in its life;" \
		"$pmd PMD faults, AnonHugePages $huge kB, thp_fault_alloc +$grown"
	# Before its exec the child took some faults of its own; readings are not of one instant.
	[ $((seen - kernel)) -le $((20 + kernel / 1000)) ]
	[ $((kernel - seen)) -le $((20 + kernel / 1000)) ]
	[ $((counted - kernel)) -ge -100 ]
	[ $((counted - kernel)) -le 1000 ]
	[ "$grown" -ge "$pmd" ]
	case $2 in
	system) [ "$pmd" -gt 0 ] ;;
	off) [ "$pmd" = 0 ] && [ "$huge" = 0 ] ;;
	esac
	equal 220 $(($(total query.spans % "$f") - first)) "queries"
	[[ $(meta target.0.allocator "$f") == "${1/system/glibc}"* ]]
	searchd_stop "$dir"
	rm -rf "$dir"
}

each_setting() { # ALLOC
	echo always >"$ENABLED"
	arm "$1" off
	arm "$1" system
	needs_advised
	arm "$1" advised
}

@test "searchd with the system's allocator, huge pages off, always and advised: totals agree" {
	each_setting system
}

@test "searchd with jemalloc, huge pages off, always and advised: totals agree" {
	ldconfig -p | grep -q libjemalloc.so.2 || skip "libjemalloc is not installed"
	each_setting jemalloc
}

@test "searchd with tcmalloc, huge pages off, always and advised: totals agree" {
	ldconfig -p | grep -q libtcmalloc || skip "tcmalloc is not installed"
	each_setting tcmalloc
}

# From the first instruction, so every query has its bytes, also those that came as soon as it listened.
@test "searchd on jemalloc is counted from its first instruction" {
	ldconfig -p | grep -q libjemalloc.so.2 || skip "libjemalloc is not installed"
	local dir f=$BATS_TEST_TMPDIR/first.sonde
	dir=$(daemon_dir)
	searchd_start_under "$dir" docs=2000 -- "$SONDE" run --alloc=jemalloc --spans none -o "$f" --
	SONDE_PID=$SEARCHD_RUNNER
	started "$SONDE_PID"
	until_queries_seen "$f"
	"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 2 --queries 60 --mix light --seed 5 >/dev/null
	kill -INT "$SONDE_PID"
	wait "$SONDE_PID"
	recording_sql "$f" "SELECT target, name, max(value) FROM rec.metric WHERE name IN
		('alloc.counted_from', 'alloc.handed_out', 'query.heap_spans') GROUP BY 1, 2" >&3
	equal 0 "$(recording_sql "$f" "SELECT CAST(max(value) AS INTEGER) FROM rec.metric
		WHERE name = 'alloc.counted_from'")" "time that is not counted"
	equal "$(total query.spans % "$f")" "$(total query.heap_spans % "$f")" "queries with bytes"
	searchd_stop "$dir"
	rm -rf "$dir"
}
