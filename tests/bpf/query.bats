#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The query lens against a server that answers a known number of queries in a known way
# (tests/bench/echo.c). What it sees of a real searchd is in tests/e2e/searchd.bats.

bats_require_minimum_version 1.5.0

load recorded_helpers

serve() { serve_program "$B/bench/echo" "$@"; } # ECHO-ARGUMENTS...

record() { # PID
	local server=$1

	record_server --lens query --query-text
}

load() { "$B/bench/echoload" "$port" "$@" >"$T/load"; }

# A counter's last value.
metric() { sql "SELECT CAST(value AS INTEGER) FROM metric WHERE name = '$1' ORDER BY ts_ns DESC LIMIT 1"; }
dropped() { sql "SELECT coalesce(sum(count), 0) FROM drop_total WHERE cause LIKE '${1:-%}'"; }
spans() { sql "SELECT count(*) FROM query WHERE ${1:-1}"; }

@test "every query is one span, ended by its answer's last byte, within the client's time" {
	serve
	record "$server"
	load --queries 10000 --connections 8 --out "$T/load.tsv"
	finish
	equal 10000 "$(spans "status = 'ok' AND command = 'query'")" spans
	equal 10000 "$(metric query.spans)" counter
	equal 0 "$(dropped)" drops
	equal 8 "$(sql 'SELECT count(DISTINCT conn) FROM query')" connections
	equal 0 "$(spans 'arrival_ns > start_ns OR start_ns > first_ns OR first_ns > last_ns')" \
		"times out of order"
	equal 0 "$(spans 'arrival_ns IS NULL OR last_ns IS NULL')" "times not known"
	equal rt "$(sql 'SELECT DISTINCT index_name FROM query')" index
	equal 'select id from rt where match(?) limit ?' \
		"$(sql 'SELECT DISTINCT fingerprint FROM query')" fingerprint
	# The client's record of the same queries: its port and the query's number on it. The kernel tells
	# of a send after its bytes are on their way: a server that is interrupted then ends after its client.
	equal 1 "$(sqlite3 "$T/x.db" '.mode tabs' \
		'CREATE TABLE load (port, seq INTEGER, send_ns INTEGER, last_ns INTEGER)' \
		".import $T/load.tsv load" "ATTACH 'file:$R?mode=ro' AS rec" \
		"SELECT 10000 - count(*) <= 10 FROM rec.query q JOIN load l
		ON q.client = '127.0.0.1:' || l.port AND q.seq = l.seq
		AND q.duration_ns <= l.last_ns - l.send_ns")" "spans no longer than the client waited"
}

@test "without the socket tracepoints the same queries are seen, without their wait" {
	export SONDE_FORCE_SYSCALLS=1
	serve
	record "$server"
	load --queries 5000 --connections 4
	finish
	equal 5000 "$(spans "status = 'ok'")" spans
	equal 0 "$(dropped)" drops
	equal 5000 "$(spans 'arrival_ns IS NULL')" "arrivals not known"
	equal 4 "$(sql 'SELECT count(DISTINCT client) FROM query')" clients
	equal 1 "$(sql "SELECT count(*) > 0 FROM note WHERE what LIKE '%no queue wait%'")" note
}

@test "connections that were open before are seen from their next query on" {
	local force

	for force in 0 1; do
		rm -f "$R"*
		serve
		exec 8<>"/dev/tcp/127.0.0.1/$port"
		printf '\x05\0\0\x01\x05\xa2\0\0\0' >&8
		SONDE_FORCE_SYSCALLS=$force record "$server"
		printf '\x09\0\0\0\x03SELECT 1' >&8
		[ "$(head -c 150 <&8 | wc -c)" = 150 ]
		exec 8>&-
		finish
		equal 'select ?' "$(sql 'SELECT fingerprint FROM query')" "fingerprint, syscalls $force"
		equal 'SELECT 1' "$(sql 'SELECT text FROM query')" "text, syscalls $force"
	done
}

@test "queries sent in one segment are as many spans, and their wait is their predecessors' time" {
	serve
	record "$server"
	load --queries 4000 --connections 2 --pipeline 4
	finish
	equal 4000 "$(spans "status = 'ok'")" spans
	equal 0 "$(dropped)" drops
	equal 0 "$(spans 'duration_ns < service_ns')" "shorter than their service"
}

@test "a long answer in many sends ends with its last" {
	serve --rows 2000 --splits 7
	record "$server"
	load --queries 500 --connections 2
	finish
	equal 500 "$(spans "status = 'ok'")" spans
	equal 1 "$(sql 'SELECT count(DISTINCT bytes_out) FROM query')" "sizes of the same answer"
	equal 0 "$(spans "flags & 8")" "ends that were guessed"
	equal 0 "$(spans 'send_ns = 0')" "answers that took no time"
	equal 0 "$(dropped)" drops
}

@test "a query whose client leaves before the answer is aborted, not lost" {
	serve --mute
	record "$server"
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	printf '\x05\0\0\x01\x05\xa2\0\0\0' >&8
	[ "$(head -c 89 <&8 | wc -c)" = 89 ]
	printf '\x09\0\0\0\x03SELECT 1' >&8
	exec 8>&-
	until_true gone_from_server
	finish
	equal 1 "$(spans "status = 'aborted' AND last_ns > start_ns AND first_ns IS NULL")" spans
	equal 1 "$(metric query.aborted)" counter
	equal 0 "$(sql "SELECT count(*) FROM histogram WHERE name = 'query.latency'")" latencies
}

ask() { # a query on descriptor 8, which the server has read when this returns
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	printf '\x05\0\0\x01\x05\xa2\0\0\0' >&8
	[ "$(head -c 89 <&8 | wc -c)" = 89 ]
	printf '\x09\0\0\0\x03SELECT 1' >&8
	until_true all_read
}

# Nothing waits in the receive queue of the connection's server side.
all_read() {
	local hex

	hex=$(printf %04X "$port")
	awk -v port=":$hex\$" '$2 ~ port && $4 == "01" { split($5, q, ":"); n += q[2] == "00000000" }
		END { exit n != 1 }' /proc/net/tcp
}

not_answered() { # STATUS WAY
	equal 1 "$(spans)" "spans, $2"
	equal "$1|SELECT 1" "$(sql 'SELECT status, text FROM query')" "span, $2"
	equal 0 "$(sql "SELECT count(*) FROM histogram WHERE name LIKE 'query.%'")" "latencies, $2"
	equal 0 "$(dropped)" "drops, $2"
}

@test "the query that a process died of is aborted, at the time it died" {
	local force

	for force in 0 1; do
		rm -f "$R"*
		serve --mute
		SONDE_FORCE_SYSCALLS=$force record "$server"
		ask
		kill -KILL "$server"
		wait "$sonde"
		exec 8>&-
		not_answered aborted "syscalls $force"
		equal 1 "$(metric query.aborted)" "aborted, syscalls $force"
		equal 0 "$(metric query.unfinished)" "unfinished, syscalls $force"
		[ "$force" = 1 ] || equal 1 "$(spans 'duration_ns > 0')" "has a duration"
	done
}

@test "a query that is open when the observation ends is unfinished" {
	local force

	for force in 0 1; do
		rm -f "$R"*
		serve --mute
		SONDE_FORCE_SYSCALLS=$force record "$server"
		ask
		finish
		exec 8>&-
		not_answered unfinished "syscalls $force"
		equal 1 "$(spans 'start_ns > 0 AND first_ns IS NULL AND last_ns IS NULL')" "times"
		equal 1 "$(metric query.unfinished)" "unfinished, syscalls $force"
		equal 0 "$(metric query.spans)" "ended, syscalls $force"
	done
}

# Its only sockets are the listener's, once it has seen that the client left.
gone_from_server() {
	[ "$(find "/proc/$server/fd" -lname 'socket:*' | wc -l)" = 1 ]
}

@test "what is encrypted or unknown is counted as such, once a connection" {
	serve
	record "$server"
	for _ in 1 2 3; do
		exec 8<>"/dev/tcp/127.0.0.1/$port"
		# an SSL request: 32 bytes with capability 0x800
		printf '\x20\0\0\x01\x05\xaa\0\0%28s' '' | tr ' ' '\0' >&8
		printf '\x16\x03\x01\x02\0\x01\0\x01' >&8
		head -c 78 <&8 >/dev/null
		exec 8>&-
	done
	until_true gone_from_server
	finish
	equal 3 "$(dropped encrypted)" encrypted
	equal 0 "$(spans)" spans
}

@test "a daemon's outgoing connections are not its queries" {
	serve
	"$B/bench/echoload" "$port" --queries 100000 --rate 20000 >"$T/load" 3>&- &
	client=$!
	pids+=("$client")
	record "$client"
	wait "$client"
	wait "$sonde"
	equal 0 "$(spans)" spans
	equal 0 "$(metric query.spans)" counter
}

@test "spans may be kept for slow queries only: the histograms hold all" {
	serve
	"$SONDE" record -p "$server" -o "$R" --lens query -i 100ms -d 300s --slower-than 60s \
		>"$T/out" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	until_true ticked
	load --queries 3000
	finish
	equal 0 "$(spans)" spans
	equal 3000 "$(metric query.spans)" counter
	equal 3000 "$(metric query.skipped)" skipped
	equal 3000 "$(sql "SELECT sum(count) FROM histogram WHERE name = 'query.latency'
		AND label = ''")" "latencies"
}

@test "a reader that is stopped for 5 s loses spans, counts them, and no query from the histograms" {
	serve
	"$SONDE" record -p "$server" -o "$R" --lens query -i 100ms -d 300s --ring-size 256K \
		>"$T/out" 2>"$T/err" 3>&- &
	sonde=$!
	pids+=("$sonde")
	until_true ticked
	kill -STOP "$sonde"
	load --queries 20000 --rate 4000
	kill -CONT "$sonde"
	finish
	equal 20000 "$(metric query.spans)" counter
	[ "$(dropped ring_full)" -gt 0 ]
	equal 20000 "$(($(spans) + $(dropped ring_full)))" "spans and drops"
	for label in '' query; do
		equal 20000 "$(sql "SELECT sum(count) FROM histogram
			WHERE name = 'query.latency' AND label = '$label'")" "latencies, label '$label'"
	done
	# The table by form counts those that came, and says how many did not.
	"$SONDE" report "$R" | tr -d , |
		grep "^By form: $(spans) of 20000 answered queries; $(dropped ring_full) missed"
}
