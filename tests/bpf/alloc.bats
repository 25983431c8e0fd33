#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The alloc lens in exact mode against a program that says what it did (tests/harness/allocwork.cpp),
# under each kind of link. Counts and bytes are equal or the test fails; nothing is sampled.

bats_require_minimum_version 1.5.0

load alloc_helpers

# A kind of link is forced by name; the plan refuses one that the kernel lacks, so that a missing kind
# fails rather than passes.
all_functions() {
	observe "$1" calls 56
	grep "^link|alloc.return|uprobe_$1|8" "$T/seen"
	equal_to_truth
	[ "$(seen live "")" = 0 ]
	[ "$(seen handed_out "")" -gt 0 ]
	nothing_dropped
}

@test "session links: every function's calls, bytes and failures are exact" {
	all_functions session
}

@test "multi links: every function's calls, bytes and failures are exact" {
	all_functions multi
}

@test "perf links: every function's calls, bytes and failures are exact" {
	all_functions perf
}

@test "the size histogram holds every call that asked for a possible size" {
	observe session calls 56
	calls=$(awk -F'|' '$1 == "truth" && $2 !~ /free|delete/ { n += $3 - $5 } END { print n }' "$T/work")
	# posix_memalign with a bad alignment asks for 8 bytes and fails
	bad_alignment=$(did failed posix_memalign)
	[ "$(awk -F'|' '$1 == "hist" { print $2 }' "$T/seen")" = $((calls + bad_alignment)) ]
	[ "$(awk -F'|' '$1 == "hist" { print $3 }' "$T/seen")" = \
		"$(awk -F'|' '$1 == "truth" { n += $4 } END { printf "%d", n }' "$T/work")" ]
}

throwing_new() {
	observe "$1" throw 100
	equal_to_truth
	nothing_dropped
}

@test "session links: operator new that throws is one call and one failure of its own" {
	throwing_new session
}

@test "multi links: operator new that throws is one call and one failure of its own" {
	throwing_new multi
}

@test "perf links: operator new that throws is one call and one failure of its own" {
	throwing_new perf
}

# uordblks holds what a thread's cache keeps; without the cache it is what the program holds.
churn() {
	with=(GLIBC_TUNABLES=glibc.malloc.tcache_count=0)
	observe "$1" churn "$2"
	live_as_told
	few_dropped
}

@test "session links: live bytes after 10 million operations of 8 threads are mallinfo2's" {
	churn session 10000000
}

@test "multi links: live bytes after 2 million operations of 8 threads are mallinfo2's" {
	churn multi 2000000
}

@test "perf links: live bytes after 2 million operations of 8 threads are mallinfo2's" {
	churn perf 2000000
}

@test "memory from before attach that is given back makes live bytes negative, exactly" {
	with=(GLIBC_TUNABLES=glibc.malloc.tcache_count=0)
	observe session older 10000
	live_as_told
	[ "$(seen live "")" -lt 0 ]
	[ "$(seen calls free)" = 10000 ]
}

@test "a header that cannot be read is a drop, and the call is counted" {
	observe session fault 20
	equal_to_truth
	[ "$(grep '^drop' "$T/seen")" = "drop|copy_fault|20" ]
}

@test "sonde stat: every figure is the program's, and live bytes start when all probes are there" {
	"$B/harness/allocwork" calls 56 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" --lens alloc,rss,query --alloc-mode exact --yes -d 10m -i 100ms \
		--json >"$T/out" 2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	until_line "$T/out" interval "$watch_pid" || { cat "$T/err"; false; }
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$watch_pid"
	wait "$watch_pid"
	watch_pid=
	exec 8>&-
	tail -n 1 "$T/out" | jq -r '.metrics[] | select(.name | startswith("alloc.")) |
		"\(.name)|\(.label // "")|\(.value)"' >"$T/seen"
	equal_to_truth
	[ "$(seen live "")" = 0 ]
	[ "$(seen handed_out "")" = "$(seen given_back "")" ]
	tail -n 1 "$T/out" | jq -e '[.drops | keys[] | select(startswith("alloc"))] == []'
}

# A busy target: malloc and free in turn, so at most one block a thread is live at any time.
@test "sonde stat: attaching to a busy program leaves no block half counted" {
	"$B/harness/allocwork" loop >"$T/work" 3>&- &
	work_pid=$!
	until_line "$T/work" ^ready "$work_pid"
	for i in 1 2 3; do
		"$B/sonde" stat -p "$work_pid" --lens alloc,rss,query --alloc-mode exact --yes -d 300ms \
			--json >"$T/out" 2>"$T/err" 3>&-
		tail -n 1 "$T/out" >"$T/json"
		live=$(jq '.metrics[] | select(.name == "alloc.live") | .value' "$T/json")
		calls=$(jq '[.metrics[] | select(.name == "alloc.calls") | .value] | add' "$T/json")
		echo "live $live after $calls calls"
		[ "$calls" -gt 1000 ]
		[ "${live#-}" -le 2064 ] # one block at either end
	done
}
