# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A program that is observed ($work_pid) and one that observes it ($watch_pid), in step by their output.

teardown() {
	local pid

	for pid in "$work_pid" "$watch_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
}

# Until FILE has a line that matches, or the program that writes it is gone.
until_line() { # FILE PATTERN PID
	until grep -q "$2" "$1" 2>/dev/null; do
		kill -0 "$3" || return 1
		sleep 0.02
	done
}
