#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The Chrome trace: checked by a program that shares no code with the writer, held against SQL on the
# recording, and opened in the viewers it is for, in a headless Chromium.

bats_require_minimum_version 1.5.0
load helpers

MKTRACE=$searchd_build/bench/mktrace
VIEWERS=$e2e_root/tests/viewers

setup_file() {
	searchd_up || return 1
	export MADE=$BATS_FILE_TMPDIR/made.sonde
	"$MKTRACE" "$MADE" 1000 || return 1
	"$SONDE" export "$MADE" --to chrome -o "$BATS_FILE_TMPDIR/made.json" || return 1
}

teardown_file() { searchd_down; }

teardown() { end_started; }

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

need_viewers() {
	need node
	need chromium
	export NODE_PATH=$searchd_build/npm/node_modules
	[ -d "$NODE_PATH/playwright-core" ] || skip "playwright-core is not installed"
	[ -d "$NODE_PATH/speedscope" ] || skip "speedscope is not installed"
}

check_trace() { # FILE: the checker's findings in $trace
	need node
	trace=$(node "$VIEWERS/trace-check.mjs" "$1") || return 1
}

view() { # FILE
	node "$VIEWERS/trace-view.mjs" "$1" "$BATS_TEST_TMPDIR" speedscope panel
}

of_trace() { jq -r "$1" <<<"$trace"; } # FILTER

sql() { sqlite3 -readonly "$@"; } # FILE SQL

# Count and sum of every kind of slice, by SQL on the recording and in the trace.
agrees_with_sql() { # RECORDING
	local part parts
	equal "$(sql "$1" "SELECT count(*) FROM span")" "$(of_trace .counts.query)" "slices of queries"
	equal "$(sql "$1" "SELECT sum(duration_ns) FROM query")" "$(of_trace .sums.query)" "their sum"
	parts=$(sql "$1" "SELECT name FROM enum WHERE kind = 'part'")
	[ -n "$parts" ]
	for part in $parts; do
		equal "$(sql "$1" "SELECT coalesce(sum(${part}_ns), 0) FROM anatomy")" \
			"$(of_trace ".parts.\"share: $part\" // 0")" "the sum of $part"
	done
}

@test "slices nest, times are in order, text is valid; count and sum of each kind equal SQL" {
	check_trace "$BATS_FILE_TMPDIR/made.json"
	agrees_with_sql "$MADE"
	equal "$(sql "$MADE" "SELECT sum(wait_ns) FROM query WHERE wait_ns > 0")" \
		"$(of_trace .parts.wait)" "wait"
	equal "$(sql "$MADE" "SELECT sum(send_ns) FROM query WHERE last_ns")" "$(of_trace .parts.send)" "send"
	equal "$(sql "$MADE" "SELECT count(*) FROM query WHERE last_ns IS NULL")" \
		"$(of_trace .other.queries_without_end)" "queries without end"
}

@test "a lane a connection, the next ones for pipelined queries; process and counters by name" {
	check_trace "$BATS_FILE_TMPDIR/made.json"
	equal 7 "$(sql "$MADE" "SELECT count(DISTINCT conn) FROM span")" "connections recorded"
	equal 7 "$(of_trace .other.connections)" connections
	equal 7 "$(of_trace '[.names[] | select(endswith("pipelined 1"))] | length')" "second lanes"
	equal searchd "$(of_trace .processes[0])" process
	equal 50 "$(of_trace '.counters["RSS (bytes)"]')" "values of RSS"
	equal 49 "$(of_trace '.counters["handed out by the allocator (bytes per second)"]')" rates
	equal "$(jq -s 'map(select(.name | startswith("in flight"))) | map(.args.queries) | min' \
		<(jq -c '.traceEvents[]' "$BATS_FILE_TMPDIR/made.json"))" 0 "in flight, at the least"
}

@test "notes and what was not seen are instants, and their total is in otherData" {
	check_trace "$BATS_FILE_TMPDIR/made.json"
	local notes drops
	notes=$(sql "$MADE" "SELECT count(*) FROM note")
	drops=$(sql "$MADE" "SELECT count(*) FROM drops WHERE count > 0")
	[ "$notes" -gt 0 ] && [ "$drops" -gt 0 ]
	equal $((notes + drops)) "$(of_trace .instants)" instants
	equal "$(sql "$MADE" "SELECT max(count) FROM drops")" \
		"$(of_trace '.other.not_seen["query no_entry"]')" "not seen"
}

@test "csv and JSON lines have the same parts and counts of faults" {
	local part sum=0
	"$SONDE" export "$MADE" --to csv -o "$BATS_TEST_TMPDIR/made.csv"
	"$SONDE" export "$MADE" --to jsonl -o "$BATS_TEST_TMPDIR/made.jsonl"
	for part in user_ns off_io_ns unattributed_ns queued_ns fault_base_count fault_other_count; do
		sum=$(sql "$MADE" "SELECT sum($part) FROM anatomy")
		[ "$sum" -gt 0 ]
		equal "$sum" "$(sqlite3 :memory: ".import --csv $BATS_TEST_TMPDIR/made.csv csv" \
			"SELECT sum(CAST($part AS INTEGER)) FROM csv")" "$part in csv"
		equal "$sum" "$(jq -s "map(.$part // 0) | add" "$BATS_TEST_TMPDIR/made.jsonl")" \
			"$part in JSON lines"
	done
	equal "$(sql "$MADE" "SELECT count(*) FROM anatomy")" \
		"$(jq -s 'map(select(has("user_ns"))) | length' "$BATS_TEST_TMPDIR/made.jsonl")" anatomies
}

@test "an event has a bounded size, however long a request's text is" {
	check_trace "$BATS_FILE_TMPDIR/made.json"
	[ "$(of_trace .longest)" -lt 10000 ]
}

@test "ts 0 is a whole UTC second, and times count from there" {
	local base
	base=$(jq -r .otherData.ts_0_utc_ns "$BATS_FILE_TMPDIR/made.json")
	equal 000000000 "${base: -9}" "ns of the base"
	equal "$(sql "$MADE" "SELECT min(coalesce(arrival_ns, start_ns)) - $base FROM span")" \
		"$(jq '[.traceEvents[] | select(.cat == "query") | .ts * 1000 | round] | min' \
			"$BATS_FILE_TMPDIR/made.json")" \
		"the first query's time"
}

@test "--slowest and --since choose the queries" {
	"$SONDE" export "$MADE" --to chrome --slowest 9 -o "$BATS_TEST_TMPDIR/slow.json"
	check_trace "$BATS_TEST_TMPDIR/slow.json"
	equal 9 "$(of_trace .counts.query)" queries
	equal "$(sql "$MADE" "SELECT sum(duration_ns) FROM (SELECT duration_ns FROM query
		ORDER BY duration_ns DESC LIMIT 9)")" "$(of_trace .sums.query)" "their sum"
	"$SONDE" export "$MADE" --to chrome --since 2026-11-30T17:28:40Z -o "$BATS_TEST_TMPDIR/since.json"
	check_trace "$BATS_TEST_TMPDIR/since.json"
	equal "$(sql "$MADE" "SELECT count(*) FROM span WHERE
		coalesce(last_ns, first_ns) >= unixepoch('2026-11-30T17:28:40Z') * 1000000000")" \
		"$(of_trace .counts.query)" "queries since then"
}

@test "100,000 queries take 32 MiB to sort, not the memory that holds them all" {
	"$MKTRACE" "$BATS_TEST_TMPDIR/many.sonde" 100000
	/usr/bin/time -f %M -o "$BATS_TEST_TMPDIR/kib" \
		"$SONDE" export "$BATS_TEST_TMPDIR/many.sonde" --to chrome -o "$BATS_TEST_TMPDIR/many.json"
	[ "$(stat -c %s "$BATS_TEST_TMPDIR/many.json")" -gt $((150 << 20)) ]
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/kib")" -lt $((100 << 10)) ]
	check_trace "$BATS_TEST_TMPDIR/many.json"
	agrees_with_sql "$BATS_TEST_TMPDIR/many.sonde"
}

@test "the browser's performance panel and speedscope open it, and count what SQL counts" {
	need_viewers
	local seen
	seen=$(view "$BATS_FILE_TMPDIR/made.json")
	check_trace "$BATS_FILE_TMPDIR/made.json"
	trace_lanes=$(of_trace .lanes)
	equal "$trace_lanes" "$(jq .speedscope.profiles <<<"$seen")" "profiles in speedscope"
	equal '[]' "$(jq -c .speedscope.said <<<"$seen")" "complaints of speedscope"
	equal "$trace_lanes" "$(jq .panel.threads <<<"$seen")" "tracks in the panel"
	equal 1000 "$(jq .panel.queries <<<"$seen")" "queries in the panel"
	equal "$(sql "$MADE" "SELECT sum(duration_ns) FROM query")" \
		"$(jq .panel.sum <<<"$seen")" "their sum"
	equal '[]' "$(jq -c .panel.said <<<"$seen")" "complaints of the panel"
	[ -s "$BATS_TEST_TMPDIR/speedscope.png" ] && [ -s "$BATS_TEST_TMPDIR/panel.png" ]
}

@test "--series: the figures alone; refused where a format has none" {
	"$SONDE" export "$MADE" --to chrome --series -o "$BATS_TEST_TMPDIR/series.json"
	check_trace "$BATS_TEST_TMPDIR/series.json"
	equal null "$(of_trace .counts.query)" queries
	equal 50 "$(of_trace '.counters["RSS (bytes)"]')" "values of RSS"
	run -2 --separate-stderr "$SONDE" export "$MADE" --to folded --series
	[[ $stderr == *"folded has none"* ]]
}

@test "without arguments, as the docs say, like queries have one name" {
	jq -c '.traceEvents |= map(if .ph == "X" then del(.args) else . end)' \
		"$BATS_FILE_TMPDIR/made.json" >"$BATS_TEST_TMPDIR/merged.json"
	check_trace "$BATS_TEST_TMPDIR/merged.json"
	equal 1000 "$(of_trace .counts.query)" queries
	equal 0 "$(jq '[.traceEvents[] | select(.ph == "X" and has("args"))] | length' \
		"$BATS_TEST_TMPDIR/merged.json")" "slices with arguments"
}

@test "a recording of the real searchd: as many lanes as connections, in every viewer" {
	local f=$BATS_TEST_TMPDIR/real.sonde seen
	load_begin --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 8 --queries 2000 \
		--mix mixed --seed 3
	record_begin "$f"
	load_go
	load_finish
	sonde_finish
	"$SONDE" export "$f" --to chrome -o "$BATS_TEST_TMPDIR/real.json"
	check_trace "$BATS_TEST_TMPDIR/real.json"
	agrees_with_sql "$f"
	equal "$(sql "$f" "SELECT count(DISTINCT conn) FROM span")" \
		"$(of_trace .other.connections)" connections
	[ "$(of_trace '.counters["RSS (bytes)"]')" -gt 0 ]
	[ "$(of_trace '.counts["share not order"]')" -gt 2000 ]
	need_viewers
	seen=$(view "$BATS_TEST_TMPDIR/real.json")
	[ -z "${KEEP_PICTURES:-}" ] || cp "$BATS_TEST_TMPDIR"/*.{png,json} "$KEEP_PICTURES/"
	equal "$(of_trace .lanes)" "$(jq .speedscope.profiles <<<"$seen")" "profiles in speedscope"
	equal '[]' "$(jq -c .speedscope.said <<<"$seen")" "complaints of speedscope"
	equal "$(of_trace .counts.query)" "$(jq .panel.queries <<<"$seen")" "queries in the panel"
	equal "$(of_trace .sums.query)" "$(jq .panel.sum <<<"$seen")" "their sum"
}
