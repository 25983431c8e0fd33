#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The fault lens against programs that take a known number of faults (tests/harness/faultwork.c).

setup_file() {
	# Who asks for a huge page must get it: memory that other tests left in pieces is moved together.
	[ ! -w /proc/sys/vm/compact_memory ] || echo 1 >/proc/sys/vm/compact_memory
}

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go"
}

teardown() {
	local pid

	for pid in "$work_pid" "$sonde_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	done
	[ -z "$restore" ] || eval "$restore"
}

# Until FILE has a line that matches, or the program that writes it is gone.
until_line() { # FILE PATTERN PID
	until grep -q "$2" "$1" 2>/dev/null; do
		kill -0 "$3" || return 1
		sleep 0.02
	done
}

# observe KIND COUNT [THREADS]: run faultwork under the fault lens, $T/json is the summary.
observe() {
	"${launch[@]}" "$B/harness/faultwork" "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$(awk '/^ready/{print $2}' "$T/work")" "${options[@]}" --lens fault \
		-i 100ms --json \
		>"$T/out" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" interval "$sonde_pid"
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	exec 9>&-
	wait "$work_pid"
	work_pid=
	grep '"summary"' "$T/out" >"$T/json"
	cat "$T/err"
}

worked() { # NAME: what faultwork printed
	sed -n "s/^done.*$1=\([0-9]*\).*/\1/p" "$T/work"
}

count() { # SERIES
	jq --arg s "$1" '[.metrics[] | select(.name == "fault.count" and .label == $s) | .value] |
		add // 0' "$T/json"
}

drops() { # CAUSE
	jq --arg c "fault.$1" '.drops[$c] // 0' "$T/json"
}

# near GOT WANT: at least WANT, and at most 0.5 % and 40 (start of threads, the C library) more
near() {
	echo "got $1, wanted $2"
	[ "$1" -ge "$2" ] && [ "$1" -le $(($2 + $2 / 200 + 40)) ]
}

@test "32,768 pages touched with huge pages forbidden are 32,768 base faults" {
	observe base 64
	near "$(count base.minor)" 32768
	[ "$(count pmd.minor)" = 0 ]
	near "$(count base.minor)" "$(worked minflt)"
}

@test "64 touches with huge pages advised are 64 faults of 2 MiB" {
	grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled && skip "huge pages are off (never)"
	observe huge 64
	[ "$(count pmd.minor)" = 64 ]
	near "$(count base.minor)" 0
}

@test "the histogram holds every fault, and its sum is the time" {
	observe base 16
	hist='.histograms[] | select(.name == "fault.latency" and .label == "base.minor")'
	n=$(jq "[$hist | .count] | add" "$T/json")
	mean=$(jq "$hist | .mean" "$T/json")
	time=$(jq '.metrics[] | select(.name == "fault.time" and .label == "base.minor") | .value' "$T/json")
	[ "$n" = "$(count base.minor)" ]
	jq -en --argjson n "$n" --argjson m "$mean" --argjson t "$time" '($n * $m / $t - 1) | fabs < 0.02'
}

@test "pages first touched by read(2) are faults from kernel code" {
	observe kernel 16
	near "$(count kernel_base.minor)" 8192
	near "$(count base.minor)" 0
}

@test "copies after fork are base faults" {
	observe cow 16
	near "$(count base.minor)" 8192
}

@test "pages of a file that is not cached are major faults" {
	observe major 32
	[ "$(worked majflt)" = 32 ] || skip "the file system of /var/tmp keeps its pages cached"
	[ "$(count base.major)" = 32 ]
}

@test "four threads started after attach are seen whole" {
	observe base 16 4
	near "$(count base.minor)" 32768
}

@test "with --children each child's faults are its own" {
	options=(--children)
	observe children 4
	# A child begins with copies of pages that it shares with its parent: some dozens of faults.
	mine=$(jq -c '[.metrics[] | select(.name == "fault.count" and .label == "base.minor") |
		.value - 512 | select(. >= 0 and . < 200)]' "$T/json")
	echo "$mine"
	[ "$(jq length <<<"$mine")" = 4 ]
	[ "$(drops no_end)" = 0 ]
}

@test "without --children they are not counted" {
	observe children 4
	[ "$(count base.minor)" -lt 200 ]
}

@test "populated pages raise no fault" {
	observe populate 16
	near "$(count base.minor)" 0
}

@test "a refused access is a begin without an end, and the faults around it are right" {
	observe refused 16
	[ "$(drops no_end)" = 16 ]
	near "$(count base.minor)" 32
	[ "$(count base.minor)" -le 36 ]
}

@test "without typed tracepoints the raw ones count the same" {
	export SONDE_WITHOUT=tp_btf
	observe base 16
	near "$(count base.minor)" 8192
	[ "$(jq '[.meta | .. | strings | select(contains("fault_user_raw"))] | length' "$T/json")" -gt 0 ]
}

@test "without the software events faults are only counted, and that is told" {
	export SONDE_WITHOUT=perf_sw
	observe base 16
	near "$(count unsized)" 8192
	[ "$(count base.minor)" = 0 ]
	jq -e '.metrics[] | select(.name == "fault.time") | has("value") | not' "$T/json"
	jq -e '.metrics[] | select(.name == "fault.time") | .absent' "$T/json"
	jq -e '[.notes[] | select(.level == "degraded" and (.what | contains("no fault latency")))] |
		length == 1' "$T/json"
	[ "$(drops no_end)" = 0 ]
}

@test "nothing else is dropped" {
	observe base 64
	[ "$(jq '[.drops | to_entries[] | select(.key | startswith("fault"))] | length' "$T/json")" = 0 ]
}

@test "64 KiB pages are counted as mthp" {
	size=/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled
	[ -w $size ] || skip "the kernel has no $size"
	restore="echo $(sed 's/.*\[\(.*\)\].*/\1/' $size) >$size"
	echo madvise >$size
	observe mthp 16
	[ "$(count mthp.minor)" = 256 ]
	[ "$(count pmd.minor)" = 0 ]
}

@test "a huge page that the memory cgroup refuses is not counted as one" {
	grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled && skip "huge pages are off (never)"
	local group=/sys/fs/cgroup/memory/sonde-test-$$
	mkdir "$group" 2>/dev/null && [ -e "$group/memory.limit_in_bytes" ] ||
		skip "no memory cgroup (v1) here"
	restore="rmdir $group"
	echo 1600000 >"$group/memory.limit_in_bytes"
	launch=(bash -c 'echo $BASHPID >'"$group"'/cgroup.procs; exec "$0" "$@"')
	observe huge 16
	[ "$(count pmd.minor)" = 0 ]
	near "$(count base.minor)" 16
}
