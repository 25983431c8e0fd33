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
ARMS=(--pair off=se03-2/se03 --pair on=se05-2/se05 --control restart=se04-2/se04)

setup_file() {
	mkdir "$FULL" "$SAME" "$NOISY"
	local pids=()
	"$MAKE" "$FULL" 7 14 touched 3>&- & pids+=($!)
	"$MAKE" "$SAME" 3 3 same gap 3>&- & pids+=($!)
	"$MAKE" "$NOISY" 2 2 noisy skewed 3>&- & pids+=($!)
	wait "${pids[0]}" && wait "${pids[1]}" && wait "${pids[2]}"
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
	[ "$(jq -r '.pairs[0].settings[] | select(.what == "thp") | .treated + " " + .reference' \
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
