#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A sonde that was stopped loses its probes, and must not show what it could not see as zeros.

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
}

teardown() {
	local pid

	for pid in "$sonde_pid" "$loop_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
}

until_probes() { # yes, or nothing for none
	until [ "$([ "$("$B/harness/textdiff" "$loop_pid" | tail -n 1)" = 0 ] || echo yes)" = "$1" ]; do
		kill -0 "$loop_pid" || return 1
		sleep 0.1
	done
}

observe() { # ARGUMENTS...: the loop of malloc and free pairs, until its probes are there
	"$B/harness/allocwork" loop </dev/null >"$T/work" 3>&- &
	loop_pid=$!
	"$B/sonde" stat -p $loop_pid --lens alloc --alloc-mode exact --yes -d 300s --json "$@" \
		>"$T/out" 2>"$T/err" 3>&- &
	sonde_pid=$!
	until_probes yes
}

# The program holds one block of at most 1040 bytes. The probes go one after the other, which takes long
# enough for thousands of calls: all must have stopped counting at one moment.
counted_until_one_moment() {
	wait $sonde_pid
	sonde_pid=
	tail -n 1 "$T/out" >"$T/last"
	jq -c '.notes, .metrics[]' "$T/last"
	[ "$(jq -r .ended "$T/last")" = "probes lost" ]
	jq -e '[.metrics[] | select(.label == "malloc" or .label == "free") |
		select(.name == "alloc.calls") | .value] | .[0] - .[1] | fabs <= 1' "$T/last"
	jq -e '[.metrics[] | select(.name == "alloc.handed_out" or .name == "alloc.given_back") |
		.value] | .[0] - .[1] | fabs <= 1040' "$T/last"
	jq -e '.metrics[] | select(.name == "alloc.live") |
		.absent | test("probes were removed at [+][0-9.]+ s")' "$T/last"
	jq -e '.notes[] | select(.level == "degraded" and (.what | contains("guard removed") and
		contains("live bytes are not known")))' "$T/last"
	kill -0 $loop_pid
}

@test "after a stop that cost it the probes, sonde ends and says why" {
	observe
	kill -STOP $sonde_pid
	until_probes ""
	kill -CONT $sonde_pid
	counted_until_one_moment
}

@test "the same when the process that holds the probes is killed" {
	observe
	kill -KILL "$(pgrep -P $sonde_pid -x sonde-guard)"
	counted_until_one_moment
}

@test "a published figure ends with its probes: its time stands still, its bound is unknown" {
	observe --publish "$T/page" --consumption-interval 1ms
	until [ -e "$T/page" ]; do kill -0 $sonde_pid || return 1; sleep 0.02; done
	exec 8<"$T/page" # the page goes when sonde ends; its last value stays in what is open
	kill -STOP $sonde_pid
	until_probes ""
	kill -CONT $sonde_pid
	counted_until_one_moment
	cat <&8 >"$T/last-page"
	exec 8<&-
	# Both slots follow `shown` at 64: bytes, bound, time, source and ended of 32 bytes each.
	local slot=$((128 + 32 * ($(od -An -t u8 -j 64 -N 8 "$T/last-page") & 1)))
	[ "$(od -An -t u8 -j $((slot + 8)) -N 8 "$T/last-page" | tr -d ' ')" = 18446744073709551615 ]
	[ "$(od -An -t u4 -j $((slot + 28)) -N 4 "$T/last-page" | tr -d ' ')" = 1 ]
}
