#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The alloc lens in exact mode against a program that says what it did (tests/harness/allocwork.cpp),
# under each kind of link. Counts and bytes are equal or the test fails; nothing is sampled.

bats_require_minimum_version 1.5.0

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go" "$T/stop"
}

teardown() {
	local pid

	for pid in "$work_pid" "$watch_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
}

# Until FILE has a line that matches, or the program that writes it is gone.
until_line() { # FILE PATTERN PID
	until grep -q "$2" "$1" 2>/dev/null; do
		kill -0 "$3" || return 1
		sleep 0.02
	done
}

# observe KIND MODE N: run allocwork with the lens attached by links of KIND; $T/work is what it did,
# $T/seen what was counted.
observe() {
	local kind=$1
	shift
	env "${with[@]}" "$B/harness/allocwork" "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	SONDE_FORCE_LINK=$kind "$B/bench/allocattach" "$work_pid" <"$T/stop" >"$T/seen" 2>"$T/err" \
		3>&- 8>&- &
	watch_pid=$!
	exec 9>"$T/stop"
	until_line "$T/seen" ^attached "$watch_pid" || { cat "$T/err"; return 1; }
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	echo >&9
	wait "$watch_pid"
	watch_pid=
	exec 8>&- 9>&-
	wait "$work_pid"
	work_pid=
	cat "$T/work" "$T/seen" "$T/err"
}

seen() { # METRIC LABEL
	awk -F'|' -v m="alloc.$1" -v l="$2" '$1 == m && $2 == l { v = $3 } END { print v + 0 }' "$T/seen"
}

did() { # calls|bytes|failed NAME...: the sum over functions
	local column
	case $1 in calls) column=3 ;; bytes) column=4 ;; failed) column=5 ;; esac
	shift
	printf '%s\n' "$@" | awk -F'|' -v c=$column 'NR == FNR { want[$1]; next }
		$1 == "truth" && $2 in want { v += $c } END { print v + 0 }' - "$T/work"
}

# Every function: calls, bytes and failures as the program tells them ("-": it does not know).
equal_to_truth() {
	local tag name calls bytes failed n=0
	while IFS='|' read -r tag name calls bytes failed; do
		[ "$tag" = truth ] || continue
		echo "$name: $(seen calls "$name") $(seen requested "$name") $(seen failed "$name")"
		[ "$(seen calls "$name")" = "$calls" ] || return 1
		[ "$bytes" = - ] || [ "$(seen requested "$name")" = "$bytes" ] || return 1
		[ "$(seen failed "$name")" = "$failed" ] || return 1
		n=$((n + 1))
	done <"$T/work"
	[ "$n" -gt 0 ]
}

# The change of live bytes within 0.1 % of what is live or 64 KiB of what mallinfo2 says.
live_as_mallinfo() {
	awk -F'|' -v got="$(seen live "")" '$1 == "live" {
		n++
		off = got - $2; off = off < 0 ? -off : off
		may = $3 / 1000 > 65536 ? $3 / 1000 : 65536
		printf "live %d, mallinfo2 %d, off by %d of %d allowed\n", got, $2, off, may
		bad = off > may
	} END { exit bad || n != 1 }' "$T/work"
}

nothing_dropped() {
	! grep '^drop' "$T/seen"
}

# A page that the kernel moves at that moment cannot be read by a program that may not sleep: seen once
# in ten million headers, counted, and within the bound on live bytes.
few_dropped() {
	awk -F'|' '$1 == "drop" { $2 == "copy_fault" ? n += $3 : other++ }
		END { exit other || n > 10 }' "$T/seen"
}

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
	live_as_mallinfo
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
	live_as_mallinfo
	[ "$(seen live "")" -lt 0 ]
	[ "$(seen calls free)" = 10000 ]
}

@test "a header that cannot be read is a drop, and the call is counted" {
	observe session fault 20
	equal_to_truth
	[ "$(grep '^drop' "$T/seen")" = "drop|copy_fault|20" ]
}

preload() { # GLOB
	local lib
	for lib in /usr/lib/x86_64-linux-gnu/$1; do
		[ -e "$lib" ] || skip "$1 is not installed"
		with=("LD_PRELOAD=$lib" ALLOCWORK_NO_PVALLOC=1)
		return
	done
}

# Of the names that share an address only the first is known: free is delete, memalign serves the
# aligned kinds (with its own failures of alignment before it), reallocarray is libc's and runs realloc
# unless its product overflows.
@test "gperftools: calls and bytes by entry point are exact, live bytes absent" {
	preload 'libtcmalloc_minimal.so.4'
	observe multi calls 56
	grep '^link|alloc.count|uprobe_multi' "$T/seen"
	[ "$(seen calls malloc)" = "$(did calls malloc)" ]
	[ "$(seen requested malloc)" = "$(did bytes malloc)" ]
	[ "$(seen calls calloc)" = "$(did calls calloc)" ]
	[ "$(seen requested calloc)" = "$(did bytes calloc)" ]
	[ "$(seen calls realloc)" = $(($(did calls realloc reallocarray) - $(did failed reallocarray))) ]
	[ "$(seen requested realloc)" = "$(did bytes realloc reallocarray)" ]
	[ "$(seen calls memalign)" = \
		$(($(did calls memalign posix_memalign valloc) - $(did failed posix_memalign))) ]
	[ "$(seen calls "operator new")" = "$(did calls "operator new")" ]
	[ "$(seen requested "operator new")" = "$(did bytes "operator new")" ]
	[ $(($(seen calls free) + $(seen calls "operator delete") + \
		$(seen calls "operator delete (sized)"))) = \
		"$(did calls free "operator delete" "operator delete (sized)")" ]
	[ "$(seen calls "operator delete (sized)")" = "$(did calls "operator delete (sized)")" ]
	grep '^alloc.live||absent: ' "$T/seen"
	nothing_dropped
}

@test "jemalloc: each operation is counted once, live bytes absent" {
	preload 'libjemalloc.so.2'
	observe multi calls 56
	[ "$(seen calls malloc)" = "$(did calls malloc)" ]
	[ "$(seen calls calloc)" = "$(did calls calloc)" ]
	[ "$(seen calls realloc)" = $(($(did calls realloc reallocarray) - $(did failed reallocarray))) ]
	# operator new with an alignment runs aligned_alloc
	[ $(($(seen calls "operator new") + $(seen calls memalign))) = \
		"$(did calls "operator new" memalign)" ]
	[ $(($(seen calls free) + $(seen calls "operator delete (sized)"))) = \
		"$(did calls free "operator delete" "operator delete (sized)")" ]
	grep '^alloc.live||absent: ' "$T/seen"
	nothing_dropped
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
