#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `sonde compare` on recordings of a program that takes a known number of faults: the figures are those
# numbers, the settings that differ are named, and what cannot be compared is refused.

bats_require_minimum_version 1.5.0
load helpers

WORK=$searchd_build/harness/faultwork
OFF=$BATS_FILE_TMPDIR/off.sonde
HUGE=$BATS_FILE_TMPDIR/huge.sonde

old_enough() { # FILE: 30 intervals, so that both programs are seen done at the same age
	[ "$(sqlite3 -readonly "$1" 'SELECT count(*) > 30 FROM tick' 2>/dev/null)" = 1 ]
}

# Recorded from its first to its last instruction.
record_work() { # FILE OPTION... -- COMMAND...
	local file=$1 fifo=$BATS_FILE_TMPDIR/in.$RANDOM pid
	shift
	mkfifo "$fifo"
	"$SONDE" run -q -o "$file" -i 100ms "$@" <"$fifo" >"$file.out" 3>&- &
	pid=$!
	exec 7>"$fifo"
	wait_for 60 grep -q ready "$file.out"
	wait_for 60 recording_runs "$file"
	echo >&7
	wait_for 30 grep -q done "$file.out"
	wait_for 60 old_enough "$file"
	echo >&7
	exec 7>&-
	wait "$pid"
}

setup_file() {
	# Who asks for a huge page must get it: memory that other tests left in pieces is moved together.
	[ ! -w /proc/sys/vm/compact_memory ] || echo 1 >/proc/sys/vm/compact_memory
	record_work "$OFF" --thp=off -- "$WORK" huge 64
	record_work "$HUGE" --thp=system --env MALLOC_ARENA_MAX=1 -- "$WORK" huge 64
}

setup() {
	grep -qE '\[(madvise|always)\]' /sys/kernel/mm/transparent_hugepage/enabled ||
		skip "transparent huge pages are off in this kernel"
}

teardown() { end_started; }

# A figure of the JSON document, by metric, label and kind.
figure() { # SIDE METRIC LABEL FIGURE
	jq -r --arg m "$2" --arg l "$3" --arg f "$4" \
		".rows[] | select(.metric == \$m and (.label // \"\") == \$l and .figure == \$f) | .$1" \
		"$BATS_TEST_TMPDIR/json"
}

covered() { jq -r ".$1.covered_ns" "$BATS_TEST_TMPDIR/json"; }

@test "the figures are the faults that the program took" {
	"$SONDE" compare "$OFF" "$HUGE" --json >"$BATS_TEST_TMPDIR/json"
	# 64 in the second and none in the first: rate x time.
	equal 0 "$(figure a fault.count pmd.minor 'per s')" "PMD faults without huge pages"
	equal 64 "$(jq -n "$(figure b fault.count pmd.minor 'per s') * $(covered b) / 1e9 | round")" \
		"PMD faults with"
	equal "$((64 * 2 << 20))" "$(figure b rss.anon_huge '' level)" "bytes in huge pages"
	jq -e '.rows | length > 10' "$BATS_TEST_TMPDIR/json"
	jq -e '.verdict == null and .why == "no verdict: one run per arm"' "$BATS_TEST_TMPDIR/json"
}

@test "what was not the same comes first, what differs most next, and no verdict last" {
	run --separate-stderr "$SONDE" compare "$OFF" "$HUGE"
	equal 0 "$status" "exit status"
	equal "no verdict: one run per arm" "${lines[-1]}" "the last line"
	[[ $output == *"huge pages asked for"*"A: off   B: system"* ]]
	[[ $output == *"env.MALLOC_ARENA_MAX"*"A: not set   B: 1"* ]]
	local settings most faults
	settings=$(grep -n '^Settings' <<<"$output" | cut -d: -f1)
	most=$(grep -n '^Differs most' <<<"$output" | cut -d: -f1)
	faults=$(grep -n '^Page faults' <<<"$output" | cut -d: -f1)
	[ "$settings" -lt "$most" ] && [ "$most" -lt "$faults" ]
	grep -q 'anonymous in huge pages' < <(sed -n "$((most + 1)),$((faults - 1))p" <<<"$output")
	run -1 grep -E '.{140}' <<<"$output"
}

@test "in the other order the signs turn" {
	"$SONDE" compare "$HUGE" "$OFF" --json >"$BATS_TEST_TMPDIR/json"
	equal -1 "$(figure change fault.count pmd.minor 'per s')" "change of PMD faults"
	equal -1 "$(figure change rss.anon_huge '' level)" "change of huge memory"
}

@test "what cannot be compared is refused with the reason" {
	echo text >"$BATS_TEST_TMPDIR/text"
	refuses 2 "same recording" compare "$OFF" "$OFF"
	refuses 1 "not a sonde recording" compare "$OFF" "$BATS_TEST_TMPDIR/text"
	refuses 1 "/nonexistent" compare /nonexistent "$OFF"
	refuses 2 "something is missing" compare "$OFF"
	cp "$OFF" "$BATS_TEST_TMPDIR/newer.sonde"
	sqlite3 "$BATS_TEST_TMPDIR/newer.sonde" 'PRAGMA user_version = 999'
	refuses 1 "newer sonde" compare "$OFF" "$BATS_TEST_TMPDIR/newer.sonde"
	cp "$OFF" "$BATS_TEST_TMPDIR/empty.sonde"
	sqlite3 "$BATS_TEST_TMPDIR/empty.sonde" 'DELETE FROM value; DELETE FROM tick; DELETE FROM hist;
		DELETE FROM hist_window'
	refuses 1 "holds no readings" compare "$OFF" "$BATS_TEST_TMPDIR/empty.sonde"
}

@test "a recording that was cut short is compared, and it is said" {
	local cut=$BATS_TEST_TMPDIR/cut.sonde
	sleep 300 3>&- &
	started $!
	TARGET_PID=$! record_begin "$cut" --lens rss,fault
	enough() { [ "$(sqlite3 -readonly "$cut" 'SELECT count(*) > 2 FROM tick')" = 1 ]; }
	wait_for 30 enough
	kill -KILL "$SONDE_PID"
	run --separate-stderr "$SONDE" compare "$cut" "$OFF"
	equal 0 "$status" "exit status"
	[[ $output == *"CAUTION A is cut short"* ]]
	[[ $output != *"CAUTION B is cut short"* ]]
}

@test "the comparison goes into a file, which is not replaced unasked" {
	local out=$BATS_TEST_TMPDIR/out.txt
	"$SONDE" compare "$OFF" "$HUGE" -o "$out"
	grep -q '^no verdict' "$out"
	refuses 1 "exists" compare "$OFF" "$HUGE" -o "$out"
	refuses 1 "/dev/full" compare "$OFF" "$HUGE" -o /dev/full
}
