#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `sonde compare --pair`: recordings of three pairs of servers with known effects (tests/bench/mktrial.c)
# come to known verdicts, word for word; what was not done is not found; what cannot be compared is refused.

bats_require_minimum_version 1.5.0
load helpers

MAKE=$searchd_build/bench/mktrial
CHANGE=2026-11-09T00:00:00Z
FULL=$BATS_FILE_TMPDIR/full
SAME=$BATS_FILE_TMPDIR/same
NOISY=$BATS_FILE_TMPDIR/noisy
QUERIES=$BATS_FILE_TMPDIR/queries
TOTALS=$BATS_FILE_TMPDIR/totals
WRONG=$BATS_FILE_TMPDIR/wrong
ARMS=(--pair off=se03-2/se03 --pair on=se05-2/se05 --control restart=se04-2/se04)

setup_file() {
	mkdir "$FULL" "$SAME" "$NOISY" "$QUERIES" "$TOTALS" "$WRONG"
	local pids=()
	"$MAKE" "$FULL" 7 14 touched 3>&- & pids+=($!)
	"$MAKE" "$SAME" 3 3 same gap 3>&- & pids+=($!)
	"$MAKE" "$NOISY" 2 2 noisy skewed 3>&- & pids+=($!)
	"$MAKE" "$QUERIES" 2 2 queries 3>&- & pids+=($!)
	"$MAKE" "$TOTALS" 2 2 totals 3>&- & pids+=($!)
	"$MAKE" "$WRONG" 2 2 queries late alien 3>&- & pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid" || return 1
	done
}

verdict() { # DIRECTORY ARGUMENTS...
	(cd "$1" && "$SONDE" compare "${ARMS[@]}" "${@:2}" ./*.sonde)
}

refuses() { # EXIT-CODE PART-OF-THE-MESSAGE ARGUMENTS...
	run --separate-stderr "$SONDE" "${@:3}"
	[ "$status" -eq "$1" ] || { echo "exit $status, $1 expected: $stderr" && return 1; }
	[[ $stderr == *"$2"* ]] || { echo "it said: $stderr" && return 1; }
	[ -z "$output" ]
}

# 1 where the row's interval holds the planted change, in percent.
holds() { # METRIC ARM AGAINST PERCENT
	jq -e --arg m "$1" --arg a "$2" --arg b "$3" --argjson x "$4" '.rows[] |
		select(.metric == $m and .arm == $a and .against == $b) |
		.low <= (1 + $x / 100 | log) and (1 + $x / 100 | log) <= .high' \
		"$BATS_TEST_TMPDIR/json" >/dev/null ||
		{ echo "$1 of $2 against $3 is not $4 %" && return 1; }
}

@test "two weeks of three pairs: the whole verdict, word for word" {
	verdict "$FULL" --post $CHANGE.. >"$BATS_TEST_TMPDIR/text"
	diff -u "$e2e_root/tests/golden/verdict.txt" "$BATS_TEST_TMPDIR/text"
}

@test "where every query is kept: by form, by cost, and why, word for word" {
	verdict "$QUERIES" --post $CHANGE.. --why --fingerprints 2 >"$BATS_TEST_TMPDIR/text"
	diff -u "$e2e_root/tests/golden/verdict-why.txt" "$BATS_TEST_TMPDIR/text"
}

# The interval of a part, in points of percent, holds what was planted; the parts are the whole.
part() { # OF ARM PART POINTS
	jq -e --arg of "$1" --arg a "$2" --arg p "$3" --argjson x "$4" '.why.rows[] |
		select(.of == $of and .arm == $a and .against == "restart") |
		(([.parts[].points] | add) - .change_percent | fabs < 1e-6) and
		.parts[$p].low <= $x and $x <= .parts[$p].high' "$BATS_TEST_TMPDIR/json" \
		>/dev/null || { echo "$3 of the $1 of $2 is not $4 points" && return 1; }
}

@test "why: each planted cause is named with its share, and the shares add up" {
	verdict "$QUERIES" --post $CHANGE.. --why --json >"$BATS_TEST_TMPDIR/json"
	part mean on fault_pmd 14
	part mean on sys_madvise 6
	part mean on user 3
	part mean on off_mmap_lock 0
	part slowest on fault_pmd 14
	part mean off fault_base -10.9
	part mean off off_mmap_lock 0.95
	part mean off fault_pmd 0
	[ "$(jq '[.why.rows[].known == 1] | all' "$BATS_TEST_TMPDIR/json")" = true ]
	[ "$(jq -r '[.rows[] | select(.arm == "on" and .against == "restart" and
		(.group // "" | startswith("the heaviest 5 %"))) | .metric] | join(" ")' \
		"$BATS_TEST_TMPDIR/json")" = "mean p50 p95 p99 p99.9" ]
	verdict "$FULL" --post $CHANGE.. --why >"$BATS_TEST_TMPDIR/text"
	grep -q '^Why the mean changed is not known: .*sonde keeps none or not all of its queries' \
		"$BATS_TEST_TMPDIR/text"
}

# What weeks are recorded with: totals of all queries, and of each hour the slowest.
@test "why, and by form: from totals and the slowest of each hour it is the same" {
	verdict "$QUERIES" --post $CHANGE.. --why --json >"$BATS_TEST_TMPDIR/all"
	verdict "$TOTALS" --post $CHANGE.. --why --json >"$BATS_TEST_TMPDIR/json"
	# All but a recording's first interval, whose totals have nothing to be counted from.
	[ "$(jq '[.why.rows[].known > 0.99] | all' "$BATS_TEST_TMPDIR/json")" = true ]
	part mean on fault_pmd 14
	part mean on sys_madvise 6
	part mean off fault_base -10.9
	part slowest on fault_pmd 14
	# A tail is told of as far as it is known whole.
	jq -e '.why.rows[] | select(.of == "slowest") | .share > 0.003 and .share <= 0.01' \
		"$BATS_TEST_TMPDIR/json" >/dev/null
	# Of forms the same queries are counted: the rows are equal to the last digit.
	for file in all json; do
		jq -S '[.rows[] | select(.group)]' "$BATS_TEST_TMPDIR/$file" >"$BATS_TEST_TMPDIR/$file.forms"
	done
	[ "$(jq length "$BATS_TEST_TMPDIR/json.forms")" = 105 ]
	cmp "$BATS_TEST_TMPDIR/all.forms" "$BATS_TEST_TMPDIR/json.forms"
}

@test "what differs besides the treatment is told: hardware, index, load, restart" {
	verdict "$WRONG" --post $CHANGE.. >"$BATS_TEST_TMPDIR/text"
	sed -n '/^Control/,/^Windows/p' "$BATS_TEST_TMPDIR/text" >"$BATS_TEST_TMPDIR/audit"
	diff -u "$e2e_root/tests/golden/verdict-audit.txt" "$BATS_TEST_TMPDIR/audit"
}

@test "a planned look has its share of the 5 %, and its intervals are wider" {
	verdict "$SAME" --post $CHANGE.. --json >"$BATS_TEST_TMPDIR/one"
	verdict "$SAME" --post $CHANGE.. --look 2/4 --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -c '[.look, .looks, .alpha]' "$BATS_TEST_TMPDIR/json")" = "[2,4,0.0125]" ]
	# t at 1 - 0.0125 / 2 against 1 - 0.05 / 2: 1.2 to 1.5 times, by degrees of freedom.
	jq -e --slurpfile one "$BATS_TEST_TMPDIR/one" '[[.rows, $one[0].rows] | transpose[] |
		select(.[0].primary) | (.[0].high - .[0].low) / (.[1].high - .[1].low)] |
		all(. > 1.2 and . < 1.6)' "$BATS_TEST_TMPDIR/json" >/dev/null
	verdict "$SAME" --post $CHANGE.. --look 2/4 >"$BATS_TEST_TMPDIR/text"
	head -1 "$BATS_TEST_TMPDIR/text" | grep -q '98.75 % CI (look 2 of 4)$'
	refuses 2 "is not K/N" compare "${ARMS[@]}" --look 5/4 "$SAME"/*.sonde
	refuses 2 "is not K/N" compare "${ARMS[@]}" --look 2 "$SAME"/*.sonde
}

@test "the trade, and what it is on all hosts" {
	verdict "$FULL" --post $CHANGE.. --hosts 100 --ram-per-host 64G >"$BATS_TEST_TMPDIR/text"
	grep -qx "Trade: off saves 3.05 GiB a server (5.6 % of RSS) and 9.5 % of mean, costs 6.5 % of p95" \
		"$BATS_TEST_TMPDIR/text"
	grep -qx "On 100 hosts: off saves 305 GiB \[258 GiB, 353 GiB\], the memory of 4.8 hosts of 64.0 GiB" \
		"$BATS_TEST_TMPDIR/text"
	verdict "$SAME" --post $CHANGE.. --hosts 100 >"$BATS_TEST_TMPDIR/text"
	grep -q "^On 100 hosts: no memory to count on" "$BATS_TEST_TMPDIR/text"
	refuses 2 "give both" compare "${ARMS[@]}" --ram-per-host 64G "$SAME"/*.sonde
	refuses 2 "belong to a verdict" compare --hosts 3 "$SAME"/se03.sonde "$SAME"/se04.sonde
}

@test "plans of what to do next, a file each, with what speaks for them" {
	plans=$BATS_TEST_TMPDIR/plans
	verdict "$QUERIES" --post $CHANGE.. --why --margin "p95=4%" --next-plans "$plans" \
		>"$BATS_TEST_TMPDIR/text"
	[ "$(cd "$plans" && echo *)" = \
		"background_thread.toml dirty_decay_ms.toml max_ptes_none.toml thp-never.toml" ]
	grep -qE "^Next: .*/thp-never.toml .* \(1[34].[0-9] points of the mean of on\)$" \
		"$BATS_TEST_TMPDIR/text"
	grep -qE "^Next: .*/background_thread.toml .* \([56].[0-9] points of the mean of on\)$" \
		"$BATS_TEST_TMPDIR/text"
	diff -u "$e2e_root/tests/golden/thp-never.toml" "$plans/thp-never.toml"
	for plan in "$plans"/*.toml; do
		[ "$(grep -c '^\[\[pair\]\]$' "$plan")" = 3 ]
		[ "$(sed -n 's/^treated = //p' "$plan" | tr '\n' ' ')" = '"se03-2" "se05-2" "se04-2" ' ]
		[ "$(grep -c '^control = true$' "$plan")" = 1 ]
		grep -qx '"p95" = "4%"' "$plan"
	done
	run verdict "$QUERIES" --post $CHANGE.. --next-plans "$plans"
	[ "$status" -eq 1 ] && [[ $output == *"--overwrite replaces it"* ]]
	verdict "$QUERIES" --post $CHANGE.. --next-plans "$plans" --overwrite >/dev/null
}

@test "every interval holds what was planted" {
	verdict "$FULL" --post $CHANGE.. --json >"$BATS_TEST_TMPDIR/json"
	holds RSS off restart -5.5
	holds RSS on restart -5.5
	holds RSS off on 0
	holds mean off restart -10
	holds mean on restart 23
	holds p95 off restart 8
	holds p95 on restart 23
	holds p99 off restart -3.6
	holds "faults per query" on restart 50
	[ "$(jq -r '[.baseline, .control, .settled, .seed, .resamples, .windows_dropped] | @csv' \
		"$BATS_TEST_TMPDIR/json")" = true,true,true,1,2000,0 ]
	[ "$(jq -r '.pairs[0].settings[] | select(.what == "thp.enabled") | .treated + " " + .reference' \
		"$BATS_TEST_TMPDIR/json")" = "never always" ]
}

@test "what was not done is not found, and a gap is a gap of all" {
	verdict "$SAME" --post $CHANGE.. >"$BATS_TEST_TMPDIR/text"
	run ! grep -E '^  (RSS|mean|p95|p99)  .* different ' "$BATS_TEST_TMPDIR/text"
	[ "$(grep -cE '^  (RSS|mean|p95|p99)  ' "$BATS_TEST_TMPDIR/text")" = 12 ]
	grep -q 'CAUTION 6.0 h left out: not every server was recorded then' "$BATS_TEST_TMPDIR/text"
}

@test "a control that is restless makes the verdict unstable" {
	verdict "$NOISY" --post $CHANGE.. >"$BATS_TEST_TMPDIR/text"
	grep -qE '^  p99 .* unstable +the control differs from itself by more than 5.0 %' \
		"$BATS_TEST_TMPDIR/text"
}

@test "a balancer that favours one of a pair is told of" {
	verdict "$NOISY" --post $CHANGE.. >"$BATS_TEST_TMPDIR/text"
	grep -q "CAUTION se05-2 answered 50.0 % of its pair's queries before and 40.0 % after" \
		"$BATS_TEST_TMPDIR/text"
	[ "$(grep -c 'CAUTION .* answered' "$BATS_TEST_TMPDIR/text")" = 1 ]
}

@test "periods: chosen on both sides, or no baseline" {
	verdict "$SAME" --pre 2026-11-07T00:00:00Z..2026-11-08T00:00:00Z \
		--post 2026-11-10T00:00:00Z..2026-11-11T12:00:00Z --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -c '[.windows_before, .windows_after, .baseline]' "$BATS_TEST_TMPDIR/json")" = \
		"[144,216,true]" ] || [ "$(jq .warmup_ns "$BATS_TEST_TMPDIR/json")" != 0 ]
	verdict "$SAME" >"$BATS_TEST_TMPDIR/text"
	grep -q 'CAUTION no baseline: server differences not removed' "$BATS_TEST_TMPDIR/text"
	"$SONDE" compare --pair on=se05-2/se05 --post $CHANGE.. "$SAME"/se05*.sonde \
		>"$BATS_TEST_TMPDIR/text"
	grep -q 'CAUTION no control' "$BATS_TEST_TMPDIR/text"
}

@test "margins: what does not matter is said by the user" {
	verdict "$FULL" --post $CHANGE.. --margin mean=30% --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -r '.rows[] | select(.metric == "mean" and .arm == "off" and .against == "restart") |
		.verdict' "$BATS_TEST_TMPDIR/json")" = equivalent ]
	refuses 2 "they have: RSS, mean, p95, p99" compare "${ARMS[@]}" --margin p97=5% \
		"$SAME"/*.sonde
	refuses 2 "is not METRIC=PERCENT" compare "${ARMS[@]}" --margin p95=5 "$SAME"/*.sonde
}

@test "what cannot be compared is refused with the reason" {
	cp "$SAME/se03.sonde" "$BATS_TEST_TMPDIR/se03.copy.sonde"
	cp "$SAME/se03.sonde" "$BATS_TEST_TMPDIR/other.sonde"
	refuses 2 "no recording of se05-2 is given" compare "${ARMS[@]}" "$SAME"/se0[34]*.sonde \
		"$SAME/se05.sonde"
	refuses 2 "is of no server that --pair or --control names" compare \
		--pair on=se05-2/se05 "$SAME"/*.sonde
	refuses 2 "overlap in time" compare "${ARMS[@]}" "$SAME"/*.sonde \
		"$BATS_TEST_TMPDIR/se03.copy.sonde"
	refuses 2 "overlap in time" compare "${ARMS[@]}" "$SAME"/*.sonde \
		"$BATS_TEST_TMPDIR/other.sonde" # by its host's name
	refuses 2 "is already treated in arm off" compare --pair off=se03-2/se03 \
		--control restart=se03-2/se04 "$SAME"/se03*.sonde "$SAME/se04.sonde"
	refuses 2 "--pre ends after --post begins" compare "${ARMS[@]}" --pre ..$CHANGE \
		--post 2026-11-08T00:00:00Z.. "$SAME"/*.sonde
	refuses 2 "is not FROM..TO" compare "${ARMS[@]}" --post $CHANGE "$SAME"/*.sonde
	refuses 2 "nothing was recorded after the change" compare "${ARMS[@]}" \
		--post 2027-01-01T00:00:00Z.. "$SAME"/*.sonde
	refuses 2 "holds no whole window of 60 s" compare "${ARMS[@]}" \
		--post 2026-11-11T23:59:30Z.. --pre 2026-11-11T00:00:00Z..2026-11-11T12:00:00Z \
		"$SAME"/*.sonde
	refuses 2 "name what was treated: --pair" compare --control r=se04-2/se04 "$SAME"/*.sonde
	refuses 2 "is not ARM=TREATED/REFERENCE" compare --pair se03-2/se03 "$SAME"/*.sonde
	refuses 2 "recording that is read" compare "${ARMS[@]}" "$SAME"/*.sonde \
		-o "$SAME/se03.sonde" --overwrite
}
