#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What the report says of queries, against SQL over the same recording, and against causes that were planted
# (tests/harness/anatomywork.c does what a query tells it to).

bats_require_minimum_version 1.5.0

load anatomy_helpers

# "1.06 ms" and the like in ns.
ns() {
	awk '{ f["ns"] = 1; f["us"] = 1e3; f["ms"] = 1e6; f["s"] = 1e9
		printf "%.0f\n", $1 * f[$2] }' <<<"$1"
}

# Three significant digits were printed.
close() { # EXPECTED_NS PRINTED WHAT
	awk -v a="$1" -v b="$(ns "$2")" 'BEGIN { exit !(a > 0 && b / a > 0.994 && b / a < 1.006) }' || {
		echo "$3: expected $1 ns, is $2" >&2
		return 1
	}
}

# 970 plain queries and 30 that do something more as well, on one connection.
planted() { # STEP
	serve
	record --lens query
	ask 1 485 "spin 100"
	ask 1 30 "spin 100; $1"
	ask 1 485 "spin 100"
	finish
	equal 1000 "$(sql 'SELECT count(*) FROM query')" queries
	"$SONDE" report "$R" --tail=3% | tee "$T/tail"
}

# Of the difference, run queue and queue aside (a busy machine's), these parts are at least four fifths.
names() { # REGEX
	awk -v part="$1" '/^  part, a query/ { on = 1; next }
		!on || $9 != "%" || $1 == "runqueue" || $1 == "queued" { next }
		{ all += $8 } $1 ~ part { its += $8 }
		END { print its, "of", all; exit !(its > 0 && its >= 0.8 * all) }' "$T/tail"
}

@test "the tail names a planted sleep" {
	planted "sleep 20000"
	names "^off_sleep$"
}

@test "the tail names a planted wait for a lock" {
	planted "lock 20000"
	names "^off_lock$"
}

@test "the tail names planted work" {
	planted "spin 20000"
	names "^user$"
}

@test "the tail names page faults, and what unmaps them" {
	planted "touch 8000"
	names "^(fault_|sys_m)"
}

@test "the parts that the tail names add up to its difference" {
	planted "sleep 20000"
	# "part slow unit middle unit more unit share %": shares of all rows are the whole.
	awk '/^  part, a query/ { on = 1; next } on && $9 == "%" { sum += $8 }
		END { print sum; exit !(sum > 99.5 && sum < 100.5) }' "$T/tail"
}

@test "where only slow queries were kept there is no tail, and that is said" {
	serve
	record --lens query --spans slowest=10/h
	ask 1 300 "spin 100"
	finish
	run -0 "$SONDE" report "$R" --tail
	[[ "$output" == *"No tail: only the slower queries were kept"* ]]
	run -0 "$SONDE" report "$R" --running=1s
	[[ "$output" == *"No running average: only the slower queries were kept"* ]]
}

@test "tables by command, connection, client, thread and form are SQL's" {
	local by column row n total

	serve
	record --lens query
	ask 3 100 "spin 100"
	ask 1 50 "spin 100; sleep 1000"
	finish
	for by in command:command connection:conn thread:tid status:status fingerprint:fingerprint; do
		column=${by#*:} by=${by%%:*}
		"$SONDE" report "$R" --by "$by" --rows 100 | sed -n '/^ *queries/,$p' | tail -n +2 >"$T/by"
		equal "$(sql "SELECT count(DISTINCT $column) FROM query")" "$(wc -l <"$T/by")" "rows by $by"
		# The row of most time: count, mean and maximum.
		row=$(sql "SELECT count(*) || ' ' || avg(duration_ns) || ' ' || max(duration_ns)
			FROM query GROUP BY $column ORDER BY sum(duration_ns) DESC LIMIT 1")
		read -r n mean most <<<"$row"
		read -r -a words < <(head -n 1 "$T/by")
		equal "$n" "${words[0]//,/}" "queries by $by"
		close "$mean" "${words[1]} ${words[2]}" "mean by $by"
		close "$most" "${words[11]} ${words[12]}" "maximum by $by"
	done
	n=$("$SONDE" report "$R" --by client | tail -n 1)
	[[ "$n" == *127.0.0.1* ]]
	total=$(awk '{ gsub(",", "", $1); print $1 }' <<<"$n")
	equal "$(sql 'SELECT count(*) FROM query')" "$total" "queries by client"
}

@test "the running average is what its formula gives in SQL" {
	local last at

	serve
	record --lens query
	ask 2 150 "spin 300"
	ask 2 150 "spin 100"
	finish
	last=$("$SONDE" report "$R" --running=500ms | tail -n 1)
	# The last row is at the end of what was observed, which the last interval says.
	at=$(sql 'SELECT max(ts_ns) FROM tick')
	expected=$(sql "WITH w AS (SELECT duration_ns AS x, pow(2.0, (last_ns - $at) / 500e6) AS w
		FROM query WHERE last_ns <= $at) SELECT sum(x * w) / sum(w) FROM w")
	read -r -a words <<<"$last"
	close "$expected" "${words[-2]} ${words[-1]}" "running average"
}

@test "queries in flight: the traces' average, and Little's law by the kernel's counts" {
	local line

	serve
	record --lens query
	ask 4 100 "sleep 5000"
	finish
	line=$("$SONDE" report "$R" | grep '^In flight')
	echo "$line"
	read -r -a words <<<"${line//,/}"
	[ "${words[5]}" -ge 2 ] && [ "${words[5]}" -le 4 ]
	# L of the traces against SQL: the sum of all time over the time observed.
	sql "SELECT sum(duration_ns) * 1.0 / ((SELECT max(ts_ns) FROM tick) - min(start_ns))
		FROM query" >"$T/upper" # of a shorter time, so never less
	awk -v l="${words[2]}" -v upper="$(cat "$T/upper")" 'BEGIN { exit !(l > 0 && l <= upper * 1.01) }'
	[[ "$line" =~ ([0-9.]+)\ %\ apart ]]
	awk -v d="${BASH_REMATCH[1]}" 'BEGIN { exit !(d <= 2) }'
}

# Stored are the ten slowest; the table by form counts every query, and the lost ones are said.
@test "by form: every query that came, whatever traces are kept, and of all" {
	serve
	record --lens query --spans slowest=10/h
	ask 2 150 "spin 300"
	ask 2 150 "spin 100"
	finish
	"$SONDE" report "$R" | tee "$T/report"
	grep -q '^By form: 600 of 600 answered queries$' "$T/report"
	grep -A 2 '^By form' "$T/report" | tail -n 1 | grep -q '^ *600 .* 100.0 %  *spin ?'
}
