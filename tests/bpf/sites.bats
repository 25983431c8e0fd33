#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The probe sites of allocators, armed for real: each place that a probe was moved to is passed as often
# as its function is entered, and over the whole set one operation of the program is one hit.

bats_require_minimum_version 1.5.0

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go" "$T/stop"
}

# $T/work: what the program did; $T/seen: what was hit.
observe() { # [LIBRARY [PROGRAM]]
	env ${1:+LD_PRELOAD="/usr/lib/x86_64-linux-gnu/$1"} "${2:-$B/harness/setwork}" <"$T/go" \
		>"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/bench/sitecount" "$work_pid" <"$T/stop" >"$T/seen" 3>&- 8>&- &
	watch_pid=$!
	exec 9>"$T/stop"
	until_line "$T/seen" ^attached "$watch_pid"
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	echo >&9
	wait "$watch_pid"
	watch_pid=
	exec 8>&- 9>&-
	wait "$work_pid"
	work_pid=
	cat "$T/work" "$T/seen"
	grep -q ^end "$T/seen"
}

total() { # alloc|free
	awk -v s="$1" '$1 == "site" && $3 == s { n += $5 } END { print n + 0 }' "$T/seen"
}

did() { # allocations|frees
	awk -v w="$1" '$1 == w { print $2 }' "$T/work"
}

counts_each_operation_once() {
	[ "$(did allocations)" -gt 0 ]
	[ "$(total alloc)" = "$(did allocations)" ]
	[ "$(total free)" = "$(did frees)" ]
}

# Not of entries with several sites, which share their function's calls.
slides_lose_nothing() {
	awk '$1 == "site" { seen[$2]++; hits[$2] = $5; entry[$2] = $6 }
		END {
			for (s in seen)
				if (seen[s] == 1 && hits[s] != entry[s]) {
					print s, hits[s], "of", entry[s]
					bad = 1
				}
			exit bad
		}' "$T/seen"
}

check() { # [LIBRARY [PROGRAM]]
	observe "$@"
	counts_each_operation_once
	slides_lose_nothing
}

@test "glibc: one operation is one hit" {
	check
}

@test "jemalloc: one operation is one hit" {
	check libjemalloc.so.2
}

@test "gperftools, minimal: one operation is one hit" {
	check libtcmalloc_minimal.so.4
}

@test "gperftools, full: one operation is one hit" {
	check libtcmalloc.so.4
}

# As Kudu has it: few names are left, and the allocator's own messages tell what it is.
@test "gperftools, built into a stripped program: one operation is one hit" {
	g++ -std=c++17 -O2 -faligned-new -fsized-deallocation tests/harness/setwork.cpp \
		-o "$T/setwork" -Wl,--whole-archive -l:libtcmalloc.a -Wl,--no-whole-archive \
		-lunwind -lpthread
	strip -s "$T/setwork"
	check "" "$T/setwork"
	# Sized delete hands page-aligned pointers to free and keeps the others.
	[ "$(awk '$2 == "_ZdlPvm" { n += $5 } END { print n + 0 }' "$T/seen")" -gt 0 ]
}

@test "this kernel emulates, steps and refuses the instructions that sonde says it does" {
	"$B/bench/insnkinds"
}
