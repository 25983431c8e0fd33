# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A server whose queries say what they cost (tests/harness/anatomywork.c), recorded: for anatomy.bats and
# answers.bats.

load recorded_helpers

setup() {
	recorded_setup
	WORK=$B/harness/anatomywork
	launch=() group=
}

teardown() {
	local end=$((SECONDS + 10))

	recorded_teardown
	while [ -n "${group:-}" ] && [ $SECONDS -lt $end ]; do
		rmdir "$group" 2>/dev/null && break
		sleep 0.1
	done
}

serve() { serve_program "${launch[@]}" "$WORK" "$@" "$T/truth"; } # OPTIONS...
record() { record_server "$@"; } # OPTIONS...
ask() { "$B/harness/anatomyask" "$port" "$@"; }
