#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Heaps read from outside against the allocator's own statistics (tests/harness/heapwork.c asks itself just
# before and after each reading). At rest a reading is equal; while threads replace objects, at the rate
# that is given, nearly all of them are within 1 %.

bats_require_minimum_version 1.5.0

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/in"
	work_pid=
	child_pid=
}

teardown() {
	local pid

	for pid in "$work_pid" "$child_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
}

# begin PROGRAM MIB THREADS OPS [COMMAND...]: with `prefix` in front of it
begin() {
	"${prefix[@]}" "${dir-$B/harness}/$1" "${page:-$T/page}" "$2" "$3" "$4" <"$T/in" >"$T/out" 3>&- &
	work_pid=$!
	exec 8>"$T/in"
	until_line "$T/out" ^ready "$work_pid"
	work_pid=$(awk '/^ready/ { print $2 }' "$T/out")
}

figure() { # NAME: of the last heapcheck
	awk -v n="$1" '$1 == n { print $2 }' "$T/said"
}

check() { # READINGS rest|churn|alone
	local status=0

	"${as[@]}" "$B/bench/heapcheck" "$work_pid" "$T/page" "$1" "$2" >"$T/said" 2>&1 || status=$?
	cat "$T/said"
	return $status
}

# Equal at rest; under load the 99th of a hundred within 1 %.
compare() { # READINGS
	check "$1" rest
	[ "$(figure error_max_ppm)" -le 1000 ]
	[ "$(figure clean)" = "$1" ]
	check "$1" churn
	[ "$(figure ops_per_s)" -gt 1000 ]
	[ "$(figure error_p99_ppm)" -le 10000 ]
	check 20 rest
	[ "$(figure error_max_ppm)" -le 1000 ]
}

@test "glibc: 1000 readings, 4 threads, 50,000 operations a second" {
	begin heapwork 20 4 50000
	compare 1000
	[ "$(figure counted)" = 20 ]
}

@test "gperftools: 1000 readings, 4 threads, 400,000 operations a second" {
	prefix=(env LD_PRELOAD=libtcmalloc.so.4)
	begin heapwork 20 4 400000
	compare 1000
}

@test "gperftools, minimal: 1000 readings, 4 threads, 400,000 operations a second" {
	prefix=(env LD_PRELOAD=libtcmalloc_minimal.so.4)
	begin heapwork 20 4 400000
	compare 1000
}

@test "glibc linked in: named by symbols" {
	begin heapwork_static 10 4 50000
	compare 200
	check 1 alone
	grep -q 'named by symbols' "$T/said"
}

@test "gperftools linked in: named by symbols" {
	begin heapwork_tcmalloc 10 4 100000
	compare 200
	check 1 alone
	grep -q 'named by symbols' "$T/said"
}

@test "linked in and stripped: refused, with the reason" {
	cp "$B/harness/heapwork_tcmalloc" "$T/stripped"
	strip "$T/stripped"
	dir=$T
	begin stripped 1 1 1000
	run ! check 1 rest
	[[ $output == *"heapcheck: "* ]]
}

@test "a target that dies while it is read" {
	begin heapwork 10 4 50000
	check 100000 alone >"$T/log" &
	checker=$!
	until_line "$T/said" ^reading "$checker"
	kill -KILL "$work_pid"
	wait "$checker"
	grep -q '^ended No such process' "$T/said"
}

@test "a child of fork has a heap of its own" {
	begin heapwork 10 2 50000
	echo fork >&8
	until_line "$T/out" ^child "$work_pid"
	child_pid=$(awk '/^child/ { print $2 }' "$T/out")
	"$B/bench/heapcheck" "$child_pid" "$T/page" 3 alone | tee "$T/said"
	[ "$(figure told)" = "$(awk '/^child/ { print $3 }' "$T/out")" ]
	# The parent's was left alone.
	check 20 rest
	[ "$(figure error_max_ppm)" -le 1000 ]
}

@test "a target that executes another program is not read on" {
	begin heapwork 10 2 50000
	check 100000 alone >"$T/log" &
	checker=$!
	until_line "$T/said" ^reading "$checker"
	echo exec >&8
	wait "$checker"
	grep -q 'replaced its program' "$T/said"
}

# A root of its own, with copies of what the program needs: other files than this system's, and gone from
# their directory while it runs.
@test "a target in a root of its own, with its own libraries" {
	local root=$T/root lib

	mkdir -p "$root/tmp"
	for lib in $(ldd "$B/harness/heapwork" | grep -o '/[^ ]*'); do
		mkdir -p "$root/${lib%/*}"
		cp "$lib" "$root/$lib"
	done
	cp "$B/harness/heapwork" "$root/"
	prefix=(unshare --mount chroot "$root")
	dir=
	page=/tmp/page
	begin heapwork 10 2 50000
	ln -s "$root/tmp/page" "$T/page"
	rm -r "${root:?}"/lib*
	compare 200
}

@test "no namespace may be made: refused, with the reason" {
	cat >"$T/script" <<-'END'
	for f in /proc/sys/user/max_*_namespaces; do
		echo 0 >"$f" || exit 9
	done
	exec "$@"
	END
	prefix=(unshare --user --map-root-user)
	begin heapwork 1 1 1000
	as=(nsenter --user --preserve-credentials -t "$work_pid" sh "$T/script")
	run ! check 1 rest
	[[ $output == *"no namespaces to run a scratch process in"* ]]
}

@test "an unprivileged user reads what is his" {
	chmod 711 "$T" "${T%/*}" "${T%/*/*}" 2>/dev/null || true
	as=(setpriv --reuid 12345 --regid 12345 --clear-groups)
	touch "$T/page" && chmod 666 "$T/page"
	cp "$B/harness/heapwork" "$T/"
	if ! "${as[@]}" test -x "$T/heapwork" || ! "${as[@]}" test -x "$B/bench/heapcheck"; then
		skip "another user cannot reach $T"
	fi
	prefix=("${as[@]}")
	dir=$T
	begin heapwork 5 2 20000
	compare 100
}

# live_of OUTPUT: alloc.allocated of stat --json
live_of() {
	jq -r '[.. | objects | select(.name? == "alloc.allocated")][0].value' "$1" 2>/dev/null |
		grep -x '[0-9]*' | tail -n 1
}

@test "stat reads counters without being asked to" {
	begin heapwork 20 2 1000
	"$B/sonde" stat -p "$work_pid" -d 1s --json >"$T/json"
	check 3 alone
	[ "$(jq -r '[.. | objects | select(.name? == "alloc.calls")] | length' "$T/json")" = 0 ]
	# What threads cache is no part of it.
	live=$(live_of "$T/json")
	[ "$live" -le "$(figure told)" ]
	[ "$live" -ge $(($(figure told) - 1000000)) ]
	echo free >&8
	until_line "$T/out" ^freed "$work_pid"
	"$B/sonde" stat -p "$work_pid" -d 500ms --json >"$T/json"
	[ "$(live_of "$T/json")" -lt $((live - 1000000)) ]
}

# 200 MiB in small pieces, a third of them free: some 60,000 free chunks.
@test "a walk that is too long to wait for goes on beside the session" {
	begin heapwork 200 2 1000
	"$B/sonde" stat -p "$work_pid" -d 100s -i 100ms --json >"$T/json" 3>&- 8>&- &
	child_pid=$!
	until_line "$T/json" '"live_bytes": *[0-9]' "$child_pid"
	kill -INT "$child_pid"
	wait "$child_pid"
	child_pid=
	check 3 alone
	[ "$(figure told)" -gt 100000000 ]
	live=$(live_of "$T/json")
	[ "$live" -le "$(figure told)" ]
	[ "$live" -ge $(($(figure told) - 1000000)) ]
	# It was not there at first.
	! head -n 1 "$T/json" | grep -q '"live_bytes": *[0-9]'
}

@test "doctor says how the heap is read, or why not" {
	begin heapwork 1 1 1000
	run "$B/sonde" doctor -p "$work_pid"
	[[ $output == *"heap: counters mode, glibc "*", confirmed by a scratch process"* ]]
	run "$B/sonde" doctor -p "$work_pid" --passive
	[[ $output == *"heap: not read (--passive)"* ]]
	run "$B/sonde" stat -p "$work_pid" -d 100ms --passive --json
	[[ $output == *"--passive does not read"* ]]
}

# A second of free chunks is damaged, and nothing moves: what was walked until there is not what is free.
damaged() { # HOW PLACE
	local live

	"$B/harness/heapbroken" "$1" >"$T/out" 3>&- &
	work_pid=$!
	until_line "$T/out" ^ready "$work_pid"
	live=$(awk '/^ready/ { print $3 }' "$T/out")
	run "$B/sonde" stat -p "$work_pid" -d 500ms -i 100ms --lens alloc --strict --json
	[ "$status" -eq 6 ]
	tail -n 1 <<<"$output" >"$T/json"
	jq -e '[.metrics[] | select(.name == "alloc.allocated")][0].value == null' "$T/json"
	jq -e --argjson live "$live" '[.metrics[] | select(.name == "alloc.at_most")][0].value >= $live' \
		"$T/json"
	jq -e --arg place "$2 of arena 0 is broken at 0x" \
		'[.notes[] | select(.level == "degraded" and (.what | contains($place)))] | length == 1' \
		"$T/json"
	kill -KILL "$work_pid"
	wait "$work_pid" || true
}

@test "glibc, damaged: links in a circle" { damaged cycle list; }
@test "glibc, damaged: links to nowhere" { damaged links list; }
@test "glibc, damaged: impossible sizes" { damaged size list; }
@test "glibc, damaged: links that are zero" { damaged zero list; }
@test "glibc, damaged: the arena itself" { damaged arena list; }

@test "glibc, not damaged: the same program is equal to what it says" {
	"$B/harness/heapbroken" none >"$T/out" 3>&- &
	work_pid=$!
	until_line "$T/out" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" -d 200ms -i 100ms --lens alloc --strict --json | tail -n 1 >"$T/json"
	[ "$(jq '[.metrics[] | select(.name == "alloc.allocated")][0].value' "$T/json")" -le \
		"$(awk '/^ready/ { print $3 }' "$T/out")" ]
	[ "$(jq '[.metrics[] | select(.name == "alloc.allocated")][0].value' "$T/json")" -ge \
		$(($(awk '/^ready/ { print $3 }' "$T/out") - 16384)) ] # chunks in the thread's cache
}

@test "exact mode of an allocator that is not known: refused before it is asked for" {
	cat >"$T/own.c" <<-'END'
		#include <stddef.h>
		#include <string.h>
		#include <unistd.h>
		static char pool[1 << 20];
		static size_t used;
		void *malloc(size_t n) { void *p = pool + used; used += (n + 15) & ~15ul; return p; }
		void free(void *p) { (void)p; }
		void *calloc(size_t n, size_t size) { return malloc(n * size); }
		void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
		int main(void) { write(1, "ready\n", 6); for (;;) pause(); }
	END
	gcc -O1 -rdynamic -fno-builtin -Wno-unused-result -o "$T/own" "$T/own.c"
	"$T/own" >"$T/out" 3>&- &
	work_pid=$!
	until_line "$T/out" ^ready "$work_pid"
	run "$B/sonde" stat -p "$work_pid" -d 200ms --lens alloc --alloc-mode exact </dev/null
	[ "$status" -eq 5 ]
	[[ $output == *"not recognised"*"--lens rss"* ]]
	[[ $output != *"attach for"* ]]
	# Beside others it is said, and degraded.
	run "$B/sonde" stat -p "$work_pid" -d 200ms --lens rss,alloc --alloc-mode exact --strict </dev/null
	[ "$status" -eq 6 ]
	[[ $output == *"DEGRADED"*"not recognised"* ]]
	[[ $output == *"RSS"* ]]
}

@test "a heap of 0 B beside much anonymous memory is doubted" {
	cat >"$T/mapped.c" <<-'END'
		#include <string.h>
		#include <unistd.h>
		static char much[16 << 20];
		int main(void) { memset(much, 1, sizeof(much)); write(1, "ready\n", 6); for (;;) pause(); }
	END
	gcc -O1 -Wno-unused-result -o "$T/mapped" "$T/mapped.c"
	"$T/mapped" >"$T/out" 3>&- &
	work_pid=$!
	until_line "$T/out" ^ready "$work_pid"
	run "$B/sonde" stat -p "$work_pid" -d 200ms --lens alloc --strict
	[ "$status" -eq 6 ]
	[[ $output == *"absent: this allocator is not used: 0 B of 16."*" MiB"* ]]
	[[ $output == *"DEGRADED"*"sonde doctor"* ]]
}
