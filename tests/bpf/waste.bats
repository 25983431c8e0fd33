#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What is free in a heap, what was never touched and what the program mapped itself, each told from the
# others (tests/harness/wastework.c), with mallinfo2() of the program at rest as the truth.

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/in"
}

teardown() {
	[ -z "$work_pid" ] || { kill -KILL "$work_pid" && wait "$work_pid"; } 2>/dev/null || true
}

# begin MODE: $free, $used and $mapped are what the program says
begin() {
	"$B/harness/wastework" "$1" <"$T/in" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/in"
	until grep -q ^ready "$T/work"; do
		kill -0 "$work_pid"
		sleep 0.02
	done
	read -r _ free used mapped <"$T/work"
}

# look ARGUMENTS...: $T/json is the summary
look() {
	"$B/sonde" stat -p "$work_pid" --lens rss,alloc --json "$@" >"$T/json" 3>&- 9>&-
	jq -r '.diagnosis[] | "\(.question) \(.answer) \(.text)"' "$T/json"
}

metric() { # NAME: the sum over labels
	jq --arg n "$1" '[.metrics[] | select(.name == $n and .value != null) | .value] | add' "$T/json"
}

finding() { # CAUSE ANSWER WORDS
	jq -e --arg c "$1" --arg a "$2" --arg w "$3" \
		'[.diagnosis[] | select(.cause == $c and .answer == $a) | select(.text | test($w))] |
			length == 1' "$T/json" >/dev/null
}

# What a thread caches is in use for mallinfo2(): seven blocks of a size at most.
near() { # GOT WANTED
	echo "got $1, the program says $2"
	[ $(($1 - $2)) -le 16384 ] && [ $(($2 - $1)) -le 16384 ]
}

@test "free memory in lists is told beside live memory that was never touched" {
	begin untouched
	look -d 0
	near "$(metric alloc.free)" "$free"
	[ "$(metric alloc.heap_mapped)" = "$mapped" ]
	# 34 MiB are free of 40 that are resident; live is 105 MiB.
	finding retention yes '^the allocator keeps freed memory: about 33\.[0-9] MiB .*beyond the 4\.8'
	finding leak cannot_tell '^cannot tell from one reading$'
}

@test "what the program mapped itself is not the allocator's" {
	begin mapped
	look -d 0
	finding allocator no '^at most [0-9.]+ KiB \(0 %\)'
	finding allocator no '; at least 3[12]\.[0-9] MiB is mapped by the program itself$'
	[ "$(jq '[.diagnosis[] | select(.cause == "huge_pages")] | length' "$T/json")" = 0 ]
}

@test "exact mode knows what was live at attach" {
	begin untouched
	look -d 1s --alloc-mode exact --yes
	near "$(metric alloc.allocated)" $((used + mapped))
	[ "$(metric alloc.live)" = 0 ]
	finding allocator cannot_tell 'what the allocator has free is not known'
}

@test "why live is not known is said by its reason" {
	begin untouched
	"$B/sonde" stat -p "$work_pid" --lens rss -d 0 >"$T/out" 3>&- 9>&-
	grep -q 'live or free: cannot split, the allocator was not asked: it takes alloc in --lens,' "$T/out"
	grep -q '^Allocator/THP? .* the allocator was not asked' "$T/out"
	"$B/sonde" stat -p "$work_pid" --passive -d 0 >"$T/out" 3>&- 9>&-
	grep -q 'live or free: cannot split, --passive does not read' "$T/out"
}

@test "no pid of a process that has gone is advised" {
	begin untouched
	"$B/sonde" stat -p "$work_pid" -d 60s -i 100ms >"$T/out" 2>&1 3>&- 9>&- &
	local sonde_pid=$!
	until [ "$(grep -c '^[0-9][0-9]:' "$T/out")" -ge 2 ]; do
		kill -0 $sonde_pid
		sleep 0.02
	done
	exec 9>&-
	wait "$work_pid"
	wait $sonde_pid
	cat "$T/out"
	[ "$(grep -c -e "-p $work_pid" "$T/out")" = 0 ]
	grep -q '^Next: sonde record -n wastework ' "$T/out"
}
