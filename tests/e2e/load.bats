#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The load generator is what the other tests believe, so it is checked first, against searchd's own log.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up docs=20000; }

teardown_file() { searchd_down; }

setup() { cp /dev/null "$SEARCHD_LOG"; } # searchd appends: its next line is the first

teardown() { end_started; }

logged() { wc -l <"$SEARCHD_LOG"; }

@test "the corpus is the same each time, and another with another seed" {
	local a b c
	a=$("$searchd_build/harness/mkcorpus" --docs 500 | sha256sum)
	b=$("$searchd_build/harness/mkcorpus" --docs 500 | sha256sum)
	c=$("$searchd_build/harness/mkcorpus" --docs 500 --seed 2 | sha256sum)
	equal "$a" "$b" "the same seed"
	[ "$a" != "$c" ]
}

@test "every query sent is in searchd's log: both protocols, TCP and unix" {
	"$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --sphinxql "$SEARCHD_UNIX" \
		--api "$SEARCHD_UNIX_API" --connections 7 --queries 1003 --mix mixed \
		--out "$BATS_TEST_TMPDIR/load.tsv" >"$BATS_TEST_TMPDIR/load.json"
	equal 1003 "$(load_field ok)" answered
	equal 1003 "$(logged)" "lines in searchd's log"
	equal 1004 "$(wc -l <"$BATS_TEST_TMPDIR/load.tsv")" "lines of --out"
	# Times of a query are in order, and a connection's queries follow each other.
	equal 0 "$(recording_sql /dev/null "SELECT count(*) FROM load WHERE NOT
		(send_ns < first_ns AND first_ns <= last_ns AND due_ns <= send_ns)")" "disordered times"
	equal 0 "$(recording_sql /dev/null "SELECT count(*) FROM load a JOIN load b
		ON a.conn = b.conn AND b.seq = a.seq + 1 WHERE b.send_ns < a.last_ns")" "overlaps"
}

@test "a seed names its queries" {
	local n
	for n in 1 2 3; do
		"$LOAD" --sphinxql "$SEARCHD_SQL" --queries 300 --mix mixed --seed $((n / 3 + 5)) \
			--out "$BATS_TEST_TMPDIR/$n" >/dev/null
		cut -f 2,8,11 "$BATS_TEST_TMPDIR/$n" | sort >"$BATS_TEST_TMPDIR/$n.hashes"
	done
	cmp "$BATS_TEST_TMPDIR/1.hashes" "$BATS_TEST_TMPDIR/2.hashes"
	! cmp -s "$BATS_TEST_TMPDIR/1.hashes" "$BATS_TEST_TMPDIR/3.hashes"
}

@test "inserts arrive, and the same seed may insert again" {
	"$LOAD" --sphinxql "$SEARCHD_SQL" --queries 400 --mix insert >/dev/null
	"$LOAD" --sphinxql "$SEARCHD_SQL" --queries 400 --mix insert >/dev/null
	"$LOAD" --sphinxql "$SEARCHD_SQL" --queries 5 --index rt >/dev/null
	grep -q "FROM rt" "$SEARCHD_LOG"
}

@test "a failed query is counted and is exit status 1" {
	run --separate-stderr "$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --queries 6 \
		--connections 2 --index nosuchindex
	equal 1 "$status" "exit status"
	equal "0 6" "$(jq -r '"\(.ok) \(.errors)"' <<<"$output")" "ok and errors"
	grep -q nosuchindex <<<"$stderr"
	run --separate-stderr "$LOAD" --sphinxql 127.0.0.1:1 --queries 6
	equal 1 "$status" "exit status when nobody listens"
	equal 6 "$(jq .unsent <<<"$output")" "not sent"
}

@test "bad arguments are usage errors" {
	local args
	for args in "" "--api x" "--sphinxql 127.0.0.1:1 --queries 3x" "--api 127.0.0.1:1 --mix insert" \
		"--sphinxql 127.0.0.1:1 --connections 0" "--sphinxql 127.0.0.1:1 --seconds 9999999"; do
		[ "$args" != "--api x" ] || continue
		# shellcheck disable=SC2086 # several arguments
		run "$LOAD" $args
		equal 2 "$status" "exit status of '$args'"
	done
}

# Stop the server long enough for many queries to become due. A closed loop would report one slow query
# a connection; the open loop must report every query that was due meanwhile as late.
@test "an open loop counts the queries that a stalled server held up" {
	local stall_us rate=200 began
	load_begin --sphinxql "$SEARCHD_SQL" --connections 2 --rate $rate --queries 400
	load_go
	wait_for 10 test -s "$SEARCHD_LOG"
	kill -STOP "$SEARCHD_PID"
	began=${EPOCHREALTIME/./}
	sleep 1
	stall_us=$((${EPOCHREALTIME/./} - began))
	kill -CONT "$SEARCHD_PID"
	load_finish
	# At least every second query due in the first half of the stall waited for half of it.
	local late
	late=$(recording_sql /dev/null "SELECT count(*) FROM load
		WHERE last_ns - due_ns >= $((stall_us * 500))")
	[ "$late" -ge $((rate * stall_us / 4000000)) ]
	# A query is due every 5 ms, so one of them waited for nearly all of it.
	[ "$(jq ".max_us >= $((stall_us * 9 / 10))" "$BATS_TEST_TMPDIR/load.json")" = true ]
}

@test "searchd is stopped by pid, its watchdog too, and a stranger with its number is left alone" {
	local dir
	dir=$(mktemp -d /tmp/sonde-XXXXXX)
	(
		searchd_start "$dir" docs=1000
		[ -n "$SEARCHD_WATCHDOG" ]
		searchd_stop "$dir"
		! searchd_is_ours "$SEARCHD_PID" "$dir"
		! searchd_is_ours "$SEARCHD_WATCHDOG" "$dir"
	) 3>&-
	sleep 300 3>&- &
	started $!
	echo $! >"$dir/searchd.pid"
	searchd_stop "$dir"
	kill -0 $!
	rm -rf "$dir"
}
