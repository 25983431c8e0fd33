#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The THP lens against a program that does a known number of things to huge pages (tests/harness/thpwork.c).

THP=/sys/kernel/mm/transparent_hugepage

load pair_helpers

setup_file() {
	# Who asks for a huge page must get it: memory that other tests left in pieces is moved together.
	[ ! -w /proc/sys/vm/compact_memory ] || echo 1 >/proc/sys/vm/compact_memory
}

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go"
	restore=()
	[ -d $THP ] || skip "the kernel has no transparent huge pages"
	grep -q '\[never\]' $THP/enabled && skip "huge pages are off (never)"
	return 0
}

teardown() {
	local pid line

	for pid in "$work_pid" "$other_pid" "$sonde_pid"; do
		[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
		[ -z "$pid" ] || wait "$pid" 2>/dev/null || true
	done
	for line in "${restore[@]}"; do
		eval "$line"
	done
}

# Change a setting in /sys until the test's end.
set_sys() { # FILE VALUE
	restore+=("echo $(sed 's/.*\[\(.*\)\].*/\1/' "$1") >$1")
	echo "$2" >"$1"
}

begin() { # KIND COUNT: start thpwork, until it is ready
	"${launch[@]}" "$B/harness/thpwork" "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
}

end() { # let it work under the lens; $T/json is the summary
	"$B/sonde" stat -p "$work_pid${other_pid:+,$other_pid}" --lens thp -i 100ms --json \
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
	cat "$T/work" "$T/err"
	jq -c '.metrics[] | select(.name | startswith("thp.")) | select(.value != 0)' "$T/json"
}

observe() {
	begin "$@"
	end
}

worked() { # NAME: what thpwork printed
	sed -n "s/^done.* $1=\(-\?[0-9]*\).*/\1/p" "$T/work"
}

metric() { # NAME LABEL: "absent" where the lens could not count
	jq -r --arg n "thp.$1" --arg l "$2" '[.metrics[] | select(.name == $n and (.label // "") == $l) |
		.value // "absent"] | if length == 0 then 0 else .[0] end' "$T/json"
}

# An interrupt that allocates a page while a program on mm_page_alloc runs is skipped: not our thread's.
nothing_dropped() {
	jq -e '[.drops | keys[] | select(startswith("thp") and . != "thp.recursion")] | length == 0' \
		"$T/json"
}

@test "8 huge pages of which 504 of 512 pages are purged: 8 calls that split, memory held outside RSS" {
	observe purge 8
	[ "$(metric purge_calls dontneed)" = 8 ]
	[ "$(metric purge_bytes dontneed)" = $((8 * 504 * 4096)) ]
	[ "$(metric purge_may_split dontneed)" = 8 ]
	[ "$(($(worked before) - $(worked after)))" = $((8 * 504 * 4)) ]
	nothing_dropped
	[ -e $THP/hugepages-2048kB/stats/split_deferred ] || skip "no statistics by size in this kernel"
	[ "$(metric system 2048kB.split_deferred)" -ge 8 ]
	[ "$(metric system_level 2048kB.nr_anon_partially_mapped)" -ge 8 ]
}

@test "what khugepaged fills is the step of RSS to the byte, with no fault in the process" {
	set_sys $THP/khugepaged/max_ptes_none 511
	set_sys $THP/khugepaged/scan_sleep_millisecs 10
	set_sys $THP/khugepaged/pages_to_scan 4096
	observe refill 8
	[ "$(worked faults)" = 0 ]
	[ "$(metric collapses khugepaged)" = 8 ]
	# A collapse that fails (a page was just then in other hands) is followed by a second scan.
	[ "$(metric scans succeed)" -ge 8 ]
	[ "$(metric bloat khugepaged)" = $((8 * 504 * 4096)) ]
	[ "$(metric bloat khugepaged)" = $((($(worked end) - $(worked after)) * 1024)) ]
	[ "$(metric collapses self)" = 0 ]
	nothing_dropped
}

@test "the same where the kernel does not say who owns an address space" {
	export SONDE_WITHOUT=mm_owner
	set_sys $THP/khugepaged/max_ptes_none 511
	set_sys $THP/khugepaged/scan_sleep_millisecs 10
	observe refill 4
	[ "$(metric collapses khugepaged)" = 4 ]
	[ "$(metric bloat khugepaged)" = $((4 * 504 * 4096)) ]
}

@test "16 collapses by MADV_COLLAPSE are the process's own" {
	set_sys $THP/enabled madvise
	observe collapse 16
	[ "$(worked err)" = 0 ] || skip "no MADV_COLLAPSE (before 6.1)"
	[ "$(metric collapses self)" = 16 ]
	[ "$(metric scans self.succeed)" -ge 16 ] # more where a collapse was tried again
	[ "$(metric bloat self)" = 0 ]
	[ "$(metric collapses khugepaged)" = 0 ]
}

@test "after exec the new address space is the target's" {
	export SONDE_WITHOUT=mm_owner
	set_sys $THP/enabled madvise
	begin exec 4
	"$B/sonde" stat -p "$work_pid" --lens thp -i 100ms --json >"$T/out" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" interval "$sonde_pid"
	echo >&9
	until [ "$(grep -c ^ready "$T/work")" = 2 ]; do kill -0 "$work_pid"; done
	# The session plans anew for what runs there now.
	seen=$(grep -c interval "$T/out")
	until [ "$(grep -c interval "$T/out")" -gt $((seen + 3)) ]; do
		kill -0 "$sonde_pid"
		sleep 0.05
	done
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	grep '"summary"' "$T/out" >"$T/json"
	cat "$T/work" "$T/err"
	jq -c '.metrics[] | select(.name == "thp.collapses"), .notes' "$T/json"
	[ "$(jq '[.metrics[] | select(.name == "thp.collapses" and .label == "self") | .value] | add' \
		"$T/json")" = 4 ]
	exec 9>&-
}

@test "every call that gives memory back is counted, and those that cut through 2 MiB" {
	observe ways 4
	[ "$(metric purge_calls dontneed)" = 8 ]
	[ "$(metric purge_bytes dontneed)" = $((4 * 3 << 20)) ]
	[ "$(metric purge_may_split dontneed)" = 4 ]
	for call in free munmap mremap; do
		[ "$(metric purge_calls $call)" = 4 ]
		[ "$(metric purge_may_split $call)" = 4 ]
	done
	[ "$(metric purge_calls brk)" = 8 ]
	[ "$(metric purge_may_split brk)" = 4 ]
}

@test "small mappings that end split nothing" {
	observe small 100
	[ "$(metric purge_calls munmap)" = 100 ]
	[ "$(metric purge_may_split munmap)" = 0 ]
}

@test "without bpf_find_vma every cut counts, and that is told" {
	export SONDE_WITHOUT=find_vma
	observe small 100
	[ "$(metric purge_may_split munmap)" = 100 ]
	jq -e '[.notes[] | select(.level == "degraded" and (.what | contains("may split")))] | length > 0' \
		"$T/json"
}

@test "without tracefs purges are absent, not 0" {
	export SONDE_WITHOUT=tracefs
	observe small 10
	[ "$(metric purge_calls munmap)" = absent ]
	[ "$(metric collapses khugepaged)" = 0 ]
}

@test "an idle process has no figures of others" {
	begin idle 1
	other_pid=
	"$B/harness/thpwork" purge 2 <<<"" >"$T/other" 3>&- 9>&- &
	other_pid=$!
	until_line "$T/other" ^done "$other_pid" || true
	wait "$other_pid" || true
	other_pid=
	end
	[ "$(metric purge_calls dontneed)" = 0 ]
	[ "$(metric collapses khugepaged)" = 0 ]
}

# A memory cgroup (v1) of 32 MiB for what $launch starts.
make_group() {
	group=/sys/fs/cgroup/memory/sonde-thp-$$
	mkdir "$group" 2>/dev/null && [ -e "$group/memory.limit_in_bytes" ] ||
		skip "no memory cgroup (v1) here"
	restore+=("rmdir $group")
	echo $((32 << 20)) >"$group/memory.limit_in_bytes"
	launch=(bash -c 'echo $BASHPID >'"$group"'/cgroup.procs; exec "$0" "$@"')
}

# The metric NAME{memcg_reclaim} of whoever has it.
reclaim() { # NAME FIELD
	jq --arg n "thp.$1" --arg f "$2" '[.metrics[] | select(.name == $n and
		.label == "memcg_reclaim")] | if length == 1 then .[0][$f] else "not one" end' "$T/json"
}

@test "reclaim for a cgroup's limit is charged to the process that stalls, and to no other" {
	make_group
	begin file 32
	mkfifo "$T/go2"
	"$B/harness/thpwork" idle 1 <"$T/go2" >"$T/other" 3>&- 9>&- &
	other_pid=$!
	exec 8>"$T/go2"
	until_line "$T/other" ^ready "$other_pid"
	worker=$work_pid
	end
	exec 8>&-
	[ "$(reclaim stall_count value)" -gt 0 ]
	[ "$(jq -r --argjson t "$(reclaim stall_count target)" '.meta["target.\($t).pid"]' \
		"$T/json")" = "$worker" ]
	# Every stall is in the histogram, and their times add up.
	jq -e --argjson n "$(reclaim stall_count value)" --argjson t "$(reclaim stall_time value)" \
		'.histograms[] | select(.name == "thp.stall" and .label == "memcg_reclaim") |
		.count == $n and (.mean * $n / $t - 1 | fabs) < 0.02' "$T/json"
	nothing_dropped
}

@test "reclaim for huge pages is told apart" {
	make_group
	observe touch 12
	[ "$(metric stall_count memcg_reclaim.huge)" -gt 0 ]
	[ "$(metric stall_time memcg_reclaim.huge)" -gt 0 ]
}
