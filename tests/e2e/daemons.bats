#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Real daemons under exact mode, one of each allocator at least: attached under a light load, read, let
# go, attached again and sonde killed. Every answer is what it was before, live bytes are known, and the
# daemon's code is byte by byte what its files say.

bats_require_minimum_version 1.5.0
load helpers

lib=/usr/lib/x86_64-linux-gnu

setup() {
	DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-XXXXXX")
	chmod 755 "$DIR"
}

teardown() {
	end_started
	[ ! -e "$DIR/searchd.pid" ] || searchd_stop "$DIR"
	rm -rf "$DIR"
}

needs() { # PROGRAM
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

answers_port() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

daemon_begin() { # COMMAND...: PID; answers on $PORT
	"$@" >"$DIR/daemon.log" 2>&1 </dev/null 3>&- &
	PID=$!
	started "$PID"
}

# ---- loads: the same questions each time, every answer on stdout ----

ask_redis() { # N
	local i
	for ((i = 0; i < $1; i++)); do
		printf 'SET k%d %0*d\nGET k%d\nAPPEND k%d xyz\nHSET h%d a %d b %d\nHGETALL h%d\n' $i \
			$((i * 13 % 4000 + 1)) $i $i $i $i $i $i $i
	done | redis-cli -h 127.0.0.1 -p "$PORT"
	for ((i = 0; i < $1; i += 2)); do printf 'DEL k%d h%d\n' $i $i; done |
		redis-cli -h 127.0.0.1 -p "$PORT"
}

ask_memcached() { # N, in the text protocol that yrmcdsd speaks too
	local i n value
	exec 6<>"/dev/tcp/127.0.0.1/$PORT"
	for ((i = 0; i < $1; i++)); do
		n=$((i * 13 % 4000 + 1))
		printf -v value '%0*d' $n $i
		printf 'set k%d 0 0 %d\r\n%s\r\nget k%d\r\n' $i $n "$value" $i >&6
	done
	printf 'get none\r\nquit\r\n' >&6
	cat <&6
	exec 6>&-
}

ask_mariadb() { # N
	local i
	{
		echo 'CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v TEXT) ENGINE=Aria;'
		for ((i = 0; i < $1; i++)); do
			echo "INSERT INTO t VALUES ($i, REPEAT('v', $((i * 13 % 4000))));"
			echo "SELECT id, LENGTH(v), MD5(v) FROM t WHERE id <= $i ORDER BY id DESC LIMIT 3;"
		done
	} | mariadb --no-defaults --socket="$DIR/sock" -N test
}

ask_searchd() { # N
	"$LOAD" --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 2 --queries "$1" |
		jq -c '[.queries, .errors]'
}

# ---- what is true of each ----

metric() { # NAME
	tail -n 1 "$BATS_TEST_TMPDIR/sonde.out" | jq --arg n "$1" \
		'[.metrics[] | select(.name == $n) | .value] | add'
}

attach() {
	rm -f "$BATS_TEST_TMPDIR/sonde.out"
	sonde_begin stat -p "$PID" -i 100ms -d 120s --lens alloc,rss --alloc-mode exact --yes --json
	wait_for 60 stat_or_end
	kill -0 "$SONDE_PID" || { cat "$BATS_TEST_TMPDIR/sonde.err" >&2; return 1; }
	has_probes "$PID"
}

# The daemon's answers are those of before it was observed.
asks_the_same() { # LOAD N
	"$1" "$2" >"$DIR/now"
	cmp "$DIR/before" "$DIR/now"
}

check() { # ALLOCATOR LOAD N
	local calls
	"$2" "$3" >/dev/null # it has its tables and threads
	"$2" "$3" >"$DIR/before"
	[ -s "$DIR/before" ]
	has_no_probes "$PID"

	attach
	asks_the_same "$2" "$3"
	sonde_finish
	tail -n 1 "$BATS_TEST_TMPDIR/sonde.out" | jq -e --arg a "$1" \
		'.meta | to_entries | map(select(.key | endswith(".allocator"))) | .[0].value |
		startswith($a)'
	calls=$(metric alloc.calls)
	echo "$calls calls, live $(metric alloc.live) bytes" \
		"of $(metric alloc.handed_out) handed out and $(metric alloc.given_back) given back"
	[ "$calls" -ge "${at_least:-$3}" ]
	[ "$(metric alloc.handed_out)" -gt 0 ]
	[ "$(metric alloc.live)" = $(($(metric alloc.handed_out) - $(metric alloc.given_back))) ]
	wait_for 10 has_no_probes "$PID"
	asks_the_same "$2" "$3"

	attach
	"$2" "$3" >"$DIR/now" &
	kill -KILL "$SONDE_PID"
	wait $!
	cmp "$DIR/before" "$DIR/now"
	wait_for 10 has_no_probes "$PID"
	asks_the_same "$2" "$3"
	kill -0 "$PID"
}

searchd_with() { # LIBRARY ALLOCATOR
	needs searchd
	[ -e "$lib/$1" ] || skip "$1 is not installed"
	searchd_start "$DIR" docs=20000 preload="$lib/$1"
	PID=$SEARCHD_PID
	check "$2" ask_searchd 60
}

@test "searchd with jemalloc preloaded" {
	searchd_with libjemalloc.so.2 jemalloc
}

@test "searchd with gperftools preloaded" {
	searchd_with libtcmalloc_minimal.so.4 tcmalloc
}

@test "redis-server, which is linked with jemalloc" {
	needs redis-server
	PORT=$(searchd_pick_port)
	daemon_begin redis-server --bind 127.0.0.1 --port "$PORT" --save '' --appendonly no --dir "$DIR"
	wait_for 20 answers_port "$PORT"
	check jemalloc ask_redis 300
}

@test "yrmcdsd, which is linked with gperftools" {
	needs yrmcdsd
	PORT=$(searchd_pick_port)
	cat >"$DIR/conf" <<-CONF
		port = $PORT
		repl_port = $(searchd_pick_port)
		virtual_ip = 127.0.0.1
		temp_dir = "$DIR"
		log.file = "$DIR/log"
		buckets = 1000
	CONF
	daemon_begin yrmcdsd -f "$DIR/conf"
	wait_for 20 answers_port "$PORT"
	check tcmalloc ask_memcached 300
}

@test "memcached, which is linked with the system's allocator" {
	needs memcached
	PORT=$(searchd_pick_port)
	daemon_begin memcached -l 127.0.0.1 -p "$PORT" -U 0 -u root -m 16
	wait_for 20 answers_port "$PORT"
	# It has a pool of its own: what it asks malloc for is little.
	at_least=1
	check glibc ask_memcached 300
}

@test "mariadbd, which is linked with the system's allocator" {
	needs mariadbd
	mkdir "$DIR/data" "$DIR/data/test"
	daemon_begin mariadbd --no-defaults --user=root --datadir="$DIR/data" --socket="$DIR/sock" \
		--skip-networking --skip-grant-tables --skip-innodb --default-storage-engine=Aria \
		--pid-file="$DIR/pid" --aria-log-dir-path="$DIR/data"
	wait_for 30 mariadb --no-defaults --socket="$DIR/sock" -e 'SELECT 1'
	check glibc ask_mariadb 100
}
