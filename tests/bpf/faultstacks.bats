#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Page faults by call stack against a program that knows its own (tests/harness/stackwork.c): it
# touches fresh pages from ways through twelve kinds of frame, by itself, by memset and by read(2),
# and tells which way touched how many.

bats_require_minimum_version 1.5.0

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	SRC=$BATS_TEST_DIRNAME/../harness/stackwork.c
	mkfifo "$T/go"
}

teardown() {
	local pid

	for pid in "$work_pid" "$sonde_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
}

ticks() {
	sqlite3 -readonly "$T/r.sonde" 'SELECT count(*) FROM tick' 2>/dev/null || echo 0
}

# Record PROGRAM from its "ready" to its "done": $T/work is what it did, $T/r.sonde what was seen.
observe() { # PROGRAM ARGUMENTS...
	"$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" record -p "$work_pid" ${lens:---lens fault} --fault-by stack "${options[@]}" \
		-i 100ms -o "$T/r.sonde" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until [ "$(ticks)" -gt 0 ]; do
		kill -0 "$sonde_pid" || { cat "$T/err"; return 1; }
		sleep 0.05
	done
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid" || { cat "$T/err"; return 1; }
	sonde_pid=
	echo >&9
	exec 9>&-
	wait "$work_pid"
	work_pid=
	sqlite3 -readonly "$T/r.sonde" "SELECT stack_end, calls, functions FROM call_site
		WHERE lens = 'fault' ORDER BY calls DESC LIMIT 5"
}

rec() { # SQL
	sqlite3 -readonly "$T/r.sonde" "$1"
}

# What each counter stood at in the end.
last() { # METRIC
	rec "SELECT CAST(coalesce(sum(v), 0) AS INTEGER) FROM (SELECT max(value) AS v FROM metric
		WHERE name = '$1' GROUP BY label, target)"
}

truth() {
	awk -F'|' '$1 == "truth" { c[$2] += $3 } END { for (k in c) print k "|" c[k] }' "$T/work" | sort
}

# Of whole stacks that touch such pages: from the function that does to lv_enter.
seen() {
	rec "SELECT functions, calls FROM call_site WHERE lens = 'fault' AND stack_end = 'complete'" |
		awk -F'|' '{
			gsub(/\([^)]*\)/, "", $1)
			if (!match(";" $1, /;lv_(touch|fill|read);/)) next
			way = substr($1, RSTART)
			if (sub(/;lv_enter;.*/, ";lv_enter", way)) n[way] += $2
		} END { for (k in n) print k "|" n[k] }' | sort
}

# The sum over all stacks is the lens's own, exactly; so is the sum over how they end.
totals_are_equal() {
	local by_stack
	by_stack=$(rec "SELECT sum(calls) FROM call_site WHERE lens = 'fault'")
	echo "$(last fault.count) faults, $by_stack by stack"
	[ "$by_stack" -gt 0 ]
	[ "$(last fault.count)" = "$by_stack" ]
	[ "$(last fault.count)" = "$(last fault.stacks)" ]
}

# At least 99 in 100 pages on their stack. None is expected elsewhere, but code that the system
# puts out of memory in between faults in these stacks as well.
on_the_right_stack() {
	truth >"$T/want"
	seen >"$T/got"
	diff "$T/want" "$T/got" | head -10 || true
	awk -F'|' 'NR == FNR { want[$1] = $2; all += $2; next }
		{ right += $2 < want[$1] ? $2 : want[$1]; more += $2 > want[$1] ? $2 - want[$1] : 0 }
		END { printf "%d of %d right, %d too many\n", right, all, more
			exit !(all > 5000 && right >= 0.99 * all && more <= 0.01 * all) }' \
		"$T/want" "$T/got"
	[ "$(wc -l <"$T/want")" -gt 100 ]
}

@test "C, -O2, no frame pointers: user code, memset and system calls" {
	gcc -w -O2 -fomit-frame-pointer -o "$T/prog" "$SRC" -lpthread
	observe "$T/prog" 200 2000 4 fault
	totals_are_equal
	on_the_right_stack
	# Each of the three kinds is there, and system calls as the kernel's own.
	for leaf in touch fill read; do
		grep -q "^lv_$leaf;" "$T/got"
	done
	[ "$(rec "SELECT sum(calls) FROM call_site WHERE functions LIKE '%lv_read;%'")" -ge \
		"$(awk -F'|' '/^lv_read;/ { n += $2 } END { print int(n * 0.99) }' "$T/want")" ]
}

@test "C++, -O0: the same" {
	g++ -x c++ -fpermissive -w -O0 -o "$T/prog" "$SRC" -lpthread
	observe "$T/prog" 200 2000 4 fault
	totals_are_equal
	on_the_right_stack
}

@test "fully timed: the time of all stacks is the time of all faults" {
	options=(--fault-mode full --fault-by thread,stack)
	observe "$B/harness/stackwork" 200 2000 2 fault
	totals_are_equal
	ns=$(rec "SELECT sum(bytes) FROM call_site WHERE lens = 'fault'")
	[ "$ns" = "$(last fault.thread_time)" ]
	# The same, but for faults whose begin the kernel skipped: each side has its own mean for those.
	[ "$ns" -ge $(($(last fault.time) * 99 / 100)) ]
	[ "$ns" -le $(($(last fault.time) * 101 / 100)) ]
}

@test "the first instruction of a function that faults is of that function" {
	cat >"$T/f.c" <<-'END'
		#include <stdio.h>
		#include <sys/mman.h>
		#include <unistd.h>
		/* Its first instruction writes where rdi points to. */
		__asm__(".text\n.type before,@function\nbefore:\n.cfi_startproc\nret\n.cfi_endproc\n"
			".size before,.-before\n.globl at_once\n.type at_once,@function\nat_once:\n"
			".cfi_startproc\nmovb $1,(%rdi)\nret\n.cfi_endproc\n.size at_once,.-at_once\n");
		void at_once(char *p);
		static char in[64], out[64];
		int main(void) {
			char line[64], *p = mmap(0, 512 << 12, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			madvise(p, 512 << 12, MADV_NOHUGEPAGE);
			setvbuf(stdin, in, _IOFBF, 64); setvbuf(stdout, out, _IOFBF, 64);
			printf("ready %d\n", getpid()); fflush(stdout);
			if (!fgets(line, 64, stdin)) return 1;
			for (int i = 0; i < 512; i++) at_once(p + (i << 12));
			printf("done\n"); fflush(stdout);
			fgets(line, 64, stdin);
			return 0;
		}
	END
	gcc -w -O1 -o "$T/prog" "$T/f.c"
	observe "$T/prog"
	totals_are_equal
	[ "$(rec "SELECT calls FROM call_site WHERE functions LIKE 'at_once;main;%'")" = 512 ]
	[ "$(rec "SELECT count(*) FROM call_site WHERE functions LIKE 'before;%'")" = 0 ]
}

@test "more stacks than the table holds: the rest is in one sum, and nothing is lost" {
	cat >"$T/f.c" <<-'END'
		#include <stdio.h>
		#include <sys/mman.h>
		#include <unistd.h>
		/* 2^15 ways, a fresh page at the end of each. */
		static char in[64], out[64], *p;
		__attribute__((noinline)) void one(int n, unsigned way);
		__attribute__((noinline)) void two(int n, unsigned way);
		#define GO { if (!n) *(volatile char *)(p += 4096) = 1; \
			else if (way & 1) one(n - 1, way >> 1); \
			else two(n - 1, way >> 1); __asm__ volatile(""); }
		void one(int n, unsigned way) GO
		void two(int n, unsigned way) GO
		int main(void) {
			char line[64];
			p = mmap(0, 32769ul << 12, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			madvise(p, 32769ul << 12, MADV_NOHUGEPAGE);
			setvbuf(stdin, in, _IOFBF, 64); setvbuf(stdout, out, _IOFBF, 64);
			printf("ready %d\n", getpid()); fflush(stdout);
			if (!fgets(line, 64, stdin)) return 1;
			for (unsigned w = 0; w < 32768; w++) one(15, w);
			printf("done\n"); fflush(stdout);
			fgets(line, 64, stdin);
			return 0;
		}
	END
	gcc -w -O1 -o "$T/prog" "$T/f.c"
	observe "$T/prog"
	totals_are_equal
	lost=$(rec "SELECT calls FROM call_site WHERE lens = 'fault' AND stack_end = 'lost'")
	echo "$lost lost"
	[ "$lost" -ge 16384 ] && [ "$lost" -le 16800 ]
	"$B/sonde" report "$T/r.sonde" --sites=1 | grep -F 'the table of stacks was full'
}

@test "with --children: each child's faults are counted, if only as those of one unread" {
	options=(--children)
	observe "$B/harness/faultwork" children 4
	rec "SELECT label, max(value) FROM metric WHERE name = 'fault.stacks' GROUP BY label, target"
	# They touch their pages at once, mostly before sonde has read what they map.
	[ "$(last fault.count)" -ge 2048 ]
	[ "$(last fault.count)" = "$(last fault.stacks)" ]
	unread=$(rec "SELECT CAST(coalesce(max(value), 0) AS INTEGER) FROM metric
		WHERE name = 'fault.stacks' AND label = 'unread'")
	[ "$(last fault.count)" = $(($(rec "SELECT sum(calls) FROM call_site") + unread)) ]
}

@test "beside the allocator's call stacks: neither is counted as the other" {
	local lens="--lens alloc,fault"
	options=(--alloc-mode exact --sites --yes -d 120s)
	gcc -w -O2 -o "$T/prog" "$SRC" -lpthread
	observe "$T/prog" 200 2000 2 fault
	totals_are_equal
	on_the_right_stack
	[ "$(last alloc.requested)" = "$(rec "SELECT sum(bytes) FROM call_site WHERE lens = 'alloc'")" ]
	run -0 "$B/sonde" report "$T/r.sonde" --sites=2
	[[ "$output" == "Call sites: "*"Page faults: "* ]]
	"$B/sonde" export "$T/r.sonde" --to folded >"$T/folded" 2>"$T/said"
	grep -q -- '--lens fault' "$T/said"
	! grep -q 'lv_touch' "$T/folded"
	"$B/sonde" export "$T/r.sonde" --to folded --lens fault | grep -q 'lv_touch [0-9]*$'
}

@test "exports hold every fault, and the report says whose they are" {
	observe "$B/harness/stackwork" 50 400 1 fault
	"$B/sonde" export "$T/r.sonde" --to folded >"$T/folded"
	[ "$(awk '{ n += $NF } END { print n }' "$T/folded")" = "$(last fault.count)" ]
	grep -qE '^_*clone[a-z0-9_]*;.*;lv_enter;lv_next;.*lv_next;lv_touch [0-9]+$' "$T/folded"
	"$B/sonde" export "$T/r.sonde" --to folded --lens fault | cmp - "$T/folded"
	run -2 "$B/sonde" export "$T/r.sonde" --to csv --lens fault
	run ! "$B/sonde" export "$T/r.sonde" --to folded --lens alloc
	run -0 "$B/sonde" report "$T/r.sonde" --sites=3
	[[ "$output" == "Page faults: "*" different stacks took $(last fault.count |
		sed ':a;s/\B[0-9]\{3\}\>/,&/;ta') faults"* ]]
	run -0 "$B/sonde" export "$T/r.sonde" --to jsonl
	grep -q '"type":"stack_count".*"lens":"fault".*"faults":.*"time_ns":' <<<"$output"
	command -v go >/dev/null || skip "go is not installed: pprof is not read back"
	"$B/sonde" export "$T/r.sonde" --to pprof -o "$T/f.pb"
	HOME=$T go tool pprof -raw "$T/f.pb" >"$T/raw" 2>/dev/null
	[ "$(awk '/^Samples:/ { getline; on = $1 ~ /^faults\/count/; next } /^Locations/ { on = 0 }
		on && /^ *[0-9]+ +[0-9]+:/ { n += $1 } END { print n }' "$T/raw")" = "$(last fault.count)" ]
}
