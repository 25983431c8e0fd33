# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the end-to-end tests share: a searchd per file, a load, and ways to wait for states instead of
# sleeping. Use: `load helpers`, then searchd_up in setup_file and searchd_down in teardown_file.
# Invariant: whatever a test starts is noted by pid in $BATS_TEST_TMPDIR/pids and ended in teardown.

e2e_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/lib/searchd.sh
. "$e2e_root/scripts/lib/searchd.sh"
SONDE=${SONDE:-$e2e_root/build/sonde}
LOAD=$searchd_build/harness/searchload
TEXTDIFF=$searchd_build/harness/textdiff

# ---- the daemon, one a file ----

searchd_up() { # [KEY=VALUE...]: see searchd_start
	# Not below bats' own folder: a unix socket's path has 108 bytes.
	SEARCHD_DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX")
	export SEARCHD_DIR
	searchd_start "$SEARCHD_DIR" "$@" || return 1
	export SEARCHD_PID SEARCHD_WATCHDOG SEARCHD_SQL SEARCHD_API SEARCHD_UNIX SEARCHD_UNIX_API
	export SEARCHD_LOG
}

searchd_down() {
	[ -n "${SEARCHD_DIR:-}" ] || return 0
	if ! searchd_is_ours "$SEARCHD_PID" "$SEARCHD_DIR"; then
		echo "# searchd (pid $SEARCHD_PID) was gone before its time; its log ends:" >&2
		tail -n 12 "$SEARCHD_DIR/searchd.log" | sed 's/^/# /' >&2
	fi
	searchd_stop "$SEARCHD_DIR"
	rm -rf "$SEARCHD_DIR"
}

# Alive, the same process, and answering on all four listeners.
searchd_is_well() {
	kill -0 "$SEARCHD_PID" && searchd_is_ours "$SEARCHD_PID" "$SEARCHD_DIR" &&
		"$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --sphinxql "$SEARCHD_UNIX" \
			--api "$SEARCHD_UNIX_API" --connections 4 --queries 20 >/dev/null
}

# ---- states, not sleeps ----

wait_for() { # SECONDS COMMAND...: until it succeeds
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge "$end" ]; then
			echo "still false: $*" >&2
			return 1
		fi
		sleep 0.05
	done
}

is_gone() { # PID: ended, or a zombie that its parent has not collected
	[ ! -d "/proc/$1" ] || [ "$(awk '/^State:/ {print $2}' "/proc/$1/status")" = Z ]
}

# ---- processes of a test ----

started() { # PID: end it in teardown if it still runs
	echo "$1" >>"$BATS_TEST_TMPDIR/pids"
}

# Quietly: bash reports every job that a signal ended.
end_started() {
	local pid
	[ -e "$BATS_TEST_TMPDIR/pids" ] || return 0
	while read -r pid; do
		kill -CONT "$pid"
		kill -KILL "$pid"
		wait "$pid"
	done <"$BATS_TEST_TMPDIR/pids"
	return 0
} 2>/dev/null

# sonde in the background: SONDE_PID; its stdout and stderr in sonde.out and sonde.err.
sonde_begin() { # ARGUMENTS...
	rm -f "$BATS_TEST_TMPDIR/sonde.out" # of one before: it is not empty until the new one opens it
	"$SONDE" "$@" >"$BATS_TEST_TMPDIR/sonde.out" 2>"$BATS_TEST_TMPDIR/sonde.err" 3>&- &
	SONDE_PID=$!
	started "$SONDE_PID"
}

# SIGINT ends an observation cleanly: its exit status is the command's own.
sonde_finish() {
	kill -INT "$SONDE_PID"
	wait "$SONDE_PID" || {
		local status=$?
		cat "$BATS_TEST_TMPDIR/sonde.err" >&2
		return $status
	}
}

# An interval was recorded: everything is attached and counts.
recording_runs() { # FILE
	[ "$(sqlite3 -readonly "$1" 'SELECT count(*) > 0 FROM tick' 2>/dev/null)" = 1 ]
}

record_begin() { # FILE ARGUMENTS...: a recording of searchd that is certainly attached
	local file=$1
	shift
	sonde_begin record -p "${TARGET_PID:-$SEARCHD_PID}" -o "$file" -i 200ms -d 300s "$@"
	wait_for 60 recording_or_end "$file"
	if is_gone "$SONDE_PID"; then
		cat "$BATS_TEST_TMPDIR/sonde.err" >&2
		return 1
	fi
}

recording_or_end() { # FILE
	recording_runs "$1" || is_gone "$SONDE_PID"
}

stat_or_end() {
	[ -s "$BATS_TEST_TMPDIR/sonde.out" ] || is_gone "$SONDE_PID"
}

# stat prints its first line when the first interval is over: by then it is attached.
stat_begin() { # ARGUMENTS...
	sonde_begin stat -p "$SEARCHD_PID" -i 200ms -d 300s "$@"
	wait_for 60 stat_or_end
	if is_gone "$SONDE_PID"; then
		cat "$BATS_TEST_TMPDIR/sonde.err" >&2
		return 1
	fi
}

# ---- load ----

# In the background, connections made but no query sent until load_go. Summary in load.json, a line a
# query in load.tsv.
load_begin() { # ARGUMENTS...
	mkfifo "$BATS_TEST_TMPDIR/gate"
	"$LOAD" --ready "$BATS_TEST_TMPDIR/ready" --gate "$BATS_TEST_TMPDIR/gate" \
		--out "$BATS_TEST_TMPDIR/load.tsv" "$@" \
		>"$BATS_TEST_TMPDIR/load.json" 2>"$BATS_TEST_TMPDIR/load.err" 3>&- &
	LOAD_PID=$!
	started "$LOAD_PID"
	wait_for 30 test -s "$BATS_TEST_TMPDIR/ready"
}

load_go() { : >"$BATS_TEST_TMPDIR/gate"; }

load_finish() { # every query answered, or this fails
	wait "$LOAD_PID" || {
		cat "$BATS_TEST_TMPDIR/load.json" "$BATS_TEST_TMPDIR/load.err" >&2
		return 1
	}
}

load_stop() { # early, but without a failed query
	kill -TERM "$LOAD_PID"
	load_finish
}

load_runs() { kill -0 "$LOAD_PID" 2>/dev/null; }

load_field() { # NAME
	jq -r ".$1" "$BATS_TEST_TMPDIR/load.json"
}

# ---- data ----

# One value (or rows) from a recording. The load's own times are in table load (load.tsv), with the
# name that a recording gives to a TCP client.
recording_sql() { # FILE SQL
	local db=$BATS_TEST_TMPDIR/scratch.db
	rm -f "$db"
	if [ -e "$BATS_TEST_TMPDIR/load.tsv" ]; then
		sqlite3 "$db" '.mode tabs' ".import $BATS_TEST_TMPDIR/load.tsv load" \
			'ALTER TABLE load ADD client TEXT' \
			"UPDATE load SET client = '127.0.0.1:' || port WHERE port <> '0'" \
			'CREATE INDEX load_client ON load (client, seq)'
	fi
	sqlite3 -bail "$db" "ATTACH 'file:$1?mode=ro' AS rec" "$2"
}

# Bytes of the daemon's executable memory that are not what its files say: one a probe site.
probe_bytes() { "$TEXTDIFF" "${1:-$SEARCHD_PID}" | tail -1; }
has_probes() { [ "$(probe_bytes "$@")" -gt 0 ]; }
has_no_probes() { [ "$(probe_bytes "$@")" = 0 ]; }

# libc's and searchd's text: sizes and hashes.
text_hashes() { "$TEXTDIFF" "$SEARCHD_PID" | grep -E '/(libc|searchd)[^/]*$' | cut -d' ' -f2-; }

# ---- assertions that show what they saw ----

equal() { # EXPECTED ACTUAL WHAT
	[ "$1" = "$2" ] || {
		echo "$3: expected $1, is $2" >&2
		return 1
	}
}

# sonde ends with this exit status and one sentence on stderr that matches; nothing on stdout.
refuses() { # STATUS PATTERN ARGUMENTS...
	local want=$1 pattern=$2 got=0
	shift 2
	timeout -k 5 60 "${AS[@]}" "$SONDE" "$@" >"$BATS_TEST_TMPDIR/out" \
		2>"$BATS_TEST_TMPDIR/err" </dev/null || got=$?
	if [ "$got" != "$want" ] || [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" != 1 ] ||
		! grep -qE "^sonde: .*$pattern" "$BATS_TEST_TMPDIR/err" ||
		[ -s "$BATS_TEST_TMPDIR/out" ]; then
		echo "sonde $*: exit $got (want $want), pattern '$pattern', it said:" >&2
		head -n 20 "$BATS_TEST_TMPDIR/err" "$BATS_TEST_TMPDIR/out" >&2
		return 1
	fi
}
AS=() # a command in front of sonde: setpriv ...
