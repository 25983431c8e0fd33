#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The ask lens against a server that asks its allocator at each request (tests/harness/askwork.h): calls
# and callers exactly, the share of the CPU against the program's own CPU clock.

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	lib=/usr/lib/x86_64-linux-gnu
	mkfifo "$T/go"
}

teardown() {
	local pid

	for pid in "$work_pid" "$sonde_pid"; do
		[ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
	done
}

# observe COMMAND...: run it under the lens, $T/json is the summary. PRELOAD, SONDE_ARGS: see below.
observe() {
	LD_PRELOAD=${PRELOAD:-} "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	# shellcheck disable=SC2086 # several arguments
	"$B/sonde" stat -p "$work_pid" --lens ask,rss -i 100ms --json ${SONDE_ARGS:-} >"$T/out" 2>"$T/err" \
		3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" interval "$sonde_pid" || { cat "$T/err"; return 1; }
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	exec 9>&-
	wait "$work_pid"
	work_pid=
	grep '"summary"' "$T/out" >"$T/json"
	cat "$T/err" "$T/work"
	jq -c '.drops, (.notes[] | .what)' "$T/json"
	jq -c '.metrics[] | select(.name | startswith("ask.")) | [.name, .label, .value // .absent]' "$T/json"
}

worked() { # NAME: what the program printed
	sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" "$T/work"
}

metric() { # NAME LABEL
	jq --arg n "$1" --arg l "$2" '[.metrics[] | select(.name == $n and (.label // "") == $l) | .value] |
		add' "$T/json"
}

# calls_from FUNCTION CALLER: those whose caller's text begins so
calls_from() {
	jq --arg l "$1 < $2" '[.metrics[] | select(.name == "ask.caller_calls") |
		select(.label | startswith($l)) | .value] | add' "$T/json"
}

holds() { # EXPRESSION
	awk "BEGIN { print \"$*\"; exit !($*) }"
}

# called FUNCTION NAME N: N calls, three of four from NAME_report and the fourth from NAME_limit
called() {
	[ "$(metric ask.calls "$1")" -eq "$3" ]
	[ "$(calls_from "$1" "$2_report+0x")" -eq $(($3 - $3 / 4)) ]
	[ "$(calls_from "$1" "$2_limit+0x")" -eq $(($3 / 4)) ]
	[ "$(jq '.drops | length' "$T/json")" -eq 0 ]
}

# The program's clock is read outside the calls, by a system call: it has a little more in them.
share_is_right() { # at least PART of what the program says, and no more than 3 % over
	local own got
	own=$(awk -v a="$(worked asked_ns)" -v c="$(worked cpu_ns)" 'BEGIN { print a / c }')
	got=$(metric ask.cpu_share "")
	holds "$got >= $1 * $own && $got <= 1.03 * $own + 0.002"
}

for_each_link() {
	local kind
	for kind in session multi perf; do
		SONDE_FORCE_LINK=$kind "$@" || { echo "link kind $kind"; return 1; }
		rm -f "$T/work" "$T/out"
	done
}

plain_function() {
	observe "$B/harness/askwork" mallinfo2 300 1000000 80000
	called mallinfo2 mallinfo2 300
	share_is_right 0.9
}

@test "a C function: calls, callers and share, by every kind of link" {
	for_each_link plain_function
}

ends_function() {
	observe "$B/harness/askwork" malloc_info 300 1000000 80000
	called malloc_info malloc_info 300
	share_is_right 0.9
}

@test "a function that runs code of the program: by its ends, which lie behind a jump" {
	for_each_link ends_function
}

@test "the diagnosis names function, share and callers" {
	observe "$B/harness/askwork" mallinfo2 200 500000 80000
	jq -r '.diagnosis[] | select(.cause == "asking") | .text' "$T/json" >"$T/text"
	cat "$T/text"
	what="^asking the allocator for statistics takes [0-9]+ % of the target's CPU"
	what+=" \([0-9.]+ % of a CPU\): mallinfo2 [0-9]+ % "
	who="called from mallinfo2_report\+0x[0-9a-f]+ \(askwork\) [0-9]+ %, mallinfo2_limit\+"
	grep -Eq "$what\(.*$who" "$T/text"
	said=$(sed -n 's/.* takes \([0-9]*\) %.*/\1/p' "$T/text")
	holds "$said - 100 * $(metric ask.cpu_share "") < 1 && 100 * $(metric ask.cpu_share "") - $said < 1"
}

@test "tcmalloc's C wrapper: one call, the wrapper's caller" {
	PRELOAD=$lib/libtcmalloc.so.4 observe "$B/harness/askwork" numeric 300 1000000 2000
	called MallocExtension_GetNumericProperty numeric 300
	[ "$(metric ask.calls MallocExtension::GetNumericProperty)" = null ]
}

@test "tcmalloc's wrapper that jumps to the virtual function: the caller is still right" {
	PRELOAD=$lib/libtcmalloc.so.4 observe "$B/harness/askwork" stats 300 1000000 2000
	called MallocExtension::GetStats stats 300
}

@test "jemalloc's mallctl" {
	PRELOAD=$lib/libjemalloc.so.2 observe "$B/harness/askwork" mallctl 300 1000000 2000
	called mallctl mallctl 300
	# A call takes some 10 us: what is left of sonde's own traps in it is at most 1 us.
	holds "$(metric ask.cpu mallctl) <= $(worked asked_ns)"
	holds "$(metric ask.cpu mallctl) > 0"
}

@test "a program linked statically with tcmalloc, asking by the virtual function" {
	observe "$B/harness/asktc" 300 1000000 2000
	called MallocExtension::GetNumericProperty property 300
}

@test "a stripped caller is its module and where in it" {
	strip -o "$T/asker" "$B/harness/askwork"
	at=$((0x$(nm "$B/harness/askwork" | awk '$3 == "mallinfo2_report" { print $1 }')))
	observe "$T/asker" mallinfo2 100 100000 2000
	[ "$(metric ask.calls mallinfo2)" -eq 100 ]
	from=$(jq -r '.metrics[] | select(.name == "ask.caller_calls" and .value == 75) | .label' "$T/json")
	echo "from $from, mallinfo2_report is at $at"
	[[ $from == "mallinfo2 < asker+0x"* ]]
	offset=$((${from##*+}))
	[ $offset -gt $at ]
	[ $offset -lt $((at + 64)) ]
}

@test "nobody asks: nothing is said, nothing is paid" {
	observe "$B/harness/askwork" nothing 300 100000 2000
	[ "$(metric ask.cpu_share "")" = 0 ]
	[ "$(metric ask.calls mallinfo2)" = null ]
	[ "$(jq '[.diagnosis[] | select(.cause == "asking")] | length' "$T/json")" -eq 0 ]
	[ "$(metric cost.hits ask)" = null ] || [ "$(metric cost.hits ask)" -eq 0 ]
}

@test "passive: absent, with the reason" {
	SONDE_ARGS=--passive observe "$B/harness/askwork" mallinfo2 100 100000 2000
	jq -e '.metrics[] | select(.name == "ask.cpu_share") | .absent | contains("--passive")' "$T/json"
}

@test "asked at every turn: short windows, within the budget, and the share still right" {
	observe "$B/harness/askwork" mallinfo2 300000 500 1500
	jq -e '.notes[] | select(.lens == "ask") | .what | contains("short windows")' "$T/json"
	calls=$(metric ask.calls mallinfo2)
	holds "$calls > 100 && $calls < 290000"
	holds "$(metric ask.observed_ratio "") < 0.9"
	# Always on they would cost at least 1 us a call.
	holds "$(metric cost.probe_time "") < 300000 * 1000 * 0.8"
	called_from=$(calls_from mallinfo2 mallinfo2_report)
	holds "$called_from >= 0.74 * $calls && $called_from <= 0.76 * $calls"
	share_is_right 0.6
}

# Bytes of the program's code that are not what its files say.
probe_bytes() {
	"$B/harness/textdiff" "$work_pid" | tail -1
}

@test "sonde is stopped: the guard takes the probes, and sonde goes on when it may" {
	"$B/harness/askwork" mallinfo2 100000000 100000 400 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" --lens ask,rss -i 100ms --json >"$T/out" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" interval "$sonde_pid"
	echo >&9
	until [ "$(probe_bytes)" -gt 0 ]; do kill -0 "$work_pid"; done
	kill -STOP "$sonde_pid"
	until [ "$(probe_bytes)" -eq 0 ]; do
		kill -0 "$work_pid"
		sleep 0.1
	done
	lines=$(wc -l <"$T/out")
	kill -CONT "$sonde_pid"
	until [ "$(wc -l <"$T/out")" -ge $((lines + 3)) ]; do kill -0 "$sonde_pid"; sleep 0.1; done
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	grep '"summary"' "$T/out" >"$T/json"
	[ "$(jq -r .ended "$T/json")" = signal ]
	jq -e '.notes[] | select(.what | startswith("ask: its probes were removed by their guard"))' "$T/json"
	[ "$(metric ask.calls mallinfo2)" -gt 0 ]
}
