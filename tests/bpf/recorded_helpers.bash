# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A server that a test started, recorded, and the recording asked by SQL. A file that loads this calls
# recorded_setup in its setup(), and may have a teardown() of its own, which then calls recorded_teardown.

recorded_setup() {
	B=${SONDE_BUILD:-build}
	SONDE=${SONDE:-$B/sonde}
	T=$BATS_TEST_TMPDIR
	R=$T/r.sonde
	pids=()
}

setup() { recorded_setup; }

recorded_teardown() {
	local pid

	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
}

teardown() { recorded_teardown; }

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

# The server's first line is its port.
serve_program() { # PROGRAM ARGUMENTS...: $server, $port
	rm -f "$T/port" # of a server before
	"$@" >"$T/port" 3>&- &
	server=$!
	pids+=("$server")
	until_true test -s "$T/port"
	port=$(head -n 1 "$T/port")
}

record_server() { # ARGUMENTS...: attached and counting when this returns
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
