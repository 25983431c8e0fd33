#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Exact allocation of a real searchd: what its queries ask for, added up, is what the process asks for.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up docs=20000; }

teardown_file() { searchd_down; }

teardown() { end_started; }

@test "queries carry what their threads asked for: nearly all that searchd asked for, never more" {
	local rec=$BATS_TEST_TMPDIR/a.sonde total spans
	record_begin "$rec" --lens query,alloc --alloc-mode exact --yes
	load_begin --sphinxql "$SEARCHD_SQL" --connections 3 --queries 150
	load_go
	load_finish
	sonde_finish
	equal 150 "$(recording_sql "$rec" "SELECT count(*) FROM rec.span WHERE alloc_calls > 0
		AND alloc_bytes > 0")" "queries that allocate"
	# The last value of each function that gives memory.
	for what in calls:alloc_calls requested:alloc_bytes; do
		total=$(recording_sql "$rec" "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v
			FROM rec.value JOIN rec.series s ON s.id = series WHERE s.name = 'alloc.${what%:*}'
			AND s.label NOT LIKE '%delete%' AND s.label <> 'free' GROUP BY s.id)")
		spans=$(recording_sql "$rec" "SELECT sum(${what#*:}) FROM rec.span")
		echo "alloc.${what%:*}: queries $spans, process $total"
		[ "$spans" -le "$total" ]
		[ $((spans * 100)) -ge $((total * 90)) ]
	done
	equal 0 "$(recording_sql "$rec" "SELECT count(*) FROM rec.drops d WHERE d.count > 0
		AND d.lens = 3")" "causes of drops"
}

@test "searchd lives on, with no probe left in it" {
	wait_for 10 has_no_probes
	searchd_is_well
}
