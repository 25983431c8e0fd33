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

@test "after a stop that cost it the probes, sonde ends and says why" {
	"$B/harness/allocwork" loop </dev/null >"$T/work" 3>&- &
	loop_pid=$!
	"$B/sonde" stat -p $loop_pid --lens alloc --alloc-mode exact --yes -d 300s --json \
		>"$T/out" 2>"$T/err" 3>&- &
	sonde_pid=$!
	until_probes yes
	kill -STOP $sonde_pid
	until_probes ""
	kill -CONT $sonde_pid
	wait $sonde_pid
	sonde_pid=
	[ "$(tail -n 1 "$T/out" | jq -r .ended)" = "probes lost" ]
	tail -n 1 "$T/out" | jq -e '.notes[] | select(.level == "degraded" and
		(.what | contains("guard removed")))'
	kill -0 $loop_pid
}
