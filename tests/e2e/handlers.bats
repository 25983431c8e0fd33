#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Daemons' own handlers as the source of queries, on a real searchd (stripped: by build-id) and a real
# mariadbd (by symbol), side by side with what their sockets tell.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up; }
teardown_file() { searchd_down; }

setup() { DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX"); }

teardown() {
	end_started
	if [ -e "$BATS_TEST_TMPDIR/extra" ]; then # a searchd of this test's own
		searchd_stop "$(cat "$BATS_TEST_TMPDIR/extra")"
		rm -rf "$(cat "$BATS_TEST_TMPDIR/extra")"
	fi
	rm -rf "$DIR"
}

# ---- two observers of one daemon ----

observe() { # NAME PID ARGUMENTS...: recorded to $DIR/NAME.sonde; its pid in NAME
	local name=$1 pid=$2
	shift 2
	"$SONDE" record -p "$pid" -o "$DIR/$name.sonde" -i 200ms -d 300s --lens query --query-text "$@" \
		>"$DIR/$name.out" 2>"$DIR/$name.err" 3>&- &
	printf -v "$name" %s $!
	started "${!name}"
	wait_for 60 recording_runs "$DIR/$name.sonde" || {
		cat "$DIR/$name.err" >&2
		return 1
	}
}

observed() { # NAME...: no more
	local name
	for name; do
		kill -INT "${!name}"
		wait "${!name}" || {
			cat "$DIR/$name.err" >&2
			return 1
		}
	done
}

both() { # SQL: with recordings s (socket) and h (handler), the nth query of a connection side by side
	sqlite3 -bail "" "ATTACH 'file:$DIR/socket.sonde?mode=ro' AS s" \
		"ATTACH 'file:$DIR/handler.sonde?mode=ro' AS h" \
		"CREATE TEMP TABLE a AS SELECT *, row_number() OVER (PARTITION BY conn ORDER BY seq) AS n
			FROM s.query WHERE command <> 'ping'" \
		"CREATE TEMP TABLE b AS SELECT *, row_number() OVER (PARTITION BY conn ORDER BY seq) AS n
			FROM h.query WHERE command <> 'ping'" \
		"CREATE TEMP TABLE pair AS SELECT a.start_ns - b.start_ns AS start, a.text IS b.text AS text,
			a.command = b.command AS command, a.last_ns - b.last_ns AS last
			FROM a JOIN b USING (conn, n)" "$1"
}

# Both sources tell the same N queries: which, when each began and when its answer's last byte went.
agree() { # N
	equal "$1|$1|$1" "$(both "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), count(*)
		FROM pair")" "queries by socket, by handler, and the same"
	equal "$1|$1" "$(both 'SELECT sum(text), sum(command) FROM pair')" "the same text, and command"
	equal 1 "$(both "SELECT abs(start) < 50000 FROM pair ORDER BY abs(start)
		LIMIT 1 OFFSET $(($1 / 2))")" "starts within 50 us in the median"
	equal 1 "$(both "SELECT abs(last) < 50000 FROM pair ORDER BY abs(last)
		LIMIT 1 OFFSET $(($1 / 2))")" "ends within 50 us in the median"
}

lost() { # what the handlers' recording says that it missed
	of handler "SELECT coalesce(sum(count), 0) FROM drop_total WHERE lens = 'query'
		AND cause <> 'recursion'"
}

of() { sqlite3 -readonly -bail "$DIR/$1.sonde" "$2"; } # NAME SQL

# ---- searchd ----

@test "searchd, by build-id: handlers and sockets agree on every query, on its text and its start" {
	load_begin --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --sphinxql "$SEARCHD_UNIX" \
		--api "$SEARCHD_UNIX_API" --connections 8 --queries 6000 --mix light --seed 5
	observe socket "$SEARCHD_PID" --query-source socket
	observe handler "$SEARCHD_PID" --query-source handler
	load_go
	load_finish
	observed handler socket
	agree 6000
	equal 6000 "$(of handler "SELECT count(*) FROM span WHERE flags & 65536")" "told by the handler"
	equal 0 "$(of socket "SELECT count(*) FROM span WHERE flags & 65536")" "told by the socket"
	equal "query|search" "$(of handler "SELECT group_concat(command, '|') FROM
		(SELECT DISTINCT command FROM query ORDER BY 1)")" "commands"
	equal 0 "$(lost)" drops
	equal 1 "$(of handler "SELECT count(*) FROM note
		WHERE what LIKE 'source of queries: the daemon''s own handlers%'")" "it is said"
}

@test "recipe-row finds in Debian's stripped searchd what the recipe holds" {
	local row=$DIR/row
	[ "$(readelf -n /usr/bin/searchd | awk '/Build ID:/ {print $3}')" = \
		272029b6651b7dbdbca116df8d6aa3076d0170cd ] || skip "another build of searchd"
	# Nothing of it is known by name: the names are there for messages.
	awk '/^title/ && n++ {exit} {print}' "$e2e_root/recipes/sphinx.recipe" >"$DIR/shipped"
	grep -v '^offset\|^build-id' "$DIR/shipped" >"$DIR/bare.recipe"
	"$e2e_root/scripts/recipe-row" /usr/bin/searchd "$DIR/bare.recipe" >"$row"
	equal "$(grep -E '^(symbol|offset|build-id)' "$DIR/shipped" | sort)" \
		"$(grep -E '^(symbol|offset|build-id)' "$row" | sort)" "names and offsets"
	grep -q '^offset 0xd5800$' "$row" && grep -q '^offset 0x73320$' "$row"
	# And what it prints is a recipe.
	"$SONDE" doctor -p "$SEARCHD_PID" --lens query --recipe "$row" >"$DIR/doctor"
	grep -q 'Execute.* at 0xd5800 of /usr/bin/searchd' "$DIR/doctor"
}

# ---- mariadbd ----

mariadb_up() { # ARGUMENTS...: PID; answers at $PORT and $DIR/sock
	command -v mariadbd >/dev/null || skip "mariadbd is not installed"
	PORT=$(searchd_pick_port)
	mkdir "$DIR/data" "$DIR/data/test"
	openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -keyout "$DIR/key" \
		-out "$DIR/cert" 2>/dev/null
	mariadbd --no-defaults --user=root --datadir="$DIR/data" --socket="$DIR/sock" --port="$PORT" \
		--bind-address=127.0.0.1 --skip-grant-tables --skip-innodb --default-storage-engine=Aria \
		--pid-file="$DIR/pid" --aria-log-dir-path="$DIR/data" --ssl-cert="$DIR/cert" \
		--ssl-key="$DIR/key" "$@" >"$DIR/daemon.log" 2>&1 </dev/null 3>&- &
	PID=$!
	started "$PID"
	wait_for 60 mariadb --no-defaults --socket="$DIR/sock" -e 'SELECT 1'
}

# In four connections at once, each one statement after the other; each says which connection it is.
ask() { # N CLIENT-ARGUMENTS...
	local n=$1 c i clients=()
	shift
	for c in 1 2 3 4; do
		for ((i = 0; i < n; i++)); do echo "SELECT $c AS c, $i AS i;"; done >"$DIR/sql.$c"
		mariadb --no-defaults -h127.0.0.1 -P"$PORT" -uroot "$@" <"$DIR/sql.$c" >"$DIR/answers.$c" &
		clients+=($!)
	done
	wait "${clients[@]}"
}

told() { # WHERE: queries of the recording, and how many connections, each with its own statements only
	of handler "SELECT count(*), count(DISTINCT conn), (SELECT count(*) FROM (SELECT DISTINCT conn,
		substr(text, 8, 1) FROM query WHERE text LIKE 'SELECT%')) FROM query WHERE text LIKE 'SELECT%'
		AND flags & 65536 AND $1"
}

@test "mariadbd, by symbol: handlers and sockets agree on every query, on its text and its start" {
	mariadb_up
	observe socket "$PID" --query-source socket
	observe handler "$PID" --query-source handler
	ask 500 --skip-ssl
	observed handler socket
	agree 2000
	equal "2000|4|4" "$(told "status = 'ok'")" "queries, connections, connections told apart"
}

@test "mariadbd over TLS and compressed: queries with their text, from the handler, by themselves" {
	local way
	mariadb_up
	for way in --ssl --compress; do
		rm -f "$DIR"/handler.sonde*
		observe handler "$PID"
		ask 200 "$way" "$([ $way = --ssl ] && echo --compress=0 || echo --skip-ssl)"
		observed handler
		equal "800|4|4" "$(told "status = 'ok'")" "queries, connections, told apart, $way"
		equal 'select ? as c, ? as i' "$(of handler "SELECT DISTINCT fingerprint FROM query
			WHERE text LIKE 'SELECT%'")" "fingerprint, $way"
		equal 0 "$(of handler "SELECT count(*) FROM query WHERE NOT (arrival_ns <= start_ns AND
			start_ns < first_ns AND first_ns <= last_ns)")" "times out of order, $way"
		equal 0 "$(lost)" "drops, $way"
		# What the socket can tell it tells: the same daemon, in the clear, at the same time.
		rm -f "$DIR"/handler.sonde*
		observe handler "$PID"
		ask 50 "$way" "$([ $way = --ssl ] && echo --compress=0 || echo --skip-ssl)"
		ask 50 --skip-ssl
		observed handler
		equal "200|200" "$(of handler "SELECT sum(flags & 65536 > 0), sum(flags & 65536 = 0)
			FROM query WHERE text LIKE 'SELECT%'")" "by handler and by socket, $way"
	done
}

@test "mariadbd with a pool of threads, over TLS: told apart by socket" {
	mariadb_up --thread-handling=pool-of-threads --thread-pool-size=2
	observe handler "$PID"
	ask 200 --ssl
	observed handler
	equal "800|4|4" "$(told "status = 'ok'")" "queries, connections, connections told apart"
	equal 0 "$(lost)" drops
}

@test "mariadbd gives one thread to one connection after the other, over TLS: told apart by socket" {
	local c
	mariadb_up --thread-cache-size=1
	observe handler "$PID"
	for c in 1 2 3 4 5 6 7 8; do
		for ((i = 0; i < 20; i++)); do echo "SELECT $c AS c, $i AS i;"; done |
			mariadb --no-defaults -h127.0.0.1 -P"$PORT" -uroot --ssl >/dev/null
	done
	observed handler
	equal "160|8|8" "$(told "status = 'ok'")" "queries, connections, connections told apart"
	# Most of them: a client may be back before the thread of the one before is.
	equal 1 "$(of handler 'SELECT count(DISTINCT tid) < 8 FROM query')" "a thread served several"
}

@test "a searchd that forks for each connection: handlers and sockets agree, with --children" {
	local dir
	dir=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX")
	echo "$dir" >"$BATS_TEST_TMPDIR/extra"
	searchd_start "$dir" docs=1000 workers=fork 3>&-
	observe socket "$SEARCHD_PID" --query-source socket --children
	observe handler "$SEARCHD_PID" --query-source handler --children
	"$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 4 --queries 400 >/dev/null
	observed handler socket
	agree 400
	equal 4 "$(of handler 'SELECT count(DISTINCT pid) FROM query')" processes
}
