#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The fault lens against programs that take a known number of faults (tests/harness/faultwork.c).

load pair_helpers

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

# observe KIND COUNT [THREADS]: run faultwork under the fault lens, $T/json is the summary.
observe() {
	rm -f "$T/work" "$T/out"
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

value() { # METRIC [LABEL]: 0 if there is none
	jq --arg m "$1" --arg s "${2-}" '[.metrics[] | select(.name == $m and (.label // "") == $s) |
		.value] | add // 0' "$T/json"
}

total() { # METRIC: over all labels
	jq --arg m "$1" '[.metrics[] | select(.name == $m) | .value] | add // 0' "$T/json"
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

@test "timed in full the histogram holds every fault, and its sum is the time" {
	options=(--fault-mode full)
	observe base 16
	hist='.histograms[] | select(.name == "fault.latency" and .label == "base.minor")'
	n=$(jq "[$hist | .count] | add" "$T/json")
	mean=$(jq "$hist | .mean" "$T/json")
	[ "$n" = "$(count base.minor)" ]
	jq -en --argjson n "$n" --argjson m "$mean" --argjson t "$(value fault.time base.minor)" \
		'($n * $m / $t - 1) | fabs < 0.02'
	[ "$(value fault.time_error base.minor)" = 0 ] # there is none: nothing is estimated
}

@test "sampled, faults are counted exactly, and the time that is told is near, with its error" {
	observe base 64
	near "$(count base.minor)" 32768
	n=$(jq '[.histograms[] | select(.name == "fault.latency" and .label == "base.minor") | .count] |
		add' "$T/json")
	# One in 16 was timed and stands for those that were not; the last ones may have none to stand for
	# them, fewer than one sample's worth (on each CPU that the thread was on since the last reading).
	echo "$n of $(count base.minor) in the histogram"
	[ "$n" -le "$(count base.minor)" ]
	[ "$n" -ge $(($(count base.minor) - 16)) ]
	jq -en --argjson e "$(value fault.time_error base.minor)" '$e > 0'
	# Its own clock sums up to more, by the exceptions and whatever else ran in between.
	jq -en --argjson t "$(value fault.time base.minor)" \
		--argjson e "$(value fault.time_error base.minor)" --argjson own "$(worked ns)" \
		'$t - $e < $own and $t > 0'
}

@test "the rows by page add up to the faults, which are those that the kernel counts" {
	"$B/harness/faultwork" cow 8 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" --lens fault,proc -i 100ms --fault-by thread \
		>"$T/out" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" fault/s "$sonde_pid"
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	exec 9>&-
	cat "$T/out"
	total=$(awk '/^Page faults/{gsub(",", "", $3); print $3}' "$T/out")
	rows=$(awk '/^  by /{on = $2 == "page"} on && /^    /{
		sub(/  mean.*|  latency.*/, ""); gsub(",", "", $NF); sum += $NF} END{print sum}' "$T/out")
	[ "$rows" = "$total" ]
	near "$total" "$(worked minflt)"
}

# by_own_clock KIND COUNT FILTER: is the lens's latency that of the program's own clock? A machine that
# is busy may disturb one run, in the program's clock alone; it cannot disturb three in a row.
by_own_clock() {
	options=(--fault-mode full)
	launch=(taskset -c 0)
	for _ in 1 2 3; do
		observe "$1" "$2"
		jq -e --argjson ns "$(worked ns)" --argjson p50 "$(worked p50)" \
			--argjson exception "$(value fault.exception)" "$3" "$T/json" && return
	done
	return 1
}

@test "2 MiB faults last as long as the program's own clock says, within 5 %" {
	grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled && skip "huge pages are off (never)"
	by_own_clock huge 64 '[.metrics[] | select(.name == "fault.time" and .label == "pmd.minor") |
		.value] | add | ((. + 64 * $exception) / $ns - 1) | fabs < 0.05'
}

@test "base faults last as long as the program's own clock says, within 10 %, with the exception" {
	by_own_clock base 32 '.histograms[] |
		select(.name == "fault.latency" and .label == "base.minor") | [.p50, $exception, $p50] |
		debug | ((.[0] + .[1]) / .[2] - 1) | fabs < 0.1'
}

@test "pages first touched by read(2) are faults from kernel code" {
	observe kernel 16
	near "$(count kernel_base.minor)" 8192
	near "$(count base.minor)" 0
}

@test "reads of pages never written map the zero page" {
	observe zero 16
	near "$(count zero.minor)" 8192
	near "$(count base.minor)" 0
	observe hugezero 16
	near "$(count zero.minor)" 16
	[ "$(count pmd.minor)" = 0 ]
}

@test "writes to the zero page give new pages" {
	observe zerowrite 16
	near "$(count base.minor)" 8192
	near "$(count cow.minor)" 0
}

@test "writes after fork are copies while the child lives, and none when it is gone" {
	observe cow 16
	near "$(count cow.minor)" 8192
	near "$(count base.minor)" 0
	observe inplace 16
	near "$(count in_place.minor)" 8192
	near "$(count cow.minor)" 0
}

@test "shared anonymous memory is shmem, and a mapped file is file" {
	observe shmem 16
	near "$(count shmem.minor)" 8192
	near "$(count base.minor)" 0
	observe file 16
	# A page that the system took back meanwhile is read again.
	near $(($(count file.minor) + $(count file.major))) 16
	near "$(count zero.minor)" 0
}

@test "writes to a private mapping of a file are copies" {
	observe filecopy 16
	near "$(count cow.minor)" 8192
	near "$(count file.minor)" 0
}

@test "pages of a file that is not cached are major faults" {
	observe major 32
	[ "$(worked majflt)" = 32 ] || skip "the file system of /var/tmp keeps its pages cached"
	[ "$(count file.major)" = 32 ]
}

@test "pages that come back from swap are told from new ones" {
	local file=/var/tmp/sonde-swap-$$
	dd if=/dev/zero of="$file" bs=1M count=64 status=none
	chmod 600 "$file"
	restore="swapoff $file 2>/dev/null; rm -f $file"
	mkswap -q "$file" && swapon "$file" || skip "no swap file can be used here"
	observe swap 8
	# Some may not have gone out: no swap-in, but no new page either.
	echo "$(count swap.minor) minor, $(count swap.major) major"
	[ $(($(count swap.minor) + $(count swap.major))) -ge 3900 ]
	near "$(count base.minor)" 0
	near "$(count zero.minor)" 0
}

@test "pages that go out to swap inside a fault make it no swap-in" {
	local file=/var/tmp/sonde-swap-$$ group=/sys/fs/cgroup/memory/sonde-test-$$
	[ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ] || skip "no memory cgroup (v1) here"
	dd if=/dev/zero of="$file" bs=1M count=96 status=none
	chmod 600 "$file"
	restore="swapoff $file 2>/dev/null; rm -f $file; rmdir $group"
	mkswap -q "$file" && swapon "$file" || skip "no swap file can be used here"
	mkdir "$group"
	echo 16000000 >"$group/memory.limit_in_bytes"
	launch=(bash -c 'echo $BASHPID >'"$group"'/cgroup.procs; exec "$0" "$@"')
	observe base 16
	near "$(count base.minor)" 8192
	[ "$(value fault.stalled base.minor)" -ge 1 ]
	jq -en --argjson r "$(value fault.reclaim_time base.minor)" \
		--argjson t "$(value fault.time base.minor)" '$r > 0 and $r < $t'
}

@test "pages of the hugetlb pool are their own class" {
	local pool=/proc/sys/vm/nr_hugepages
	restore="echo $(cat $pool) >$pool"
	echo $(($(cat $pool) + 8)) >$pool
	[ "$(awk '/HugePages_Free/{print $2}' /proc/meminfo)" -ge 4 ] || skip "no hugetlb pages to be had"
	observe hugetlb 4
	[ "$(count hugetlb.minor)" = 4 ]
	[ "$(count pmd.minor)" = 0 ]
}

@test "threads' stacks of 2 MiB, threads made after attach" {
	options=(--fault-by thread,mapping,site)
	observe stack 1 8
	# 480 pages each, some of which creating the thread has touched.
	echo "$(count base.minor)"
	[ "$(count base.minor)" -ge 3840 ] && [ "$(count base.minor)" -le 4200 ]
	[ "$(value fault.mapping_count stacks)" -ge 3840 ]
	[ "$(jq '[.metrics[] | select(.name == "fault.thread_count" and .value >= 480)] | length' \
		"$T/json")" = 8 ]
	# One instruction touches them all.
	jq -c '.metrics[] | select(.name == "fault.site_count") | [.label, .value]' "$T/json"
	jq -e '[.metrics[] | select(.name == "fault.site_count" and .value >= 3700) | .label] |
		length == 1 and (.[0] | startswith("work_stack (faultwork.c:"))' "$T/json"
}

@test "what is charged to threads, mappings and sites is every fault" {
	options=(--fault-by thread,mapping,site)
	observe filecopy 8
	for what in thread mapping site; do
		[ "$(total fault.${what}_count)" = "$(total fault.count)" ]
	done
	jq -e '[.metrics[] | select(.name == "fault.mapping_count" and .value >= 4096) | .label] |
		length == 1 and (.[0] | contains("faultwork."))' "$T/json"
}

@test "stacks that come where another mapping was are told from it" {
	options=(--fault-by mapping)
	observe reuse 8
	jq -c '.metrics[] | select(.name == "fault.mapping_count") | [.label, .value]' "$T/json"
	# 64 pages each, and the few that a thread's start and its frame touch.
	[ "$(value fault.mapping_count stacks)" -ge 512 ]
	[ "$(value fault.mapping_count stacks)" -le 600 ]
	# It went at once, or a reading came in between.
	gone=$(($(value fault.mapping_count "unmapped since") + $(value fault.mapping_count mapped)))
	[ "$gone" -ge 4096 ]
	[ "$(total fault.mapping_count)" = "$(total fault.count)" ]
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

@test "a refused access is no fault and no loss, and the faults around it are right" {
	observe refused 16
	echo "$(drops unfinished) given up, $(worked minflt) faults"
	[ "$(drops unfinished)" = 16 ]
	[ "$(drops no_end)" = 0 ]
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

@test "folios of 16 KiB to 1 MiB are each counted by their size" {
	local all=/sys/kernel/mm/transparent_hugepage size kb
	[ -w $all/hugepages-64kB/enabled ] || skip "the kernel has no $all/hugepages-64kB/enabled"
	for kb in 16 32 64 128 256 512 1024; do
		size=$all/hugepages-${kb}kB/enabled
		restore="echo $(sed 's/.*\[\(.*\)\].*/\1/' $size) >$size"
		echo madvise >$size
		observe mthp$kb 8
		eval "$restore"
		restore=
		echo "$kb kB: $(count mthp_${kb}kB.minor)"
		[ "$(count mthp_${kb}kB.minor)" = $((8 * 1024 / kb)) ]
		[ "$(count pmd.minor)" = 0 ]
	done
}

# in_cgroup BYTES: what is launched is in a memory cgroup with that limit
in_cgroup() {
	local group=/sys/fs/cgroup/memory/sonde-test-$$
	mkdir "$group" 2>/dev/null && [ -e "$group/memory.limit_in_bytes" ] ||
		skip "no memory cgroup (v1) here"
	restore="rmdir $group"
	echo "$1" >"$group/memory.limit_in_bytes"
	launch=(bash -c 'echo $BASHPID >'"$group"'/cgroup.procs; exec "$0" "$@"')
}

@test "reclaim inside a fault is told, and is part of its time" {
	in_cgroup 24000000
	observe filecopy 8
	near "$(count cow.minor)" 4096
	[ "$(value fault.stalled cow.minor)" -ge 1 ]
	jq -en --argjson r "$(value fault.reclaim_time cow.minor)" \
		--argjson t "$(value fault.time cow.minor)" '$r > 0 and $r < $t'
	# Without pressure there is none.
	launch=()
	observe filecopy 8
	[ "$(value fault.stalled cow.minor)" = 0 ]
	[ "$(value fault.reclaim_time cow.minor)" = 0 ]
}

@test "a huge page that the memory cgroup refuses is not counted as one" {
	grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled && skip "huge pages are off (never)"
	in_cgroup 1600000
	observe huge 16
	[ "$(count pmd.minor)" = 0 ]
	near "$(count base.minor)" 16
}
