#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Call sites from the recording to the tools that read them: the growth view names three leaking sites
# among two hundred, in order; what is exported adds up to what the recording holds; a real searchd's
# stacks are whole.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	export REC=$BATS_FILE_TMPDIR/leak.sonde
	local fifo=$BATS_FILE_TMPDIR/in pid
	mkfifo "$fifo"
	"$searchd_build/harness/leakwork" <"$fifo" >"$BATS_FILE_TMPDIR/out" 3>&- &
	pid=$!
	exec 8>"$fifo"
	wait_for 10 grep -q ^ready "$BATS_FILE_TMPDIR/out"
	"$SONDE" record -p $pid --lens alloc --alloc-mode exact --sites --yes -d 8s -i 100ms -o "$REC" \
		3>&- 8>&-
	echo >&8
	echo >&8
	exec 8>&-
	wait $pid
}

teardown() { end_started; }

rec() { # SQL
	sqlite3 -readonly "$REC" "$1"
}

leaves() { # of a table: the innermost functions, in its order
	grep -oE '^    (leak|site)_[a-z0-9]+' | tr -d ' ' | paste -sd' '
}

@test "the growth view names the three leaks, in order, and nothing else" {
	run -0 "$SONDE" report "$REC" --growth
	equal "leak_fast leak_middle leak_slow" "$(leaves <<<"$output")" "growing sites"
	[[ "$output" == *"3 of 203 call sites kept rising"* ]]
}

@test "call sites add up to what the functions counted" {
	equal "$(rec "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v FROM metric
			WHERE name = 'alloc.requested' GROUP BY label)")" \
		"$(rec "SELECT sum(bytes) FROM call_site")" "bytes"
	equal 203 "$(rec "SELECT count(*) FROM call_site WHERE stack_end = 'complete'")" "whole stacks"
	equal 0 "$(rec "SELECT count(*) FROM call_site WHERE stack_end <> 'complete'")" "others"
	run -0 "$SONDE" report "$REC" --sites=2
	equal "leak_fast leak_middle" "$(leaves <<<"$output")" "top"
	[[ "$output" == *"203 different stacks"* && "$output" == *"100 % of the calls"* ]]
}

@test "folded stacks: a line a site, the same bytes" {
	"$SONDE" export "$REC" --to folded >"$BATS_TEST_TMPDIR/folded"
	equal "$(rec "SELECT count(*), sum(bytes) FROM call_site")" \
		"$(awk '{ n++; s += $NF } END { printf "%d|%d\n", n, s }' "$BATS_TEST_TMPDIR/folded")" \
		"sites|bytes"
	equal 203 "$(grep -cE '^_start;.*;main;.*(leak|site)_[a-z0-9]+ [0-9]+$' \
		"$BATS_TEST_TMPDIR/folded")" "from main"
}

@test "go tool pprof reads the profile, and its totals are those of SQL" {
	command -v go >/dev/null || skip "go is not installed"
	"$SONDE" export "$REC" --to pprof -o "$BATS_TEST_TMPDIR/heap.pb"
	local type column
	for type in alloc_space:bytes alloc_objects:calls inuse_space:live_bytes \
		inuse_objects:live_calls; do
		column=${type#*:} type=${type%:*}
		HOME=$BATS_TEST_TMPDIR go tool pprof -raw "$BATS_TEST_TMPDIR/heap.pb" \
			>"$BATS_TEST_TMPDIR/raw" 2>/dev/null
		equal "$(rec "SELECT sum($column) FROM call_site")" "$(pprof_sum $type)" "$type"
	done
	HOME=$BATS_TEST_TMPDIR go tool pprof -top -sample_index=inuse_space -nodecount=1 \
		"$BATS_TEST_TMPDIR/heap.pb" | grep -E 'leak_fast$'
}

# Sum of a column of the samples in pprof's raw listing.
pprof_sum() { # TYPE
	awk -v type="$1" '/^Samples:/ { getline; n = split($0, t, " ")
			for (i = 1; i <= n; i++) if (t[i] ~ "^" type "/") col = i
			on = 1; next }
		/^Locations/ { on = 0 }
		on && /^ *[0-9]/ { split($0, part, ":"); split(part[1], v, " "); sum += v[col] }
		END { printf "%d\n", sum }' "$BATS_TEST_TMPDIR/raw"
}

@test "what cannot be told is refused, with the reason" {
	local plain=$BATS_TEST_TMPDIR/plain.sonde
	run -2 "$SONDE" record -p $$ --sites --alloc-mode counters -d 1s -o "$plain"
	[[ "$output" == *"--alloc-mode exact"* ]]
	run -2 "$SONDE" record -p $$ --sites-sample 8 -d 1s -o "$plain"
	"$SONDE" record -p $$ --lens rss -d 200ms -i 100ms -o "$plain"
	run ! "$SONDE" report "$plain" --growth
	[[ "$output" == *"nothing was counted by call site"*"--sites"* ]]
	run ! "$SONDE" report "$plain" --sites
	run ! "$SONDE" export "$plain" --to pprof
	run ! "$SONDE" export "$plain" --to folded
	[[ "$output" == *"--alloc-mode exact --sites"* ]]
}

@test "a real searchd: every stack whole, bytes as the functions counted" {
	local rec=$BATS_TEST_TMPDIR/s.sonde
	searchd_up docs=20000
	record_begin "$rec" --lens alloc --alloc-mode exact --sites --yes
	load_begin --sphinxql "$SEARCHD_SQL" --connections 3 --queries 300
	load_go
	load_finish
	sonde_finish
	searchd_down
	run -0 "$SONDE" report "$rec" --sites=3
	[[ "$output" == *"100 % of the calls have their whole stack"* ]]
	equal "$(sqlite3 -readonly "$rec" "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v
			FROM metric WHERE name = 'alloc.requested' GROUP BY label, target)")" \
		"$(sqlite3 -readonly "$rec" "SELECT sum(bytes) FROM call_site")" "bytes"
	# Each begins where a thread does.
	equal 0 "$(sqlite3 -readonly "$rec" "SELECT count(*) FROM call_site
		WHERE functions NOT LIKE '%;start_thread;%clone%' AND functions NOT LIKE '%;_start'
		AND functions NOT LIKE '%libc.so%' AND functions NOT LIKE '%searchd+%'")" "odd beginnings"
}

@test "a real searchd: page faults by stack, all counted and nearly all whole" {
	local rec=$BATS_TEST_TMPDIR/f.sonde whole all
	searchd_up docs=20000
	record_begin "$rec" --lens fault --fault-by stack
	load_begin --sphinxql "$SEARCHD_SQL" --connections 3 --queries 300
	load_go
	load_finish
	sonde_finish
	searchd_down
	all=$(sqlite3 -readonly "$rec" "SELECT sum(calls) FROM call_site WHERE lens = 'fault'")
	equal "$(sqlite3 -readonly "$rec" "SELECT CAST(sum(v) AS INTEGER) FROM (SELECT max(value) AS v
			FROM metric WHERE name = 'fault.count' GROUP BY label, target)")" "$all" "faults"
	# Not whole are those in the dynamic linker's resolver, whose rule is an expression, and in [vdso].
	whole=$(sqlite3 -readonly "$rec" "SELECT sum(calls) FROM call_site WHERE lens = 'fault'
		AND stack_end = 'complete'")
	[ "$all" -gt 300 ] && [ "$whole" -ge $((all * 98 / 100)) ]
}
