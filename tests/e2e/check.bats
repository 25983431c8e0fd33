#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The runner that says "N passed" is itself tested: each way for a suite to go wrong must be a failure.

bats_require_minimum_version 1.5.0
load helpers

setup() {
	T=$BATS_TEST_TMPDIR/tree
	mkdir -p "$T/scripts/lib" "$T/tests/unit/a" "$T/build/unit/a"
	cp "$e2e_root/scripts/check" "$T/scripts/"
	cp "$e2e_root/scripts/lib/searchd.sh" "$T/scripts/lib/"
	unset SONDE_BUILD SONDE_RUN SONDE_CHECK_ONLY
}

suite() { # NAME SHELL-TEXT: a unit program that does this
	: >"$T/tests/unit/a/$1.c"
	printf '#!/bin/bash\n%s\n' "$2" >"$T/build/unit/a/$1"
	chmod +x "$T/build/unit/a/$1"
}

verdict() { # EXPECTED-LAST-LINE EXPECTED-STATUS
	run env SONDE_CHECK_ONLY=unit "$T/scripts/check" 3>&-
	equal "$1" "${lines[-1]}" "last line"
	equal "$2" "$status" "exit status"
}

@test "passed tests are counted over all suites" {
	suite one 'echo 1..2; echo ok 1 - x; echo ok 2 - y'
	suite two 'echo TAP version 13; echo 1..1; echo ok 1 - z'
	verdict "3 passed, 0 failed" 0
}

@test "a failed test fails the run and is shown with what it said" {
	suite one 'echo 1..2; echo "ok 1 - x"; echo "# the reason"; echo "not ok 2 - y"; exit 1'
	verdict "1 passed, 1 failed" 1
	grep -q "the reason" <<<"$output"
	grep -q "not ok 2 - y" <<<"$output"
}

@test "a program that dies before its plan is done fails for each test it did not run" {
	suite one 'echo 1..4; echo ok 1 - x; kill -SEGV $$'
	verdict "1 passed, 3 failed" 1
}

@test "a program that dies after its last test fails" {
	suite one 'echo 1..1; echo ok 1 - x; exit 3'
	verdict "1 passed, 1 failed" 1
}

@test "a program that says nothing fails, and so does one that is missing" {
	suite one 'exit 0'
	: >"$T/tests/unit/a/missing.c"
	verdict "0 passed, 2 failed" 1
}

@test "skips are counted apart, as bats and as cmocka write them" {
	suite one 'echo 1..3; echo "ok 1 x # skip no such feature"; echo "not ok 2 # SKIP y"; echo ok 3 - z'
	verdict "1 passed, 0 failed, 2 skipped" 0
	grep -q "no such feature" <<<"$output"
}

@test "nothing that ran is a failure" {
	rm -r "$T/tests/unit"
	verdict "0 passed, 0 failed" 1
	suite_dir=$T/tests/unit/a
	mkdir -p "$suite_dir"
	suite one 'echo "1..1"; echo "ok 1 # SKIP all"'
	verdict "0 passed, 0 failed, 1 skipped" 1
}

@test "what a suite leaves running is ended with it" {
	suite one "echo 1..1; echo ok 1 - x; sleep 300 & echo \$! >$T/left"
	verdict "1 passed, 0 failed" 0
	wait_for 10 is_gone "$(cat "$T/left")"
}

@test "an interrupted run ends its suite" {
	suite one "echo 1..1; echo \$\$ >$T/pid; sleep 300; echo ok 1 - x"
	SONDE_CHECK_ONLY=unit "$T/scripts/check" >"$T/out" 2>&1 3>&- &
	local runner=$!
	started "$runner"
	wait_for 10 test -s "$T/pid"
	kill -TERM "$runner"
	wait_for 10 is_gone "$(cat "$T/pid")"
	local status=0
	wait "$runner" || status=$?
	equal 130 "$status" "exit status"
}
