#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Targets that restart, replace their program, come in numbers or get slower, and who is told of it.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up docs=20000; }

teardown_file() { searchd_down; }

teardown() { end_started; }

# A process of a known name that stays until its stdin closes.
named() { # NAME: NAMED_PID
	rm -f "$BATS_TEST_TMPDIR/out" # what a predecessor said
	cp "$searchd_build/harness/faultwork" "$BATS_TEST_TMPDIR/$1"
	"$BATS_TEST_TMPDIR/$1" base 1 <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
	NAMED_PID=$!
	started "$NAMED_PID"
	wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/out"
}

end_named() {
	kill -KILL "$NAMED_PID"
	wait "$NAMED_PID" || true
} 2>/dev/null

pipe() { # keeps the reading side's stdin open for the test's length
	mkfifo "$BATS_TEST_TMPDIR/in"
	exec 7<>"$BATS_TEST_TMPDIR/in"
}

notes() { # FILE TEXT: how many notes hold it
	sqlite3 -readonly "$1" "SELECT count(*) FROM note WHERE what LIKE '%$2%'"
}

has_note() { [ "$(notes "$1" "$2")" -gt 0 ]; }

@test "--follow: a successor is observed in the same recording, and it is said when" {
	local f=$BATS_TEST_TMPDIR/follow.sonde first
	pipe
	named sonde-follow-me
	first=$NAMED_PID
	sonde_begin record -n sonde-follow-me --follow -o "$f" -i 100ms
	wait_for 30 recording_or_end "$f"
	end_named
	wait_for 10 has_note "$f" "(pid $first) exited"
	named sonde-follow-me
	wait_for 20 has_note "$f" "restarted: pid $NAMED_PID"
	echo >&7 # its 512 faults come after the restart
	wait_for 10 grep -q done "$BATS_TEST_TMPDIR/out"
	sonde_finish
	equal 1 "$(sqlite3 -readonly "$f" "SELECT value FROM meta WHERE key = 'complete'")" complete
	run "$SONDE" stat --json -p "$NAMED_PID" -d 0 --lens rss
	equal 0 "$status" "the successor is alive"
	equal true "$("$SONDE" export "$f" --to jsonl --series |
		jq -s '[.[] | select(.name == "fault.count" and .target == 1) | .value // 0] | max >= 512')" \
		"faults of the successor"
}

@test "without --follow an ended target ends the observation, with what was seen" {
	pipe
	named sonde-ends-soon
	sonde_begin stat -p "$NAMED_PID" --json -i 100ms -d 300s
	wait_for 30 stat_or_end
	end_named
	wait "$SONDE_PID"
	equal "target exited" "$(tail -1 "$BATS_TEST_TMPDIR/sonde.out" | jq -r .ended)" "ended by"
}

@test "a target that replaces its program is observed on" {
	local f=$BATS_TEST_TMPDIR/exec.sonde
	pipe
	bash -c 'read -r; exec sleep 60' <"$BATS_TEST_TMPDIR/in" 3>&- &
	started $!
	sonde_begin record -p $! -o "$f" -i 100ms -d 300s
	wait_for 30 recording_or_end "$f"
	echo >&7
	wait_for 10 has_note "$f" "replaced its program by sleep"
	sonde_finish
	equal sleep "$(sqlite3 -readonly "$f" \
		"SELECT value FROM meta WHERE key = 'target.0.comm'")" "the new program's name"
}

@test "several pids are observed side by side" {
	pipe
	named sonde-one
	local one=$NAMED_PID
	named sonde-two
	run -0 --separate-stderr "$SONDE" stat --json --lens rss -d 0 -p "$one" -p "$NAMED_PID"
	equal "[0,1]" "$(jq -c '[.metrics[] | select(.name == "rss.total") | .target] | sort' \
		<<<"$output")" targets
	equal "$NAMED_PID" "$(jq -r '.meta["target.1.pid"]' <<<"$output")" "the second's pid"
}

# Faults that the fault lens counted while 512 base faults were taken, under extra options.
count_faults() { # ARGUMENTS...
	named sonde-narrow
	sonde_begin stat -p "$NAMED_PID" --json --lens fault -i 100ms -d 300s "$@"
	wait_for 30 stat_or_end
	echo >&7
	wait_for 10 grep -q done "$BATS_TEST_TMPDIR/out"
	sonde_finish
	FAULTS=$(tail -1 "$BATS_TEST_TMPDIR/sonde.out" |
		jq '[.metrics[] | select(.name == "fault.count" and .value) | .value] | add // 0')
}

@test "--tid and --comm narrow to threads, by number and by name" {
	pipe
	count_faults --comm no-such-name
	equal 0 "$FAULTS" "faults of threads of another name"
	end_named
	count_faults --comm sonde-narrow
	[ "$FAULTS" -ge 512 ]
	end_named
	named sonde-narrow
	run -0 --separate-stderr "$SONDE" stat -p "$NAMED_PID" --tid "$NAMED_PID" -d 200ms -i 100ms
	run -3 "$SONDE" stat -p "$NAMED_PID" --tid 1 -d 200ms
	[[ "$output" == *"has no thread 1"* ]]
}

@test "a target that gets visibly slower is let go, and keeps answering" {
	load_begin --sphinxql "$SEARCHD_SQL" --connections 2 --seconds 120 --rate 200 --mix light
	load_go
	sonde_begin stat -p "$SEARCHD_PID" --json --alloc-mode exact --yes --harm-limit 1.1 \
		-i 200ms -d 90s
	wait_for 80 is_gone "$SONDE_PID"
	wait "$SONDE_PID"
	load_stop
	equal harm "$(tail -1 "$BATS_TEST_TMPDIR/sonde.out" | jq -r .ended)" "ended by"
	equal caution "$(tail -1 "$BATS_TEST_TMPDIR/sonde.out" |
		jq -r '.notes[] | select(.what | test("detached by itself")) | .level')" "said why"
	has_no_probes
	searchd_is_well
}

# One run of exact mode, which slows searchd several times, under --abort-if; its last line is in $last.
aborted_run() { # CONDITION
	load_begin --sphinxql "$SEARCHD_SQL" --connections 2 --seconds 120 --rate 400 --mix light
	load_go
	sonde_begin stat -p "$SEARCHD_PID" --json --alloc-mode exact --yes --abort-if "$1" -i 200ms -d 60s
	wait_for 80 is_gone "$SONDE_PID"
	wait "$SONDE_PID"
	load_stop
	last=$(tail -1 "$BATS_TEST_TMPDIR/sonde.out")
	has_no_probes
	searchd_is_well
}

@test "--abort-if against before attach: let go when the median is a tenth up" {
	aborted_run 'p50>+10%'
	equal abort-if "$(jq -r .ended <<<"$last")" "ended by"
	jq -r '.notes[] | .what' <<<"$last" |
		grep -E '^detached as --abort-if asked: p50 of queries is .*, before attach it was '
}

@test "--abort-if with a bound: let go above it, and not below it" {
	aborted_run 'mean>1us'
	equal abort-if "$(jq -r .ended <<<"$last")" "ended by"
	sonde_begin stat -p "$SEARCHD_PID" --json --abort-if 'mean>10s,rate<0' -i 200ms -d 4s
	wait "$SONDE_PID"
	equal duration "$(tail -1 "$BATS_TEST_TMPDIR/sonde.out" | jq -r .ended)" "ended by"
}

@test "--abort-if without queries to compare with says that it never holds" {
	run -0 --separate-stderr "$SONDE" stat -p "$SEARCHD_PID" --json --abort-if 'p99>+10%' -d 1s
	tail -1 <<<"$output" | jq -r '.notes[] | .what' | grep 'too few to compare with'
	run -2 "$SONDE" stat -p "$SEARCHD_PID" --abort-if 'p99>10%' -d 1s
	[[ "$output" == *"is no condition"* ]]
	run -2 "$SONDE" stat -p "$SEARCHD_PID" --lens rss --abort-if 'p99>5ms' -d 1s
	[[ "$output" == *"leaves them out"* ]]
}

@test "attach and detach leave a line each in the journal" {
	[ ! -e /dev/log ] || skip "journal: a log daemon owns /dev/log here"
	pipe
	named sonde-in-log
	"$searchd_build/harness/devlog" <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/log" 3>&- 7>&- &
	local log=$!
	started "$log"
	wait_for 10 grep -q ready "$BATS_TEST_TMPDIR/log"
	"$SONDE" stat -p "$NAMED_PID" -d 200ms -i 100ms >/dev/null
	wait_for 10 grep -q "detached from sonde-in-log (pid $NAMED_PID)" "$BATS_TEST_TMPDIR/log"
	grep -q "attaching to sonde-in-log (pid $NAMED_PID)" "$BATS_TEST_TMPDIR/log"
	kill -TERM "$log"
	wait "$log"
	[ ! -e /dev/log ]
}
