#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Counters mode on real daemons that run on jemalloc: searchd preloaded with it, and redis, which is built
# with it and says itself what it has allocated.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up preload=libjemalloc.so.2; }

teardown_file() { searchd_down; }

teardown() { end_started; }

metric() { # FILE NAME: its last value
	recording_sql "$1" "SELECT CAST(value AS INTEGER) FROM rec.metric WHERE name = '$2'
		AND value IS NOT NULL ORDER BY ts_ns DESC LIMIT 1"
}

@test "searchd on jemalloc: every query has its bytes, and their sum is part of the whole" {
	local f=$BATS_TEST_TMPDIR/s.sonde before after
	before=$(text_hashes)
	load_begin --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 8 --queries 10000 \
		--mix light --seed 3
	record_begin "$f" --lens query,alloc
	load_go
	load_finish
	sonde_finish
	after=$(text_hashes)
	equal "$before" "$after" "searchd's code bytes"
	equal 10000 "$(load_field ok)" "queries answered"
	equal 10000 "$(recording_sql "$f" "SELECT count(*) FROM rec.query
		WHERE command IN ('query', 'search') AND heap_allocated > 0 AND heap_freed > 0")" \
		"queries with their bytes"
	equal 1 "$(recording_sql "$f" "SELECT sum(heap_allocated) > 0 AND sum(heap_allocated) <=
		(SELECT max(value) FROM rec.metric WHERE name = 'alloc.handed_out') FROM rec.span")" \
		"sum of the queries' bytes against all"
	equal 0 "$(recording_sql "$f" "SELECT CAST(max(value) AS INTEGER) FROM rec.metric
		WHERE name = 'alloc.ends_lost'")" "threads that ended unread"
	searchd_is_well
}

redis_says() { redis-cli -p "$REDIS_PORT" info memory | tr -d '\r' | sed -n "s/^$1://p"; }

redis_up() {
	REDIS_PORT=$(searchd_pick_port)
	redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --appendonly no \
		--enable-debug-command yes --dir "$BATS_TEST_TMPDIR" \
		>"$BATS_TEST_TMPDIR/redis.log" 2>&1 3>&- &
	REDIS_PID=$!
	started "$REDIS_PID"
	wait_for 20 redis-cli -p "$REDIS_PORT" ping
}

# What redis reads is stats.allocated, which holds threads' caches and jemalloc's own: some hundred KB.
@test "redis: what is live and what a load adds agree with what redis says" {
	local f=$BATS_TEST_TMPDIR/r.sonde theirs ours
	command -v redis-server >/dev/null || skip redis-server
	redis_up
	redis-cli -p "$REDIS_PORT" debug populate 400000 key 200 >/dev/null
	TARGET_PID=$REDIS_PID record_begin "$f" --lens alloc
	redis-cli -p "$REDIS_PORT" debug populate 600000 key 200 >/dev/null
	redis-cli -p "$REDIS_PORT" get key:1 >/dev/null
	theirs=$(redis_says allocator_allocated)
	sleep 0.5 # a reading or two at rest
	sonde_finish
	ours=$(metric "$f" alloc.allocated)
	echo "# redis says $theirs, sonde $ours" >&3
	[ "$theirs" -gt $((100 << 20)) ]
	[ $((theirs - ours)) -ge 0 ] && [ $((theirs - ours)) -le $((theirs / 200)) ]
	[ "$(metric "$f" alloc.handed_out)" -gt $((30 << 20)) ]
	equal PONG "$(redis-cli -p "$REDIS_PORT" ping)" "redis afterwards"
}
