#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Exact mode on every allocator in every form: preloaded, needed, built in with and without its symbols,
# under a prefix, loaded while it is observed. What is live is compared with what the allocator says of
# itself: mallctl's stats.allocated, MallocExtension's current_allocated_bytes.

bats_require_minimum_version 1.5.0

load alloc_helpers

lib=/usr/lib/x86_64-linux-gnu

# 8 threads give back each other's blocks, by C's and C++'s functions in all forms.
churn() { # KIND OPERATIONS
	observe "$1" churn "$2"
	live_as_told
	few_dropped
	grep -q "^link|alloc.give|uprobe_${1/session/multi}|" "$T/seen"
}

preloaded() { # GLOB KIND OPERATIONS
	preload "$1"
	churn "$2" "$3"
}

@test "jemalloc, session links: live bytes after a million operations are its own" {
	preloaded 'libjemalloc.so.2' session 1000000
}

@test "jemalloc, multi links: live bytes are its own" {
	preloaded 'libjemalloc.so.2' multi 200000
}

@test "jemalloc, perf links: live bytes are its own" {
	preloaded 'libjemalloc.so.2' perf 200000
}

@test "gperftools, session links: live bytes after a million operations are its own" {
	preloaded 'libtcmalloc.so.4' session 1000000
}

@test "gperftools, multi links: live bytes are its own" {
	preloaded 'libtcmalloc.so.4' multi 200000
}

@test "gperftools, perf links: live bytes are its own" {
	preloaded 'libtcmalloc.so.4' perf 200000
}

@test "gperftools minimal: live bytes are its own" {
	preloaded 'libtcmalloc_minimal.so.4' session 200000
}

# jemalloc rounds by other classes, and gperftools to fewer, when asked to by the environment.
@test "gperftools with classes of other numbers of objects: live bytes are its own" {
	preload 'libtcmalloc_minimal.so.4'
	with+=(TCMALLOC_TRANSFER_NUM_OBJ=400)
	churn session 100000
}

@test "jemalloc without caches and with purging at once: live bytes are its own" {
	preload 'libjemalloc.so.2'
	with+=(MALLOC_CONF=tcache:false,dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1)
	churn session 100000
}

# What was there before attach is looked up like any other block.
@test "memory from before attach that is given back makes live bytes negative, exactly" {
	local one
	for one in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
		preload "$one"
		observe session older 10000
		live_as_told
		[ "$(seen live "")" -lt 0 ]
		[ "$(seen calls free)" = 10000 ]
	done
}

# Of the names that share an address only the first is known: free is delete, memalign serves the
# aligned kinds (with its own failures of alignment before it), reallocarray is libc's and runs realloc
# unless its product overflows.
all_functions() { # KIND
	preload 'libtcmalloc_minimal.so.4'
	observe "$1" calls 56
	grep "^link|alloc.return|uprobe_$1|" "$T/seen"
	[ "$(seen calls malloc)" = "$(did calls malloc)" ]
	[ "$(seen requested malloc)" = "$(did bytes malloc)" ]
	[ "$(seen failed malloc)" = "$(did failed malloc)" ]
	[ "$(seen calls calloc)" = "$(did calls calloc)" ]
	[ "$(seen requested calloc)" = "$(did bytes calloc)" ]
	[ "$(seen failed calloc)" = "$(did failed calloc)" ]
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
	[ "$(seen live "")" = 0 ]
	[ "$(seen handed_out "")" -gt 0 ]
	nothing_dropped
}

@test "gperftools, session links: calls, bytes and failures by entry point are exact" {
	all_functions session
}

@test "gperftools, perf links: calls, bytes and failures by entry point are exact" {
	all_functions perf
}

@test "jemalloc: each operation is counted once, and what it hands out it takes back" {
	preload 'libjemalloc.so.2'
	observe session calls 56
	[ "$(seen calls malloc)" = "$(did calls malloc)" ]
	[ "$(seen failed malloc)" = "$(did failed malloc)" ]
	[ "$(seen calls calloc)" = "$(did calls calloc)" ]
	[ "$(seen calls realloc)" = $(($(did calls realloc reallocarray) - $(did failed reallocarray))) ]
	# operator new with an alignment runs aligned_alloc
	[ $(($(seen calls "operator new") + $(seen calls memalign))) = \
		"$(did calls "operator new" memalign)" ]
	[ $(($(seen calls free) + $(seen calls "operator delete (sized)"))) = \
		"$(did calls free "operator delete" "operator delete (sized)")" ]
	[ "$(seen live "")" = 0 ]
	[ "$(seen handed_out "")" -gt 0 ]
	nothing_dropped
}

@test "jemalloc: mallocx, rallocx, xallocx, dallocx and sdallocx count once, nallocx and sallocx not" {
	preload 'libjemalloc.so.2'
	observe session extended 56
	for f in malloc realloc free "operator delete (sized)"; do
		[ "$(seen calls "$f")" = "$(did calls "$f")" ]
		[ "$(seen requested "$f")" = "$(did bytes "$f")" ]
	done
	[ "$(seen live "")" = 0 ]
	nothing_dropped
}

throws() { # LIBRARY
	preload "$1"
	observe session throw 100
	[ "$(seen calls "operator new")" = "$(did calls "operator new")" ]
	[ "$(seen failed "operator new")" = "$(did failed "operator new")" ]
	[ "$(seen live "")" = 0 ]
}

@test "operator new that throws is a failure, and nothing was handed out" {
	throws 'libjemalloc.so.2'
	throws 'libtcmalloc_minimal.so.4'
}

# A busy target: malloc and free in turn, so at most one block a thread is live at any time.
@test "sonde stat: attaching to a busy program of each allocator leaves no block half counted" {
	local one live calls
	for one in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
		preload "$one"
		rm -f "$T/work"
		env "${with[@]}" "$B/harness/allocwork" loop >"$T/work" 3>&- &
		work_pid=$!
		until_line "$T/work" ^ready "$work_pid"
		"$B/sonde" stat -p "$work_pid" --lens alloc,rss,query --alloc-mode exact --yes -d 300ms \
			--json >"$T/out" 2>"$T/err" 3>&-
		tail -n 1 "$T/out" >"$T/json"
		live=$(jq '.metrics[] | select(.name == "alloc.live") | .value' "$T/json")
		calls=$(jq '[.metrics[] | select(.name == "alloc.calls") | .value] | add' "$T/json")
		echo "$one: live $live after $calls calls"
		[ "$calls" -gt 1000 ]
		[ "${live#-}" -le 2064 ] # one block at either end
		kill -KILL "$work_pid"
		wait "$work_pid" || true
		work_pid=
	done
}

# ---- other forms of linking ----

build() { # NAME LINKER-ARGUMENTS...
	program=$T/$1
	shift
	g++ -std=c++17 -O2 -faligned-new -fsized-deallocation tests/harness/allocwork.cpp -o "$program" \
		"$@" -lpthread
}

whole() { # ARCHIVE: linker arguments that take all of it
	[ -e "$lib/$1" ] || skip "$1 is not installed"
	printf '%s\n' -Wl,--whole-archive "$lib/$1" -Wl,--no-whole-archive -ldl -lm
}

with=(ALLOCWORK_NO_PVALLOC=1)

@test "needed libraries: jemalloc and gperftools" {
	build needs-jemalloc -Wl,--no-as-needed $lib/libjemalloc.so.2
	churn session 100000
	build needs-tcmalloc -Wl,--no-as-needed $lib/libtcmalloc_minimal.so.4
	churn session 100000
}

@test "gperftools built in, with symbols and stripped to .dynsym" {
	mapfile -t args < <(whole libtcmalloc_minimal.a)
	build built-in "${args[@]}"
	churn session 100000
	strip -s "$program"
	churn multi 100000
}

@test "jemalloc built in, with symbols and stripped to .dynsym" {
	mapfile -t args < <(whole libjemalloc.a)
	build built-in "${args[@]}"
	churn session 100000
	strip -s "$program"
	churn multi 100000
}

# ---- an allocator beside the system's own ----

# sonde in step with a program that loads another allocator meanwhile.
watch_opener() { # LIBRARY
	env "${env[@]}" "$B/harness/allocopen" "$1" 20000 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" --lens alloc,rss,query --alloc-mode exact --yes -d 10m -i 100ms \
		--json >"$T/out" 2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	until_line "$T/out" interval "$watch_pid" || { cat "$T/err"; false; }
}

has_probes_in() { # NAME
	"$B/harness/textdiff" "$work_pid" | awk -v n="$1" '$1 > 0 && index($4, n) { f = 1 } END { exit !f }'
}

finish_opener() {
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$watch_pid"
	wait "$watch_pid"
	watch_pid=
	exec 8>&-
	tail -n 1 "$T/out" | jq -r '.metrics[] | select(.name | startswith("alloc.")) |
		"\(.name)|\(.label // "")|\(.value)"' >"$T/seen"
	cat "$T/work" "$T/seen"
}

opened() { # LIBRARY
	local lines
	watch_opener "$lib/$1"
	echo >&8
	until_line "$T/work" ^opened "$work_pid" || { cat "$T/work"; false; }
	until has_probes_in "${1%%.*}"; do
		kill -0 "$watch_pid"
		sleep 0.05
	done
	lines=$(wc -l <"$T/out") # two intervals on, it counts
	until [ "$(wc -l <"$T/out")" -gt $((lines + 2)) ]; do
		kill -0 "$watch_pid"
		sleep 0.05
	done
	echo >&8
	finish_opener
	tail -n 1 "$T/out" | jq -e --arg l "$1" '[.notes[] | select(.what | contains("has loaded") and
		contains($l))] | length == 1'
	live_as_told
	# What its loader asked the system's allocator for comes on top.
	[ "$(seen calls malloc)" -ge "$(did calls malloc)" ]
	[ "$(seen calls malloc)" -lt $(($(did calls malloc) + 100)) ]
	[ "$(seen calls realloc)" = "$(did calls realloc)" ]
	[ "$(seen requested realloc)" = "$(did bytes realloc)" ]
}

@test "gperftools loaded by dlopen while it is observed is attached, and exact from there" {
	env=()
	opened libtcmalloc_minimal.so.4
}

# A command is attached to at its first instruction, when its allocator has no tables yet.
@test "sonde run: live bytes are known once the allocator has set itself up" {
	"$B/sonde" run --alloc jemalloc --alloc-mode exact --yes -d 6s -i 100ms -o "$T/r.sonde" \
		-- "$B/harness/allocwork" loop >"$T/out" 2>"$T/err" </dev/null 3>&-
	live=$(sqlite3 "$T/r.sonde" "SELECT value FROM value JOIN series s ON s.id = series
		WHERE s.name = 'alloc.live' AND value IS NOT NULL ORDER BY ts_ns DESC LIMIT 1")
	echo "live $live"
	sqlite3 "$T/r.sonde" 'SELECT what FROM note' | grep 'its tables are there now'
	[ -n "$live" ]
	[ "${live%.*}" -ge -2064 ] && [ "${live%.*}" -le 2064 ]
}

# Its thread-local storage fits only where the loader was told to keep room for it.
@test "jemalloc loaded by dlopen while it is observed is attached, and exact from there" {
	env=(GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384)
	opened libjemalloc.so.2
}

# As redis and rust programs have it: the system's malloc serves the others.
@test "jemalloc built in under a prefix is counted beside the system's malloc" {
	[ -e $lib/libjemalloc.a ] || skip "libjemalloc.a is not installed"
	nm --defined-only $lib/libjemalloc.a 2>/dev/null | awk '$2 == "T" && $3 !~ /^(je_|_Z)/ {
		print $3, "je_" $3 }' | sort -u >"$T/names"
	objcopy --redefine-syms="$T/names" $lib/libjemalloc.a "$T/libje.a"
	gcc -O2 -DBUILT_IN tests/harness/allocopen.c -o "$T/allocopen" "$T/libje.a" -ldl -lm -lpthread \
		-lstdc++
	"$T/allocopen" built-in 20000 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	echo >&8
	until_line "$T/work" ^opened "$work_pid"
	"$B/bench/allocattach" "$work_pid" <"$T/stop" >"$T/seen" 2>"$T/err" 3>&- 8>&- &
	watch_pid=$!
	exec 9>"$T/stop"
	until_line "$T/seen" ^attached "$watch_pid" || { cat "$T/err"; false; }
	echo >&8
	until_line "$T/work" ^done "$work_pid"
	echo >&9
	wait "$watch_pid"
	watch_pid=
	exec 8>&- 9>&-
	cat "$T/work" "$T/seen" "$T/err"
	live_as_told
	[ "$(seen calls malloc)" = "$(did calls malloc)" ]
	[ "$(seen requested malloc)" = "$(did bytes malloc)" ]
	[ "$(seen calls realloc)" = "$(did calls realloc)" ]
}
