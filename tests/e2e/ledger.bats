#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The memory ledger of real daemons: Debian's searchd with a plain and a real-time index, redis and MariaDB.
# What smaps says is summed by awk, independently of sonde; the daemons are idle meanwhile, and where one
# is not quite, the two are compared again.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	searchd_up || return 1
	# Something in the real-time index, and pages of the plain one.
	"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 4 --queries 2000 --mix insert >/dev/null
	"$LOAD" --sphinxql "$SEARCHD_SQL" --connections 4 --queries 2000 --mix light >/dev/null
}

teardown_file() { searchd_down; }

setup() { DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX"); }

teardown() {
	end_started
	[ ! -s "$BATS_TEST_TMPDIR/pids" ] || wait_for 20 is_gone "$(tail -1 "$BATS_TEST_TMPDIR/pids")"
	rm -rf "$DIR"
}

reading() { # PID
	"$SONDE" stat -p "$1" --lens rss -d 0 --ledger full --json >"$BATS_TEST_TMPDIR/r"
}

# Shared memory and files of smaps by name or extension: "NAME BYTES", sorted. A mapping's private
# copies (Anonymous) belong to nobody's file.
smaps_sums() { # PID
	awk '
		function flush() {
			if (name != "" && rss > anon) sum[name] += (rss - anon) * 1024
			rss = anon = 0
		}
		function label(name, base) {
			sub(/ \(deleted\)$/, "", name)
			if (name == "/dev/zero") return "anonymous"
			if (name ~ /^\/(memfd:|SYSV)/) return substr(name, 2)
			if (name ~ /^\/(dev\/shm|run)\//) return name
			base = name
			sub(/.*\//, "", base)
			if (base ~ /.\.so($|\.)/) return ".so"
			if (name in code) return "(program)"
			if (base !~ /^.+\.[^.]+$/) return "(none)"
			sub(/.*\./, ".", base)
			return base
		}
		/^[0-9a-f]+-[0-9a-f]+ / {
			flush()
			name = $0
			sub(/^([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ *)/, "", name)
			if ($2 ~ /x/) code[name] = 1
			next
		}
		/^Rss:/ { rss = $2 }
		/^Anonymous:/ { anon = $2 }
		END {
			flush()
			for (n in sum) by[label(n)] += sum[n]
			for (n in by) printf "%s %d\n", n, by[n]
		}
	' "/proc/$1/smaps" | sort
}

sonde_sums() {
	jq -r '.metrics[] | select(.name == "rss.shmem_name" or .name == "rss.file_ext") |
		select(.value > 0) | "\(.label) \(.value)"' "$BATS_TEST_TMPDIR/r" | sort
}

same_sums() { # PID
	reading "$1"
	diff <(smaps_sums "$1") <(sonde_sums) >"$BATS_TEST_TMPDIR/diff"
}

# The rows add up to RSS to the byte; unexplained is within a page a mapping and what moved.
adds_up() { # PID
	local r=$BATS_TEST_TMPDIR/r maps unexplained moved
	reading "$1"
	maps=$(wc -l <"/proc/$1/maps")
	unexplained=$(jq '.metrics[] | select(.label == "unexplained").value' "$r")
	moved=$(jq '.metrics[] | select(.name == "rss.ledger_moved").value' "$r")
	equal "$(jq '.metrics[] | select(.name == "rss.total").value' "$r")" \
		"$(jq '[.metrics[] | select(.name == "rss.ledger").value] | add' "$r")" "sum of rows"
	[ $((${unexplained#-} - ${moved#-})) -le $((maps * 4096)) ] || {
		echo "unexplained $unexplained, RSS moved $moved, $maps mappings" >&2
		return 1
	}
}

checks_out() { # PID
	adds_up "$1"
	wait_for 20 same_sums "$1" || {
		cat "$BATS_TEST_TMPDIR/diff" >&2
		return 1
	}
}

@test "searchd: the rows add up to its RSS; shared memory and index files as smaps has them" {
	checks_out "$SEARCHD_PID"
	# It keeps attributes in shared anonymous memory.
	[ "$(jq '.metrics[] | select(.name == "rss.shmem_name" and .label == "anonymous").value' \
		"$BATS_TEST_TMPDIR/r")" -gt 1000000 ]
	"$SONDE" stat -p "$SEARCHD_PID" --lens rss -d 0 >"$BATS_TEST_TMPDIR/out"
	grep -qE '^Index\? +[0-9]+ % of RSS: shared memory' "$BATS_TEST_TMPDIR/out"
	grep -qE '^Allocator/THP\? +at most .* \([0-9]+ %\)' "$BATS_TEST_TMPDIR/out"
	grep -qE "^Leak\? +cannot tell from one reading -> sonde record -p $SEARCHD_PID -d 6h" \
		"$BATS_TEST_TMPDIR/out"
}

@test "searchd under load: what is unexplained stays within what RSS moved" {
	load_begin --sphinxql "$SEARCHD_SQL" --connections 4 --seconds 120 --rate 400 --mix light
	load_go
	for _ in 1 2 3 4 5; do
		adds_up "$SEARCHD_PID"
	done
	load_stop
}

@test "redis: the rows add up to its RSS" {
	command -v redis-server >/dev/null || skip "redis-server is not installed"
	local port
	port=$(searchd_pick_port)
	redis-server --port "$port" --bind 127.0.0.1 --save "" --dir "$DIR" --daemonize no \
		--enable-debug-command local \
		>"$DIR/log" 2>&1 3>&- &
	local pid=$!
	started $pid
	wait_for 30 searchd_answers "$port"
	# 16 MiB of values.
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	printf 'DEBUG POPULATE 16384 key 1024\r\n' >&8
	timeout 30 head -n 1 <&8 >"$DIR/answer"
	exec 8>&-
	grep -q OK "$DIR/answer"
	checks_out $pid
}

@test "MariaDB: the rows add up to its RSS" {
	command -v mariadbd >/dev/null || skip "mariadb-server is not installed"
	local port
	port=$(searchd_pick_port)
	mariadb-install-db --no-defaults --user=root --datadir="$DIR/data" \
		--auth-root-authentication-method=normal --skip-test-db >"$DIR/log" 2>&1
	mariadbd --no-defaults --user=root --datadir="$DIR/data" --port="$port" \
		--bind-address=127.0.0.1 --socket="$DIR/sock" --pid-file="$DIR/pid" \
		--innodb-buffer-pool-size=64M >"$DIR/log" 2>&1 3>&- &
	local pid=$!
	started $pid
	wait_for 60 searchd_answers "$port"
	checks_out $pid
}
