# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A server whose queries say what they cost (tests/harness/anatomywork.c), recorded: for anatomy.bats and
# answers.bats.

setup() {
	B=${SONDE_BUILD:-build}
	SONDE=${SONDE:-$B/sonde}
	WORK=$B/harness/anatomywork
	T=$BATS_TEST_TMPDIR
	R=$T/r.sonde
	pids=() launch=() group=
}

teardown() {
	local pid end=$((SECONDS + 10))

	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	while [ -n "${group:-}" ] && [ $SECONDS -lt $end ]; do
		rmdir "$group" 2>/dev/null && break
		sleep 0.1
	done
}

equal() { # EXPECTED ACTUAL WHAT
	[ "$1" = "$2" ] || {
		echo "$3: expected $1, is $2" >&2
		return 1
	}
}

until_true() { # COMMAND...
	local end=$((SECONDS + 60))

	until "$@" 2>/dev/null; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}

sql() { sqlite3 -readonly -bail "$R" "$1"; }
ticked() { [ "$(sql 'SELECT count(*) > 0 FROM tick')" = 1 ]; }

serve() { # OPTIONS...
	"${launch[@]}" "$WORK" "$@" "$T/truth" >"$T/port" 3>&- &
	server=$!
	pids+=("$server")
	until_true test -s "$T/port"
	port=$(head -n 1 "$T/port")
}

record() { # OPTIONS...: attached and counting when this returns
	"$SONDE" record -p "$server" -o "$R" -i 100ms -d 300s "$@" >"$T/out" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	until_true ticked || {
		cat "$T/err" >&2
		return 1
	}
}

finish() {
	kill -INT "$sonde"
	wait "$sonde" || {
		cat "$T/err" >&2
		return 1
	}
}

ask() { "$B/harness/anatomyask" "$port" "$@"; }
