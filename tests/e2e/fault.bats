#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Page faults of a real searchd, whole and by query: the two views must agree.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { searchd_up; }
teardown_file() { searchd_down; }
teardown() { end_started; }

# Last value of a counter, over all its series.
total() { # FILE METRIC
	recording_sql "$1" "SELECT coalesce(sum(value), 0) FROM (SELECT v.value, max(v.ts_ns)
		FROM rec.value v JOIN rec.series s ON s.id = v.series WHERE s.name = '$2'
		GROUP BY s.id)"
}

is_true() { # FILE SQL-CONDITION WHAT
	equal 1 "$(recording_sql "$1" "SELECT $2")" "$3"
}

@test "faults inside queries are part of all faults, and of each query's time" {
	local f=$BATS_TEST_TMPDIR/faults.sonde count time
	load_begin --sphinxql "$SEARCHD_SQL" --connections 4 --queries 2000 --mix heavy --seed 3
	record_begin "$f" --lens query,fault --fault-mode full # the queries' shares are no estimates then
	load_go
	load_finish
	sonde_finish
	count=$(total "$f" fault.count)
	time=$(total "$f" fault.time)
	is_true "$f" "sum(faults) > 0 FROM rec.span" "queries take faults"
	is_true "$f" "sum(faults) <= $count FROM rec.span" "faults in queries <= $count in all"
	is_true "$f" "sum(fault_ns) <= $time FROM rec.span" "their time <= $time ns in all"
	is_true "$f" "count(*) = 0 FROM rec.span WHERE fault_ns > last_ns - start_ns" \
		"no query faults for longer than it takes"
	is_true "$f" "count(*) = 0 FROM rec.span WHERE (faults = 0) <> (fault_ns = 0)" \
		"faults take time"
	equal "" "$(recording_sql "$f" "SELECT cause, count FROM rec.drop_total
		WHERE lens = 'fault' AND count > 0")" "faults dropped"
}

@test "the fault lens counts what the kernel counts for searchd" {
	local f=$BATS_TEST_TMPDIR/kernel.sonde
	load_begin --sphinxql "$SEARCHD_SQL" --connections 4 --queries 2000 --mix heavy --seed 4
	record_begin "$f" --lens fault
	load_go
	load_finish
	sonde_finish
	# minflt and faults are not read at the same instant: 0.5 % and a few.
	is_true "$f" "abs($(total "$f" fault.count) - $(total "$f" proc.minflt) -
		$(total "$f" proc.majflt)) <= 20 + $(total "$f" proc.minflt) / 200" \
		"$(total "$f" fault.count) faults, minflt $(total "$f" proc.minflt)"
}
