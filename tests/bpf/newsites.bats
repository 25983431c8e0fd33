#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Live bytes by call site where the allocator serves operator new itself: its pointers are seen at its own
# `ret` instructions. Against a program that knows what each of its functions holds
# (tests/harness/newwork.cpp), with calls that throw and calls within a handler.

bats_require_minimum_version 1.5.0

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go" "$T/stop"
}

changed_bytes() {
	"$B/harness/textdiff" "$work_pid" | tail -n 1
}

# observe LIBRARY [ROUNDS THREADS]: $T/work is what newwork did, $T/seen what was counted.
observe() {
	local lib=/usr/lib/x86_64-linux-gnu/$1
	[ -e "$lib" ] || skip "$1 is not installed"
	LD_PRELOAD=$lib "${program:-$B/harness/newwork}" "${2:-400}" "${3:-3}" <"$T/go" >"$T/work" \
		2>"$T/work.err" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	[ "$(changed_bytes)" = 0 ]
	SONDE_FORCE_LINK=${kind:-} "$B/bench/allocattach" "$work_pid" sites <"$T/stop" >"$T/seen" \
		2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	exec 9>"$T/stop"
	until_line "$T/seen" ^attached "$watch_pid" || { cat "$T/err"; return 1; }
	[ "$(changed_bytes)" -gt 0 ]
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	echo >&9
	wait "$watch_pid"
	watch_pid=
	# The code is again what it was, and the program goes on.
	[ "$(changed_bytes)" = 0 ]
	exec 8>&- 9>&-
	wait "$work_pid"
	work_pid=
	cat "$T/err"
	grep -v '^count\|^stack|' "$T/seen"
}

truth() {
	awk -F'|' '$1 == "truth" && $3 { print $2 "|" $3 "|" $4 }' "$T/work" | sort
}

# By the function of the program that called the allocator.
seen() {
	awk -F'|' '$1 == "count" { calls[$2] = $5; bytes[$2] = $6 }
		$1 == "stack" { if (match($4, /site_[a-z_]+/)) of[$2] = substr($4, RSTART, RLENGTH) }
		END {
			for (k in calls) {
				name = k in of ? of[k] : "elsewhere"
				absent[name] += calls[k] == "-"
				C[name] += calls[k]
				L[name] += bytes[k]
			}
			for (n in C)
				if (absent[n])
					print n "|absent"
				else if (C[n] || L[n])
					print n "|" C[n] "|" L[n]
		}' "$T/seen" | grep ^site_ | sort
}

all_right() {
	truth >"$T/want"
	seen >"$T/got"
	diff "$T/want" "$T/got"
	[ "$(wc -l <"$T/want")" = 13 ]
	grep '^link|alloc.ret|' "$T/seen"
	! grep '^drop' "$T/seen"
}

@test "jemalloc: live bytes by site, with all forms of new, throws, and handlers" {
	observe libjemalloc.so.2
	all_right
}

@test "gperftools, minimal: live bytes by site, with all forms of new, throws, and handlers" {
	observe libtcmalloc_minimal.so.4
	all_right
}

@test "gperftools, full: live bytes by site, with all forms of new, throws, and handlers" {
	observe libtcmalloc.so.4
	all_right
}

@test "jemalloc, by each other kind of link" {
	for kind in multi perf; do
		rm -f "$T/work" "$T/seen"
		observe libjemalloc.so.2 100 2
		all_right
		[ "$(grep -c "^link|alloc.ret|uprobe_$kind" "$T/seen")" = 1 ]
	done
}

@test "gperftools, by each other kind of link" {
	for kind in multi perf; do
		rm -f "$T/work" "$T/seen"
		observe libtcmalloc_minimal.so.4 100 2
		all_right
	done
}

# Each one deeper than the one before, without a call that succeeds between: more than are remembered.
@test "twenty throws in a row, each deeper, hide nothing and are no loss" {
	cat >"$T/deep.cpp" <<-'END'
		#include <cstdio>
		#include <new>
		#include <unistd.h>
		#define SITE extern "C" __attribute__((noinline))
		static char in[64], out[64], line[64];
		static void *opaque(void *p) { __asm__ volatile("" : "+r"(p)::"memory"); return p; }
		SITE void *site_down(int n) {
			try { opaque(::operator new((size_t)3 << 45)); } catch (const std::bad_alloc &) {}
			return opaque(n ? site_down(n - 1) : ::operator new(40));
		}
		SITE void *site_after(size_t n) { return opaque(::operator new(n)); }
		int main() {
			setvbuf(stdin, in, _IOFBF, 64); setvbuf(stdout, out, _IOFBF, 64);
			puts("ready"); fflush(stdout);
			if (!fgets(line, 64, stdin)) return 1;
			for (int i = 0; i < 50; i++) { site_down(20); site_after(100); }
			puts("truth|site_down|50|2000\ntruth|site_after|50|5000\ndone"); fflush(stdout);
			while (fgets(line, 64, stdin)) ;
			_exit(0);
		}
	END
	g++ -std=c++17 -O1 -o "$T/deep" "$T/deep.cpp"
	program=$T/deep
	for lib in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
		rm -f "$T/work" "$T/seen"
		observe $lib
		[ "$(truth)" = "$(seen)" ]
		! grep '^drop' "$T/seen"
	done
}

@test "without --sites no ret is probed" {
	LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 "$B/harness/newwork" 1 1 <"$T/go" \
		>"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	plan() { "$B/sonde" record -p "$work_pid" --lens alloc --alloc-mode exact -d 1s \
		-o "$T/r.sonde" --dry-run "$@" 2>&1; }
	run -0 plan
	[[ "$output" == *"_Znwm"* && "$output" != *"ret of"* ]]
	run -0 plan --sites
	[[ "$output" == *"ret of _Znwm"* ]]
	exec 8>&-
	wait "$work_pid" || true
	work_pid=
}
