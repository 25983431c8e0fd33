#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A daemon's own handler as the source of queries, by a recipe that its user wrote, against a server
# (tests/harness/handlerwork.cpp) that speaks no protocol that sonde knows and serves its connections
# by threads, a pool, processes, or coroutines that change threads in the middle of a request.

bats_require_minimum_version 1.5.0

load recorded_helpers

setup() {
	recorded_setup
	recipe
}

recipe() { # LINE...: the user's own, for handle_request() unless a line names another
	printf '%s\n' 'title Handler test server' 'handler execute' 'symbol handle_request' 'text rsi+0' \
		'length =edx' "$@" >"$T/own.recipe"
}

serve() { serve_program "$B/harness/handlerwork" "$@"; } # MODE...

record() { # ARGUMENTS...
	rm -f "$R"*
	record_server --lens query --query-text --recipe "$T/own.recipe" "$@"
}

ask() { "$B/harness/handlerwork" client "$port" "$@" >"$T/asked"; } # CLIENT-ARGUMENTS...
counted_more() { # N METRIC: more than N
	[ "$(sql "SELECT coalesce(max(value), 0) > $1 FROM metric WHERE name = '$2'")" = 1 ]
}
counted() { counted_more 0 "$1"; } # METRIC
spans() { sql "SELECT count(*) FROM query WHERE ${1:-1}"; }
dropped() { # [CAUSE]: without what costs no query
	sql "SELECT coalesce(sum(count), 0) FROM drop_total WHERE lens = 'query' AND cause <> 'recursion'
		AND cause LIKE '${1:-%}'"
}

# Each query once, with its text, on the connection that asked it, its times in order.
all_told() { # N CONNECTIONS WHAT
	equal "$1" "$(cat "$T/asked")" "answered, $3"
	equal "$1" "$(spans 'flags & 65536')" "told by the handler, $3"
	equal "$1" "$(sql 'SELECT count(DISTINCT text) FROM query')" "texts, $3"
	equal "$2" "$(sql 'SELECT count(DISTINCT conn) FROM query')" "connections, $3"
	equal 0 "$(spans "text NOT LIKE '% ' || substr(client, 11) || ' %'")" \
		"queries on another connection than they were asked on, $3"
	equal 0 "$(spans 'NOT (arrival_ns <= start_ns AND start_ns <= first_ns AND first_ns <= last_ns)')" \
		"times out of order, $3"
	equal 0 "$(dropped)" "drops, $3"
}

@test "a thread for each connection, one for all, a pool: every query, on its connection" {
	local mode c=8

	for mode in threads pool one; do
		[ $mode != one ] || c=1
		serve $mode
		record
		ask --connections $c --queries 3000
		finish
		all_told 3000 $c "$mode"
		equal "lookup the key ? ?" "$(sql 'SELECT DISTINCT fingerprint FROM query')" \
			"fingerprint, $mode"
		equal 3000 "$(spans "proto = 'unknown' AND status = 'ok' AND bytes_out = 17")" \
			"answers, $mode"
		equal 3000 "$(spans "bytes_in = 8 + length(text)")" "requests, $mode"
	done
}

@test "one thread for one connection after the other: told apart by socket" {
	serve one
	record
	ask --connections 1 --queries 50
	ask --connections 1 --queries 50
	ask --connections 1 --queries 50
	finish
	equal 150 "$(spans)" spans
	equal 1 "$(sql 'SELECT count(DISTINCT tid) FROM query')" threads
	equal 3 "$(sql 'SELECT count(DISTINCT conn) FROM query')" connections
	equal 0 "$(spans "text NOT LIKE '% ' || substr(client, 11) || ' %'")" "on another connection"
}

@test "a process forked for each connection, with --children" {
	serve fork
	record --children
	ask --connections 6 --queries 600
	finish
	all_told 600 6 fork
	equal 6 "$(sql 'SELECT count(DISTINCT pid) FROM query')" processes
}

@test "coroutines that change threads within a request: by socket and by return" {
	local end link

	for end in socket return; do
		recipe "end $end"
		link=$([ $end = return ] && echo perf || echo multi)
		serve coroutine --workers 4
		SONDE_FORCE_LINK=$link record
		ask --connections 50 --queries 5000
		finish
		all_told 5000 50 "end $end"
		equal 4 "$(sql 'SELECT count(DISTINCT tid) FROM query')" "threads, end $end"
		kill -0 "$server"
	done
}

@test "the connection by the descriptor that the handler's argument holds" {
	recipe 'socket rdi+8'
	serve coroutine
	record --query-source handler
	ask --connections 20 --queries 2000
	finish
	all_told 2000 20 socket
}

@test "what a query was charged goes with its coroutine, where the recipe names what it is left by" {
	printf '%s\n' 'handler yield' 'symbol co_yield' >>"$T/own.recipe"
	serve coroutine --workers 4
	record --lens query,fault
	ask --connections 20 --queries 2000 --text touch
	finish
	all_told 2000 20 yield
	equal 0 "$(spans 'flags & 256')" "their threads' doings not known"
	# 16 pages on one thread and 16 on another; now and then the server's own memory besides.
	equal 2000 "$(spans 'faults BETWEEN 32 AND 48')" "page faults of both threads"
	equal 1 "$(sql 'SELECT count(*) > 1900 FROM query WHERE faults = 32')" "exactly 32, most of them"
}

@test "MySQL since 5.7, by the name and the arguments that its dispatch_command() has" {
	serve threads --mysql --mysql8
	cp recipes/mariadb.recipe "$T/own.recipe"
	record --query-source handler
	"$B/bench/echoload" "$port" --queries 1000 --connections 4 --sql 'SELECT 1 FROM eight' >"$T/load"
	exec 8<>"/dev/tcp/127.0.0.1/$port" # logs in, and asks for STATISTICS, which has no text
	[ "$(head -c 78 <&8 | wc -c)" = 78 ]
	printf '\x05\0\0\x01\x05\xa2\0\0\0' >&8
	[ "$(head -c 11 <&8 | wc -c)" = 11 ]
	printf '\x05\0\0\0\x19\x01\0\0\0' >&8 # STMT_CLOSE, before it: not answered
	printf '\x01\0\0\0\x09' >&8
	[ "$(head -c 11 <&8 | wc -c)" = 11 ]
	finish
	exec 8>&-
	equal 1 "$(spans "command = 'statistics' AND text IS NULL AND status = 'ok'")" "without a text"
	equal 1 "$(spans "status = 'no_reply' AND first_ns IS NULL")" "not answered"
	equal 0 "$(dropped)" drops
	equal 1000 "$(spans "flags & 65536 AND proto = 'mysql' AND command = 'query'")" spans
	equal 1000 "$(spans "text = 'SELECT 1 FROM eight' AND index_name = 'eight'")" "text and table"
	equal 1000 "$(sql "SELECT CAST(max(value) AS INTEGER) FROM metric
		WHERE name = 'query.handler_calls'")" "statements, without the QUITs"
}

@test "an answer that is sent after the handler has returned ends the query" {
	serve threads
	record
	ask --connections 4 --queries 1000 --text quiet
	finish
	all_told 1000 4 quiet
}

@test "a text longer than is kept is cut, and its full length is told, by length or up to a NUL" {
	local long way

	long=$(printf 'word %.0s' {1..500})
	for way in length NUL; do
		[ $way = length ] || printf '%s\n' 'title x' 'handler execute' 'symbol handle_request' \
			'text rsi+0' >"$T/own.recipe"
		serve threads
		record
		ask --connections 1 --queries 9 --text "$long"
		ask --connections 1 --queries 9 --text short
		finish
		equal 9 "$(spans "text LIKE 'short % _' AND NOT flags & 2")" "short, $way"
		equal 9 "$(spans "text LIKE 'word word %' AND flags & 2 AND length(text) >= 1023")" \
			"cut, $way"
		equal 9 "$(sql "SELECT count(*) FROM span WHERE request_len BETWEEN 2507 AND 2510")" \
			"full lengths, $way"
	done
}

@test "calls that throw are aged out by what follows, and not taken for returns" {
	recipe 'end return'
	serve threads
	record
	ask --connections 2 --queries 500 --text throw
	ask --connections 2 --queries 500
	finish
	# The error was sent by whoever caught it: that ends the query, and the guess is marked.
	equal 500 "$(spans "text LIKE 'throw%' AND flags & 8 AND first_ns")" "thrown, their end guessed"
	equal 500 "$(spans "text LIKE 'lookup%' AND NOT flags & 8")" returned
	equal 0 "$(dropped)" drops
	equal 0 "$(sql "SELECT CAST(max(value) AS INTEGER) FROM metric
		WHERE name = 'query.unfinished'")" unfinished
}

@test "a handler whose connection cannot be known ends where it returns" {
	recipe 'end return' 'socket 1000'
	serve coroutine
	record --query-source handler
	ask --connections 8 --queries 1000
	finish
	equal 1000 "$(spans 'flags & 65536')" spans
	equal 1000 "$(sql 'SELECT count(DISTINCT text) FROM query')" texts
	equal 1000 "$(spans 'arrival_ns IS NULL')" "arrivals not known"
	equal 0 "$(spans 'NOT (start_ns < last_ns)')" "times out of order"
}

@test "coroutines: 100,000 queries, attached and detached 100 times under load, by every source" {
	local round args noise

	serve coroutine --mysql --workers 4
	# A load that never pauses, also while probes come and go; what is counted are the others.
	"$B/bench/echoload" "$port" --rate 100 --queries 1000000 --connections 4 --sql 'SELECT noise' \
		>"$T/noise" 2>&1 3>&- &
	noise=$!
	pids+=("$noise")
	for ((round = 0; round < 100; round++)); do
		case $((round % 3)) in
		0) args=(--query-source socket) && recipe ;;
		1) args=(--query-source handler) && recipe 'end return' ;;
		2) args=(--query-source handler) && recipe ;;
		esac
		record -i 10ms "${args[@]}"
		"$B/bench/echoload" "$port" --queries 1000 --connections 10 --sql 'SELECT 1' >"$T/load"
		finish
		equal 1000 "$(spans "text = 'SELECT 1'")" "spans, round $round, ${args[*]}"
		equal 10 "$(sql "SELECT count(DISTINCT conn) FROM query WHERE text = 'SELECT 1'")" \
			"connections, round $round"
		kill -0 "$server"
	done
	kill -0 "$noise"
}

# ---- what is said ----

doctor() { "$SONDE" doctor -p "$server" --lens query "$@" >"$T/out"; }

@test "the source is said by the plan, by doctor's JSON and in the recording" {
	serve threads
	doctor --recipe "$T/own.recipe"
	grep -q "queries from sockets, decoded .*; where they cannot be .*, the daemon's own handlers" \
		"$T/out"
	grep -q "handle_request+0 at 0x[0-9a-f]* of .*/handlerwork, pid $server: push" "$T/out"
	doctor
	grep -q 'queries from sockets, .* (no recipe knows this daemon.s handlers)' "$T/out"
	doctor --recipe "$T/own.recipe" --query-source socket
	grep -q 'queries from sockets, .* (--query-source socket)' "$T/out"
	recipe 'end return'
	doctor --recipe "$T/own.recipe" --query-source handler --json
	jq -e '.query_source | test("^the daemon.s own handlers.*where its handler returns")' "$T/out"
	"$SONDE" record -p "$server" -o "$R" --lens query --recipe "$T/own.recipe" --dry-run \
		>"$T/out" 2>&1
	grep -q 'ret of handle_request' "$T/out"
	record
	finish
	equal 1 "$(sql "SELECT count(*) FROM note
		WHERE what LIKE 'source of queries: sockets, decoded%'")" note
}

refused() { # STATUS PATTERN ARGUMENTS...: sonde says so in one sentence, and attaches nothing
	local status=$1 pattern=$2
	shift 2
	run "-$status" --separate-stderr "$SONDE" stat -p "$server" -d 1s --lens query "$@"
	[ "$(grep -c . <<<"$stderr")" = 1 ] && grep -qE -e "$pattern" <<<"$stderr" || {
		echo "pattern '$pattern', it said: $stderr" >&2
		return 1
	}
}

@test "a recipe that does not do is refused with what to correct" {
	local own=$T/own.recipe

	serve threads
	recipe 'symbol handle_indirect' 'end return'
	refused 2 "the return of handle_indirect cannot be seen: .*an indirect tail jump.*'end socket'" \
		--recipe "$own"
	recipe 'symbol no_such_function'
	refused 1 'own.recipe: nothing in it fits .*handlerwork .*symbol no_such_function' --recipe "$own"
	refused 1 'no recipe knows a handler of .*handlerwork' --query-source handler
	refused 1 '--recipe: cannot read .*/absent' --recipe "$T/absent"
	run -2 "$SONDE" stat -p "$server" -d 1s --passive --recipe "$own"
	run -2 "$SONDE" stat -p "$server" -d 1s --passive --query-source handler
	recipe 'text rax+1'
	run -2 --separate-stderr "$SONDE" stat -p "$server" -d 1s --recipe "$own"
	grep -qE "own.recipe:6: a field is like .*, not 'rax\+1'; docs/recipes.md" <<<"$stderr"
	recipe 'end never'
	run -2 --separate-stderr "$SONDE" stat -p "$server" -d 1s --recipe "$own"
	grep -qE "own.recipe:6: a query ends by 'socket' or 'return', not by 'never'" <<<"$stderr"
}

@test "a connection that cannot be decoded and that no handler is called for is counted" {
	recipe 'symbol co_main_never' # another symbol: then one that is never called
	printf '%s\n' 'title x' 'handler execute' 'symbol co_yield' >"$T/own.recipe"
	serve threads
	record
	ask --connections 3 --queries 30
	finish
	equal 0 "$(spans)" spans
	equal 3 "$(dropped undecoded)" "connections not decoded"
}

@test "recipe-row makes a row of a build with symbols, and of the same stripped" {
	local at

	cp "$B/harness/handlerwork" "$T/full"
	strip -s -o "$T/bare" "$T/full"
	at=$(nm "$T/full" | awk '$3 == "handle_request" {print $1}')
	scripts/recipe-row "$T/full" "$T/own.recipe" >"$T/full.recipe"
	# Without names: the handler is the caller of the function that a string of its own leads to.
	run -1 --separate-stderr scripts/recipe-row "$T/bare" "$T/own.recipe"
	grep -q "symbol handle_request: not in .*, and its recipe has no 'find' line" <<<"$stderr"
	recipe 'find string as asked'
	scripts/recipe-row "$T/bare" "$T/own.recipe" >"$T/bare.recipe"
	equal "offset 0x$(printf '%x' "$((0x$at))")" "$(grep ^offset "$T/bare.recipe")" "offset by string"
	equal "$(grep ^build-id "$T/full.recipe")" "$(grep ^build-id "$T/bare.recipe")" build-id
	# It is taken for the stripped program.
	"$T/bare" threads >"$T/port" 3>&- &
	server=$!
	pids+=("$server")
	until_true test -s "$T/port"
	port=$(head -n 1 "$T/port")
	cp "$T/bare.recipe" "$T/own.recipe"
	record
	"$T/bare" client "$port" --connections 2 --queries 200 >"$T/asked"
	finish
	all_told 200 2 stripped
}

@test "what is open at the end is unfinished; a query that was answered is not, its connection open" {
	local way asked

	for way in socket return; do
		recipe "end $way"
		rm -f "$T/go"
		serve threads --hold "$T/go"
		record
		ask --connections 1 --queries 1 --text hold 3>&- &
		asked=$!
		until_true counted query.handler_calls
		finish
		equal "1|unfinished|" "$(sql 'SELECT count(*), status, last_ns FROM query')" "open, end $way"
		: >"$T/go"
		wait "$asked"
	done
	recipe
	serve threads
	record
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	printf '\xf1\xf2\xf3\xf4\x08\0\0\0lookup 1' >&8
	[ "$(head -c 17 <&8 | wc -c)" = 17 ]
	finish
	exec 8>&-
	equal "1|ok|lookup 1" "$(sql 'SELECT count(*), status, text FROM query')" "answered, still connected"
}

@test "without the socket tracepoints: the same queries, without their wait" {
	export SONDE_FORCE_SYSCALLS=1
	serve pool
	# The call in which it waits for its first connection began before: that one is not seen.
	ask --connections 1 --queries 1
	record
	ask --connections 8 --queries 2000
	finish
	equal 2000 "$(spans 'flags & 65536 AND arrival_ns IS NULL')" spans
	equal 0 "$(spans "text NOT LIKE '% ' || substr(client, 11) || ' %'")" "on another connection"
	equal 0 "$(dropped)" drops
}

@test "a connection that was open before, and one whose server dies" {
	rm -f "$T/go"
	serve threads --hold "$T/go"
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	printf '\xf1\xf2\xf3\xf4\x06\0\0\0before' >&8
	[ "$(head -c 17 <&8 | wc -c)" = 17 ]
	record
	printf '\xf1\xf2\xf3\xf4\x05\0\0\0after' >&8
	[ "$(head -c 17 <&8 | wc -c)" = 17 ]
	printf '\xf1\xf2\xf3\xf4\x09\0\0\0hold this' >&8
	until_true counted_more 1 query.handler_calls
	kill -KILL "$server"
	wait "$sonde"
	exec 8>&-
	equal "after|ok hold this|aborted" "$(sql "SELECT group_concat(text || '|' || status, ' ')
		FROM (SELECT * FROM query ORDER BY start_ns)")" "text and status"
	equal 1 "$(sql "SELECT last_ns > start_ns FROM query WHERE text = 'hold this'")" "when it died"
}

# Every span's parts are its duration, and none is less than nothing.
whole() { # SPANS WHAT
	local columns
	columns=$(sql "SELECT group_concat(name, ' + ') FROM pragma_table_info('anatomy')
		WHERE name LIKE '%_ns'")
	equal "$1" "$(sql "SELECT count(*) FROM anatomy JOIN query ON query.id = span
		WHERE duration_ns = $columns AND min(${columns// +/,}) >= 0")" \
		"spans that are their parts, $2"
}

@test "where the time of handled queries went, also of one that changed threads" {
	serve threads
	record --anatomy on
	ask --connections 2 --queries 1000
	finish
	whole 1000 threads
	equal 1 "$(sql 'SELECT sum(unattributed_ns) * 20 < sum(duration_ns) FROM anatomy
		JOIN query ON query.id = span')" "at most 5 % unattributed"
	# 2 ms of computing between two changes of threads, each of which waits for a thread.
	printf '%s\n' 'handler yield' 'symbol co_yield' >>"$T/own.recipe"
	serve coroutine --workers 2 --work 2000
	record --anatomy on
	ask --connections 1 --queries 200
	finish
	whole 200 coroutine
	equal 1 "$(sql 'SELECT count(*) >= 150 FROM anatomy WHERE user_ns + runqueue_ns > 1900000')" \
		"the computing is seen on the thread that did it"
	equal 1 "$(sql 'SELECT count(*) >= 150 FROM anatomy WHERE unattributed_ns < 1000000')" \
		"what is not explained is not the computing"
}
