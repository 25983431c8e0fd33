#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Call stacks against a program that knows its own (tests/harness/stackwork.c): compiled as C and C++,
# with and without frame pointers and unwind tables, in the program and in a shared library. Each stack
# is compared whole, function by function, with the calls, bytes and live bytes that the program tells.

bats_require_minimum_version 1.5.0

WAYS=300
CALLS=20000
THREADS=4

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	SRC=$BATS_TEST_DIRNAME/../harness/stackwork.c
	mkfifo "$T/go" "$T/stop"
}

# observe PROGRAM [ONE_IN]: $T/work is what it did, $T/seen what was counted.
observe() {
	local program=$1
	shift
	LD_LIBRARY_PATH=$T LD_PRELOAD=${PRELOAD:-} "$program" $WAYS $CALLS $THREADS \
		<"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	watch "$@"
}

# Watch $work_pid from its "ready" to its "done".
watch() { # [ONE_IN]
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/bench/allocattach" "$work_pid" sites "$@" <"$T/stop" >"$T/seen" 2>"$T/err" 3>&- 8>&- &
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
	cat "$T/err"
	grep -v '^count\|^stack|\|^truth' "$T/seen"
}

# calls|bytes|live by stack: as the program tells, and as it was seen, for the functions from the leaf to
# lv_enter. A stack that does not get that far has END in front.
truth() {
	awk -F'|' '$1 == "truth" { c[$2] += $3; b[$2] += $4; l[$2] += $5 }
		END { for (k in c) print k "|" c[k] "|" b[k] "|" l[k] }' "$T/work" | sort
}

seen() {
	awk -F'|' '$1 == "count" { c[$2] = $3; b[$2] = $4; l[$2] = $6 }
		$1 == "stack" {
			gsub(/\([^)]*\)/, "", $4)
			way = $4
			if (!sub(/;lv_enter;.*/, ";lv_enter", way))
				way = $3 ";" way
			n[$2] = way
		}
		END { for (k in n) { C[n[k]] += c[k]; B[n[k]] += b[k]; L[n[k]] += l[k] }
			for (k in C) print k "|" C[k] "|" B[k] "|" L[k] }' "$T/seen" |
		grep -E '(^|;)lv_leaf' | sort
}

# Every stack whole, and no other. The issue asks for 99 in 100; nothing here explains even one.
all_right() {
	truth >"$T/want"
	seen >"$T/got"
	diff "$T/want" "$T/got" | head -20
	cmp "$T/want" "$T/got"
	[ "$(wc -l <"$T/want")" -gt $((WAYS / 2)) ]
	# Complete: up to the thread's first function.
	! grep '^alloc.stacks|[^c]' "$T/seen"
}

build() { # NAME COMPILER FLAGS...
	local name=$1 compiler=$2
	shift 2
	$compiler -w -o "$T/$name" "$@" "$SRC" -lpthread
}

build_library() { # COMPILER FLAGS...
	local compiler=$1
	shift
	$compiler -w -shared -fPIC -DSTACKWORK_LIB -o "$T/libways.so" "$@" "$SRC"
	$compiler -w -DSTACKWORK_MAIN -o "$T/prog" "$@" "$SRC" -x none -L"$T" -lways -lpthread
}

NO_TABLES=(-fno-asynchronous-unwind-tables -fno-unwind-tables)
CXX="g++ -x c++ -fpermissive"

@test "C, -O2, no frame pointers" {
	build prog gcc -O2 -fomit-frame-pointer
	observe "$T/prog"
	all_right
}

@test "C, -O0" {
	build prog gcc -O0
	observe "$T/prog"
	all_right
}

@test "C++, -O2, no frame pointers, stripped of nothing" {
	build prog "$CXX" -O2 -fomit-frame-pointer
	observe "$T/prog"
	all_right
}

@test "C++, -O0, with debug information" {
	build prog "$CXX" -O0 -g
	observe "$T/prog"
	all_right
}

@test "C, -O2, in a shared library" {
	build_library gcc -O2 -fomit-frame-pointer
	observe "$T/prog"
	all_right
}

@test "C++, -O0, in a shared library" {
	build_library "$CXX" -O0
	observe "$T/prog"
	all_right
}

@test "frame pointers alone, without unwind tables" {
	local at
	build prog gcc -O2 -fno-omit-frame-pointer "${NO_TABLES[@]}"
	at=$(nm "$T/prog" | sed -n 's/^\(.*\) T lv_leaf/\1/p')
	! readelf -W --debug-dump=frames "$T/prog" | grep -q "pc=.*$at"
	observe "$T/prog"
	all_right
}

@test "linked statically" {
	build prog gcc -O2 -static
	observe "$T/prog"
	all_right
}

@test "inlined functions are frames of their own where DWARF tells" {
	cat >"$T/inl.c" <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		static inline __attribute__((always_inline)) void *deep(size_t n) { return malloc(n); }
		static inline __attribute__((always_inline)) void *mid(size_t n) { return deep(n + 1); }
		__attribute__((noinline)) void *outer(size_t n)
		{ void *p = mid(n); __asm__ volatile("" : "+r"(p)); return p; }
		static char in[64], out[64];
		int main(void) {
			char line[64];
			setvbuf(stdin, in, _IOFBF, 64); setvbuf(stdout, out, _IOFBF, 64);
			printf("ready %d\n", getpid()); fflush(stdout);
			if (!fgets(line, 64, stdin)) return 1;
			for (int i = 0; i < 100; i++) free(outer(100));
			printf("done\n"); fflush(stdout);
			fgets(line, 64, stdin);
			return 0;
		}
	END
	gcc -w -O2 -g -o "$T/prog" "$T/inl.c"
	observe "$T/prog"
	grep -F '|complete|~deep;~mid;outer;main;' "$T/seen"
}

@test "neither tables nor frame pointers: the immediate caller, and no guess beyond it" {
	build prog gcc -O2 -fomit-frame-pointer "${NO_TABLES[@]}"
	observe "$T/prog"
	# Every call of the program ends at its caller, and says why.
	awk -F'|' '$1 == "stack" && $4 ~ /lv_/ && ($3 != "no_table" || $4 != "lv_leaf")' "$T/seen" >"$T/odd"
	[ ! -s "$T/odd" ]
	[ "$(awk -F'|' '$1 == "alloc.stacks" && $2 == "no_table" { print $3 }' "$T/seen")" -ge $CALLS ]
}

@test "stripped: module and offset" {
	build prog gcc -O2
	strip "$T/prog"
	observe "$T/prog"
	! grep '^alloc.stacks|[^c]' "$T/seen"
	[ "$(grep -c "^stack|.*$T/prog+0x[0-9a-f]*;.*;start_thread;" "$T/seen")" -gt $((WAYS / 2)) ]
}

@test "one block in eight: live bytes within their error" {
	build prog gcc -O2
	CALLS=60000
	observe "$T/prog" 8
	# The sum over the sites is off by less than four standard errors (independent blocks).
	awk -F'|' 'NR == FNR { if ($1 == "truth") want += $5; next }
		$1 == "count" { got += $6; square += $7 * $7 }
		END { e = sqrt(square); printf "live %d, estimated %d +- %d\n", want, got, e
			exit !(e > 0 && e < want / 10 && got - want < 4 * e && want - got < 4 * e) }' \
		"$T/work" "$T/seen"
}

# compile NAME FLAGS... < SOURCE: a program that says "ready PID", works at a line, says "done", waits.
compile() {
	local name=$1
	shift
	cat >"$T/$name.c"
	gcc -w -o "$T/$name" "$T/$name.c" -include stdio.h -include stdlib.h -include unistd.h \
		-include signal.h "$@"
}
STEPS='static char in[64], out[64], line[64]; static void step(const char *what) {
	setvbuf(stdin, in, _IOFBF, 64); setvbuf(stdout, out, _IOFBF, 64);
	printf("%s %d\n", what, getpid()); fflush(stdout); if (!fgets(line, 64, stdin)) _exit(0); }
static inline __attribute__((always_inline)) void touch(size_t n) {
	void *p = malloc(n); __asm__ volatile("" : "+r"(p)::"memory"); free(p); }'

@test "through a signal handler, on a stack of its own as well" {
	compile prog -O2 <<-END
		$STEPS
		static char alt[65536];
		__attribute__((noinline)) void handler_work(void) { touch(77); __asm__ volatile(""); }
		static void handler(int s) { handler_work(); __asm__ volatile(""); }
		__attribute__((noinline)) void interrupted(void) { raise(SIGUSR1); __asm__ volatile(""); }
		int main(void) {
			stack_t st = {.ss_sp = alt, .ss_size = sizeof(alt)};
			struct sigaction sa = {.sa_handler = handler};
			step("ready");
			sigaction(SIGUSR1, &sa, NULL); interrupted();
			sigaltstack(&st, NULL); sa.sa_flags = SA_ONSTACK; sigaction(SIGUSR1, &sa, NULL);
			interrupted();
			step("done");
			return 0;
		}
	END
	observe "$T/prog"
	# Both lead from the handler back to what was interrupted, and on to the program's begin.
	[ "$(grep -cE '^stack\|.*\|complete\|handler_work;handler;.*;interrupted;main;' "$T/seen")" = 2 ]
}

@test "a stack deeper than 64 frames is cut, and counted as cut" {
	compile prog -O1 <<-END
		$STEPS
		__attribute__((noinline)) void down(int n)
		{ if (n) down(n - 1); else touch(77); __asm__ volatile(""); }
		int main(void) { step("ready"); down(63 - 4); down(200); down(200); step("done"); return 0; }
	END
	observe "$T/prog"
	grep -x 'alloc.stacks|cut|2' "$T/seen"
	grep -x 'alloc.stacks|complete|1' "$T/seen"
	[ "$(grep '|cut|' "$T/seen" | grep -o 'down' | wc -l)" = 64 ]
}

@test "more stacks than the table holds: the rest is in one sum, and nothing is lost" {
	compile prog -O1 <<-END
		$STEPS
		/* 2^15 ways, each of 16 calls. */
		__attribute__((noinline)) void one(int n, unsigned way);
		__attribute__((noinline)) void two(int n, unsigned way);
		#define GO { if (!n) touch(10); else if (way & 1) one(n - 1, way >> 1); \
			else two(n - 1, way >> 1); __asm__ volatile(""); }
		void one(int n, unsigned way) GO
		void two(int n, unsigned way) GO
		int main(void) { step("ready"); for (unsigned w = 0; w < 32768; w++) one(15, w);
			step("done"); return 0; }
	END
	observe "$T/prog"
	awk -F'|' '$1 == "alloc.stacks" { n[$2] = $3 } $1 == "count" { calls += $3; bytes += $4; rows++ }
		END { print n["complete"], n["lost"], rows, calls, bytes
			exit !(n["lost"] > 0 && n["complete"] + n["lost"] == 32768 && calls == 32768 &&
			bytes == 327680 && rows > 16000 && rows <= 16385) }' "$T/seen"
}

@test "what is given back is not live, by whichever function" {
	"$B/harness/allocwork" calls 20 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	watch
	awk -F'|' '$1 == "count" { live += $5; bytes += $6; n++ }
		END { print n, live, bytes; exit !(n > 20 && !live && !bytes) }' "$T/seen"
}

@test "more live blocks than are kept: a sample of them, within its error" {
	compile prog -O2 <<-END
		$STEPS
		#define N 600000
		static void *kept[N];
		static void *seen(void *p) { __asm__ volatile("" : "+r"(p)); return p; }
		__attribute__((noinline)) void *small(void) { return seen(malloc(24)); }
		__attribute__((noinline)) void *large(void) { return seen(malloc(200)); }
		int main(void) { step("ready");
			for (int i = 0; i < N; i++) kept[i] = i % 8 ? small() : large();
			for (int i = 0; i < N; i += 3) free(kept[i]);
			step("done"); return 0; }
	END
	local rec=$T/r.sonde sonde
	"$T/prog" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" record -p "$work_pid" --lens alloc --alloc-mode exact --sites --yes -d 120s -i 100ms \
		-o "$rec" 2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	until [ "$(sqlite3 -readonly "$rec" 'SELECT count(*) FROM tick' 2>/dev/null || echo 0)" -gt 0 ]; do
		kill -0 "$watch_pid" || { cat "$T/err"; return 1; }
		sleep 0.05
	done
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$watch_pid"
	wait "$watch_pid"
	watch_pid=
	echo >&8
	exec 8>&-
	wait "$work_pid"
	work_pid=
	# 400,000 blocks of 600,000 stay: 350,000 of 24 and 50,000 of 200 bytes.
	sqlite3 -readonly "$rec" "SELECT functions, live_calls, live_bytes, live_error FROM call_site
		WHERE functions LIKE 'small;%' OR functions LIKE 'large;%'" | tee "$T/live"
	awk -F'|' '{ want = $1 ~ /^small/ ? 350000 * 24 : 50000 * 200
		off = $3 - want; off = off < 0 ? -off : off
		bad += !($4 > 0 && $4 < want / 50 && off < 4 * $4); n++ }
		END { exit bad || n != 2 }' "$T/live"
	sqlite3 -readonly "$rec" "SELECT what FROM note WHERE lens = 'alloc'" | grep -q 'blocks are live'
}

# With another allocator preloaded: probed at other places of its functions, and blocks followed as well.
under() { # LIBRARY
	build prog gcc -O2 -fomit-frame-pointer
	PRELOAD=/usr/lib/x86_64-linux-gnu/$1
	[ -e "$PRELOAD" ] || skip "$PRELOAD is not installed"
	observe "$T/prog"
	all_right
}

@test "under jemalloc" {
	under libjemalloc.so.2
}

@test "under tcmalloc" {
	under libtcmalloc.so.4
}

# A program that loads a library at a line, and at the next one allocates through it.
opener() {
	cat >"$T/late.c" <<-'END'
		#include <stdlib.h>
		__attribute__((noinline)) void *late_leaf(size_t n)
		{ void *p = malloc(n); __asm__ volatile("" : "+r"(p)::"memory"); return p; }
		__attribute__((noinline)) void *late_middle(size_t n)
		{ void *p = late_leaf(n + 1); __asm__ volatile("" : "+r"(p)::"memory"); return p; }
		void *late_enter(size_t n)
		{ void *p = late_middle(n + 1); __asm__ volatile("" : "+r"(p)::"memory"); return p; }
	END
	gcc -w -O2 -fomit-frame-pointer -shared -fPIC -o "$T/liblate.so" "$T/late.c"
	compile prog -O2 -include dlfcn.h <<-END
		$STEPS
		int main(void) {
			void *(*enter)(size_t);
			step("ready");
			enter = dlsym(dlopen("$T/liblate.so", RTLD_NOW), "late_enter");
			if ($1) step("opened");
			for (int i = 0; i < 100; i++) enter(100);
			step("done");
			return 0;
		}
	END
}

@test "a library loaded while recording: its stacks are whole from the next interval on" {
	local rec=$T/r.sonde n
	opener 1
	"$T/prog" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" record -p "$work_pid" --lens alloc --alloc-mode exact --sites --yes -d 120s -i 100ms \
		-o "$rec" 2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	until_ticks 1
	echo >&8
	until_line "$T/work" ^opened "$work_pid"
	# The tick that is under way may have read the mappings already; the one after it has not.
	until_ticks $(($(ticks) + 3))
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$watch_pid"
	wait "$watch_pid"
	watch_pid=
	echo >&8
	exec 8>&-
	wait "$work_pid"
	work_pid=
	sqlite3 -readonly "$rec" "SELECT stack_end, functions, calls, bytes, live_calls, live_bytes
		FROM call_site WHERE functions LIKE '%late_leaf%'" | tee "$T/late"
	grep -qE '^complete\|late_leaf;late_middle;late_enter;main;.*\|100\|10200\|100\|10200$' "$T/late"
	[ "$(wc -l <"$T/late")" = 1 ]
}

ticks() {
	sqlite3 -readonly "$rec" 'SELECT count(*) FROM tick' 2>/dev/null || echo 0
}

until_ticks() { # N
	until [ "$(ticks)" -ge "$1" ]; do
		kill -0 "$watch_pid" || { cat "$T/err"; return 1; }
		sleep 0.05
	done
}

# Nothing is read between attach and the end here.
@test "a library loaded since the last interval: its caller is right, and the stack ends as no_map" {
	opener 0
	observe "$T/prog"
	awk -F'|' '$1 == "stack" && $4 ~ /late/' "$T/seen" >"$T/late"
	cat "$T/late"
	grep -qE '^stack\|[0-9a-f]+\|no_map\|late_leaf$' "$T/late"
	[ "$(wc -l <"$T/late")" = 1 ]
	[ "$(awk -F'|' '$1 == "alloc.stacks" && $2 == "no_map" { print $3 }' "$T/seen")" -ge 100 ]
}

# Every instruction of the innermost function as a stack's begin: between its prologue and its return the
# frame has as many shapes as there are instructions. Each way counts once for each of them.
from_anywhere() { # PROGRAM
	local n
	"$1" 100 500 2 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/bench/stackat" "$work_pid" lv_leaf <"$T/stop" >"$T/seen" 2>"$T/err" 3>&- 8>&- &
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
	n=$(sed -n 's/^attached //p' "$T/seen")
	[ "$n" -ge 5 ]
	awk -F'|' -v n="$n" '$1 == "truth" { c[$2] += $3 * n }
		END { for (k in c) if (c[k]) print k "|" c[k] }' "$T/work" | sort >"$T/want"
	awk -F'|' '$1 == "stack" { way = $3
			if ($2 != "complete" || !sub(/;lv_enter;.*/, ";lv_enter", way)) way = $2 ";" way
			c[way] += $4 }
		END { for (k in c) print k "|" c[k] }' "$T/seen" | sort >"$T/got"
	diff "$T/want" "$T/got" | head -20
	cmp "$T/want" "$T/got"
	[ "$(wc -l <"$T/want")" -gt 50 ]
}

@test "from the middle of a function, at each of its instructions: -O2" {
	build prog gcc -O2 -fomit-frame-pointer
	from_anywhere "$T/prog"
}

@test "from the middle of a function, at each of its instructions: -O0" {
	build prog gcc -O0
	from_anywhere "$T/prog"
}

@test "from the middle of a function, at each of its instructions: frame pointers alone" {
	build prog gcc -O2 -fno-omit-frame-pointer "${NO_TABLES[@]}"
	from_anywhere "$T/prog"
}
