#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What real servers are asked in every form of their protocols, as their sockets tell it: MariaDB with a
# real client, nginx, and a server whose answers are chunked. Spans are the requests that were sent.

bats_require_minimum_version 1.5.0
load helpers

setup() {
	DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX")
	chmod 755 "$DIR"
	R=$BATS_TEST_TMPDIR/r.sonde
}

teardown() {
	end_started
	rm -rf "$DIR"
}

# shellcheck disable=SC2154 # of helpers
client() { /usr/bin/python3 "$e2e_root/tests/e2e/protocols.py" "$@"; }
q() { sqlite3 -readonly -bail "$R" "$1"; }
spans() { q "SELECT count(*) FROM query WHERE $1"; }
drops() { # CAUSE
	q "SELECT coalesce(sum(count), 0) FROM drop_total
		WHERE lens = 'query' AND cause LIKE '${1:-%}'"
}
watch() {
	rm -f "$R"*
	TARGET_PID=$PID record_begin "$R" --lens query --query-text --query-source socket
}

mariadb_up() {
	command -v mariadbd >/dev/null || skip "mariadbd is not installed"
	/usr/bin/python3 -c 'import pymysql' || skip "pymysql is not installed"
	PORT=$(searchd_pick_port)
	[ -d "$DIR/data" ] || mkdir "$DIR/data" "$DIR/data/test"
	[ -e "$DIR/cert" ] || openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost \
		-keyout "$DIR/key" -out "$DIR/cert" 2>/dev/null
	mariadbd --no-defaults --user=root --datadir="$DIR/data" --socket="$DIR/sock" --port="$PORT" \
		--bind-address=127.0.0.1 --skip-grant-tables --skip-innodb --default-storage-engine=Aria \
		--pid-file="$DIR/pid" --aria-log-dir-path="$DIR/data" --ssl-cert="$DIR/cert" \
		--ssl-key="$DIR/key" --max-allowed-packet=64M --max-connections=300 \
		>"$DIR/daemon.log" 2>&1 </dev/null 3>&- &
	PID=$!
	started "$PID"
	wait_for 60 mariadb --no-defaults --socket="$DIR/sock" -e 'SELECT 1'
}

asleep() {
	mariadb --no-defaults --socket="$DIR/sock" -e 'SHOW PROCESSLIST' | grep -q 'SLEEP(100)'
}

@test "MySQL: prepared, many statements, pipelined and over 16 MiB: spans are requests" {
	mariadb_up
	watch
	client prepared "$PORT" 20
	client multi "$PORT" 20
	client pipelined "$PORT" 20
	client big "$PORT" 2
	sonde_finish
	equal "1|20|1" "$(q "SELECT sum(command = 'prepare'), sum(command = 'execute'),
		sum(command = 'stmt_close') FROM query")" "prepare, execute, close"
	equal 'select ? + ? as prepared' "$(q "SELECT DISTINCT fingerprint FROM query
		WHERE command IN ('prepare', 'execute')")" fingerprint
	equal "20|60" "$(q "SELECT count(*), sum(statements) FROM query WHERE text LIKE '%multi%'")" multi
	equal 80 "$(spans "command = 'query' AND bytes_in BETWEEN 20 AND 25 AND status = 'ok'
		AND conn = (SELECT conn FROM query WHERE text LIKE '%piped%' LIMIT 1)")" pipelined
	equal "2|1" "$(q "SELECT count(*), min(bytes_in) > 17 << 20 FROM query
		WHERE text LIKE 'SELECT LENGTH%'")" "big requests"
	equal 1 "$(spans "text LIKE '%long_answer%' AND bytes_out > 17 << 20 AND status = 'ok'")" \
		"a big answer"
	equal 0 "$(spans "arrival_ns > start_ns OR start_ns > first_ns OR first_ns > last_ns")" \
		"times out of order"
	equal 0 "$(drops)" drops
}

@test "MySQL compressed and over TLS is recognised, once a connection" {
	local way
	mariadb_up
	for way in "--ssl --compress=0" "--compress --skip-ssl"; do
		watch
		for _ in 1 2 3; do
			# shellcheck disable=SC2086
			mariadb --no-defaults -h127.0.0.1 -P"$PORT" -uroot $way \
				-e 'SELECT 1; SELECT 2; SELECT 3' >/dev/null
		done
		sonde_finish
		equal 3 "$(drops encrypted)" "connections said to be encrypted, $way"
		equal 3 "$(drops)" "all drops, $way"
		equal 0 "$(spans 1)" "spans, $way"
	done
}

@test "MySQL: 8 and 200 connections, one after the other and at once" {
	mariadb_up
	watch
	client many "$PORT" 8
	client many "$PORT" 200
	sonde_finish
	equal 4160 "$(spans "text LIKE 'SELECT ''many''%' AND status = 'ok'")" spans
	equal 416 "$(q "SELECT count(DISTINCT conn) FROM query WHERE text LIKE 'SELECT ''many''%'")" \
		connections
	equal 0 "$(drops)" drops
}

@test "MySQL: client or server killed while it answers: aborted, and after it all is well" {
	local c
	mariadb_up
	watch
	client sleep "$PORT" 100 3>&- &
	c=$!
	started $c
	wait_for 30 asleep
	kill -KILL $c
	client multi "$PORT" 5
	# The server notices at its next write, or is told to.
	mariadb --no-defaults --socket="$DIR/sock" -N -e "SELECT id FROM information_schema.processlist
		WHERE info LIKE '%SLEEP(100)%' AND info NOT LIKE '%schema%'" >"$DIR/id"
	[ ! -s "$DIR/id" ] || mariadb --no-defaults --socket="$DIR/sock" -e "KILL $(cat "$DIR/id")"
	client sleep "$PORT" 100 2>/dev/null 3>&- &
	started $!
	wait_for 30 asleep
	kill -KILL "$PID"
	wait_for 30 is_gone "$SONDE_PID" || sonde_finish
	equal 2 "$(spans "text LIKE '%SLEEP(100)%asleep%'")" "queries that were cut off"
	equal 0 "$(spans "text LIKE '%SLEEP(100)%asleep%' AND status = 'ok'")" "of them answered"
	equal 5 "$(spans "text LIKE '%multi%' AND status = 'ok'")" "queries after the client died"
	rm -f "$DIR/sock"
	mariadb_up
	watch
	client multi "$PORT" 5
	sonde_finish
	equal 5 "$(spans "text LIKE '%multi%' AND status = 'ok'")" "queries after the restart"
}

nginx_up() {
	command -v nginx >/dev/null || skip "nginx is not installed"
	PORT=$(searchd_pick_port)
	mkdir -p "$DIR/www" "$DIR/tmp"
	echo small >"$DIR/www/small"
	head -c 300000 /dev/zero >"$DIR/www/big"
	cat >"$DIR/nginx.conf" <<-EOF
		daemon off; master_process off; pid $DIR/nginx.pid; error_log $DIR/log; user root;
		events {}
		http {
			access_log off; sendfile on; keepalive_requests 100000;
			client_body_temp_path $DIR/tmp;
			server {
				listen 127.0.0.1:$PORT; root $DIR/www;
				location /sql { return 200 "answer"; }
			}
		}
	EOF
	nginx -c "$DIR/nginx.conf" >"$DIR/daemon.log" 2>&1 </dev/null 3>&- &
	PID=$!
	started "$PID"
	wait_for 30 curl -sf -o "$DIR/x" "http://127.0.0.1:$PORT/small"
}

@test "HTTP of nginx: keep-alive, files by sendfile, HEAD, errors, a form with SQL" {
	nginx_up
	watch
	client web "$PORT" 100 >"$DIR/times"
	sonde_finish
	equal 500 "$(spans 1)" spans
	equal "1|http" "$(q "SELECT count(DISTINCT conn), proto FROM query")" "connections, protocol"
	equal "100|100|100" "$(q "SELECT sum(fingerprint = 'GET /small'), sum(fingerprint = 'GET /big'),
		sum(fingerprint = 'HEAD /big') FROM query WHERE status = 'ok'")" "by form"
	equal "GET /none/?|100|404" "$(q "SELECT fingerprint, count(*), error FROM query
		WHERE status = 'error'")" errors
	equal "post|POST /sql select ? from rt|rt|100" "$(q "SELECT command, fingerprint, index_name,
		count(*) FROM query WHERE fingerprint LIKE '% /sql %'")" "the form with SQL"
	equal 1 "$(q "SELECT min(bytes_out) > 300000 AND max(bytes_out) < 301000 FROM query
		WHERE fingerprint = 'GET /big'")" "bytes of the big file"
	equal 0 "$(spans "arrival_ns > start_ns OR start_ns > first_ns OR first_ns > last_ns")" \
		"times out of order"
	# One connection: the requests are in the client's order.
	awk '{print NR "\t" $3}' "$DIR/times" >"$DIR/times.tsv"
	# The kernel tells of a send after its bytes are on their way: a server that is interrupted
	# then ends after its client.
	equal 1 "$(sqlite3 "$DIR/x.db" '.mode tabs' 'CREATE TABLE t (n INTEGER, ns INTEGER)' \
		".import $DIR/times.tsv t" "ATTACH 'file:$R?mode=ro' AS rec" \
		"SELECT count(*) >= 495 FROM rec.query q JOIN t ON t.n = q.seq
		AND q.duration_ns <= t.ns")" \
		"within the client's time"
	equal 0 "$(drops)" drops
}

@test "HTTP where only system calls are watched, which do not show sendfile: the same queries" {
	nginx_up
	export SONDE_FORCE_SYSCALLS=1
	watch
	client web "$PORT" 20 >"$DIR/times"
	sonde_finish
	equal "100|20|20" "$(q "SELECT count(*), sum(fingerprint = 'GET /big'), sum(error = 404)
		FROM query WHERE status IN ('ok', 'error')")" "spans, of big files, errors"
	equal 0 "$(drops)" drops
}

@test "HTTP in chunks, both ways, of node" {
	command -v node >/dev/null || skip "node is not installed"
	node "$e2e_root/tests/e2e/chunked.js" >"$DIR/port" 3>&- &
	PID=$!
	started "$PID"
	wait_for 30 test -s "$DIR/port"
	PORT=$(cat "$DIR/port")
	watch
	client chunked "$PORT" 50
	sonde_finish
	equal "50|50|0" "$(q "SELECT sum(fingerprint LIKE 'POST /json/search {%' AND index_name = 'docs' AND
		bytes_out > 30000), sum(fingerprint = 'DELETE /item/?'), sum(status <> 'ok') FROM query")" \
		"searches, deletions, not ok"
	equal "POST /json/search {\"index\":\"docs\",\"n\":7}" "$(q "SELECT text FROM query
		WHERE text LIKE '%:7}'")" text
	equal 0 "$(drops)" drops
}

@test "HTTP on a connection that was open before" {
	local c
	nginx_up
	mkfifo "$DIR/gate"
	client early "$PORT" 25 >"$DIR/early" <"$DIR/gate" 3>&- &
	c=$!
	started $c
	exec 7>"$DIR/gate"
	wait_for 30 test -s "$DIR/early"
	watch
	echo go >&7
	exec 7>&-
	wait $c
	sonde_finish
	equal "25|1" "$(q "SELECT count(*), count(DISTINCT conn) FROM query
		WHERE fingerprint = 'GET /small' AND status = 'ok'")" "queries, connections"
}

# A daemon with a distributed index, whose parts another one has: what it asks there is not its queries.
dist_up() {
	mkdir "$DIR/dist"
	SQL=$(searchd_pick_port)
	cat >"$DIR/dist/conf" <<-EOF
		index dist
		{
		  type = distributed
		  agent = 127.0.0.1:${SEARCHD_API##*:}:rt
		}
		searchd
		{
		  listen = 127.0.0.1:$SQL:mysql41
		  log = $DIR/dist/log
		  pid_file = $DIR/dist/pid
		  binlog_path =
		  workers = threads
		}
	EOF
	searchd --config "$DIR/dist/conf" --nodetach >"$DIR/dist/out" 2>&1 </dev/null 3>&- &
	PID=$!
	started "$PID"
	wait_for 30 mariadb --no-defaults --skip-ssl -h127.0.0.1 -P"$SQL" -e 'SHOW TABLES'
}

@test "what a searchd asks its agents is not counted as its queries" {
	command -v searchd >/dev/null || skip "searchd is not installed"
	searchd_up
	dist_up
	mariadb --no-defaults --skip-ssl -h127.0.0.1 -P"${SEARCHD_SQL##*:}" \
		-e "INSERT INTO rt (id, title, body, gid) VALUES (1, 'one', 'one', 4711)"
	watch
	for i in 1 2 3 4 5; do
		mariadb --no-defaults --skip-ssl -N -h127.0.0.1 -P"$SQL" \
			-e "SELECT gid FROM dist WHERE MATCH('one')"
	done >"$DIR/answers"
	sonde_finish
	searchd_down
	equal 5 "$(grep -c 4711 "$DIR/answers")" "answers that came from the agent"
	equal 5 "$(spans "fingerprint = 'select gid from dist where match(?)' AND status = 'ok'")" spans
	equal 0 "$(spans "proto <> 'mysql'")" "spans of its own connections"
	equal 0 "$(drops)" drops
}
