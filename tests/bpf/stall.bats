#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The stall lens against a program that is off its CPU for known reasons (tests/harness/stallwork.c).
# Comparisons are with the workload's own clock or the kernel's schedstat, never with a nominal time.

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go"
}

teardown() {
	local pid

	for pid in "$work_pid" "$sonde_pid" "$other_pid"; do
		[ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
	done
}

# observe KIND COUNT MS: run stallwork under the stall lens, $T/json is the summary.
observe() {
	rm -f "$T/work" "$T/out" # of a time before
	"$B/harness/stallwork" "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" stat -p "$work_pid" --lens stall -i 100ms --json >"$T/out" 2>"$T/err" 3>&- 9>&- &
	sonde_pid=$!
	until_line "$T/out" interval "$sonde_pid"
	echo >&9
	until_line "$T/work" ^done "$work_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	# All its threads are parked: what schedstat gained is what the lens saw.
	delay=$(($(cat /proc/"$work_pid"/task/*/schedstat | awk '{ n += $2 } END { printf "%d", n }') -
		$(worked delay)))
	exec 9>&-
	wait "$work_pid" || true
	work_pid=
	grep '"summary"' "$T/out" >"$T/json"
	cat "$T/err" "$T/work"
	jq -c .drops "$T/json"
	jq -c '.metrics[] | select(.name | startswith("stall.")) | select(.value != 0) |
		[.name, .label, .value // .absent]' "$T/json"
}

worked() { # NAME: what stallwork printed
	sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" "$T/work"
}

metric() { # NAME LABEL
	jq --arg n "$1" --arg l "$2" '[.metrics[] | select(.name == $n and .label == $l) | .value] |
		add | floor' "$T/json"
}

drops() { # of this lens
	jq '[.drops | keys[] | select(startswith("stall"))] | length' "$T/json"
}

# within GOT WANT PERCENT SLACK_NS
within() {
	awk -v got="$1" -v want="$2" -v pct="$3" -v slack="${4:-0}" 'BEGIN {
		off = got - want; off = off < 0 ? -off : off
		printf "got %d, wanted %d within %g %%\n", got, want, pct
		exit !(off <= want * pct / 100 + slack)
	}'
}

# The waits are counted exactly, and with the time on the run queue they are the workload's own sum.
waits() { # CAUSE
	local ns queue

	ns=$(metric stall.time "$1")
	queue=$(metric stall.time runqueue)
	[ "$(metric stall.count "$1")" = "$(worked n)" ]
	[ "$ns" -le "$(worked ns)" ]
	[ "$(drops)" = 0 ]
	awk -v ns="$ns" -v queue="$queue" -v want="$(worked ns)" 'BEGIN { exit !(ns + queue >= want * 0.95) }'
	within "$queue" "$delay" 5 1500000
}

# No wait was charged to anything else that threads of the workload do not do.
nothing_in() { # CAUSE...
	local cause

	for cause in "$@"; do
		[ "$(metric stall.count "$cause")" = 0 ]
	done
}

@test "20 sleeps of 10 ms are 20 sleeps, no shorter than asked" {
	observe sleep 20 10
	waits sleep
	[ "$(metric stall.time sleep)" -ge 200000000 ]
	nothing_in futex alloc_lock socket pipe other mmap_lock
}

@test "poll of no descriptor is a sleep" {
	observe poll0 10 10
	waits sleep
	nothing_in socket futex
}

@test "waits for another thread's futex are futex waits" {
	observe futex 20 5
	waits futex
	[ "$(metric stall.count sleep)" = 20 ]
	nothing_in socket pipe alloc_lock other
}

@test "a futex at the head of an arena is an allocator lock" {
	observe alloc 20 5
	waits alloc_lock
	nothing_in futex socket pipe other
}

@test "threads that allocate and free each other's memory wait for allocator locks" {
	observe arena 30000 1
	[ "$(metric stall.count alloc_lock)" -gt 0 ]
	[ "$(metric stall.time alloc_lock)" -gt 0 ]
	[ "$(metric stall.count futex)" = 0 ]
}

@test "recv waits for a socket, and so does epoll" {
	observe socket 20 5
	waits socket
	nothing_in futex pipe other
}

@test "epoll_wait waits for a socket" {
	observe epoll 20 5
	waits socket
	nothing_in futex pipe other
}

@test "read of a pipe is told from a socket" {
	observe pipe 20 5
	waits pipe
	nothing_in futex socket other
}

@test "reads past the page cache wait for the disk" {
	observe io 50 1
	[ "$(metric stall.count io)" -ge 1 ] || skip "O_DIRECT reads of /var/tmp do not wait"
	[ "$(metric stall.time io)" -gt 0 ]
	nothing_in socket pipe sleep
}

@test "two threads on one CPU wait for it as long as schedstat says" {
	observe spin 1 1000
	within "$(metric stall.time runqueue)" "$delay" 5
	# At least one of the two waits at any moment.
	[ "$(metric stall.time runqueue)" -ge $(($(worked ns) * 9 / 10)) ]
	[ "$(drops)" = 0 ]
}

@test "threads that map, touch and unmap wait for their mmap_lock" {
	observe mmap 100 1
	if jq -e '.notes[] | select(.what | contains("contention"))' "$T/json"; then
		skip "the kernel has no lock:contention_begin"
	fi
	[ "$(metric stall.lock_count mmap_lock)" -gt 0 ]
	[ "$(metric stall.count mmap_lock)" -gt 0 ]
	[ "$(metric stall.time mmap_lock)" -gt 0 ]
	[ "$(metric stall.syscall_count mmap)" -ge 300 ]
	[ "$(drops)" = 0 ]
}

# The way into the kernel and back, the clock and the tracepoints are the difference: 4 us a call here, 9 us
# after mremap, which leaves nothing in the TLB; on a busy machine they are the neighbours' caches' as well.
timed_alike() {
	local call

	for call in madvise munmap mmap mremap brk; do
		within "$(metric stall.syscall_time $call)" "$(worked $call)" 5 1500000 || return 1
	done
}

@test "calls on the address space are counted, and timed as the program times them" {
	# A neighbour on the same core makes that way longer, and an interrupt on it counts in full: up to
	# three times. A wrong time would be wrong in each.
	for _ in 1 2 3; do
		observe calls 100 1
		for call in madvise munmap mmap mremap; do
			[ "$(metric stall.syscall_count $call)" = 100 ]
		done
		[ "$(metric stall.syscall_count brk)" = 200 ]
		[ "$(metric stall.syscall_bytes madvise)" = $((100 * 4194304)) ]
		[ "$(metric stall.syscall_bytes munmap)" = $((100 * 8388608)) ]
		for call in madvise munmap mmap mremap brk; do
			[ "$(metric stall.syscall_time $call)" -le "$(worked $call)" ]
		done
		! timed_alike || return 0
	done
	false
}

@test "the histograms hold every wait" {
	observe sleep 20 10
	jq -e '[.histograms[] | select(.name == "stall.offcpu" and .label == "sleep") | .count] |
		add == '"$(metric stall.count sleep)" "$T/json"
	n=$(jq '[.histograms[] | select(.name == "stall.runqueue") | .count] | add' "$T/json")
	[ "$n" = "$(metric stall.count runqueue)" ]
}

@test "another process's waits are not counted" {
	(while :; do read -t 0.005 <> <(:) || true; done) 3>&- &
	other_pid=$!
	observe sleep 20 10
	waits sleep
	nothing_in pipe socket futex other
}

@test "without lock tracepoints lock figures are absent, not 0" {
	export SONDE_WITHOUT=contention
	observe sleep 5 5
	waits sleep
	jq -e '[.metrics[] | select(.name == "stall.lock_time") | .absent] | all' "$T/json"
	jq -e '[.metrics[] | select(.name == "stall.time" and .label == "mmap_lock") | .absent] | all' \
		"$T/json"
	jq -e '[.notes[] | select(.what | contains("stall.lock"))] | length > 0' "$T/json"
}

@test "without system call tracepoints their figures are absent, not 0" {
	export SONDE_WITHOUT=tracefs
	observe sleep 5 5
	waits sleep
	jq -e '[.metrics[] | select(.name == "stall.syscall_time") | .absent] | all' "$T/json"
}

@test "the lens is not in the default set, and doctor says so" {
	"$B/harness/stallwork" sleep 1 1 <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	"$B/sonde" doctor -p "$work_pid" >"$T/doctor"
	grep -E 'stall +off' "$T/doctor"
}
