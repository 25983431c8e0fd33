# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the tests of the alloc lens share: a program that says what it did (tests/harness/allocwork.cpp),
# observed in step with it. Counts and bytes are equal or the test fails; nothing is sampled.

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	mkfifo "$T/go" "$T/stop"
}

# observe KIND MODE N: run allocwork ($program, with the environment ${with[@]}) with the lens attached
# by links of KIND; $T/work is what it did, $T/seen what was counted.
observe() {
	local kind=$1
	shift
	rm -f "$T/work" "$T/seen" # of a run before: what it said is not to be waited for
	env "${with[@]}" "${program:-$B/harness/allocwork}" "$@" <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 8>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
	SONDE_FORCE_LINK=$kind "$B/bench/allocattach" "$work_pid" <"$T/stop" >"$T/seen" 2>"$T/err" \
		3>&- 8>&- &
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
	cat "$T/work" "$T/seen" "$T/err"
}

seen() { # METRIC LABEL
	awk -F'|' -v m="alloc.$1" -v l="$2" '$1 == m && $2 == l { v = $3 } END { print v + 0 }' "$T/seen"
}

did() { # calls|bytes|failed NAME...: the sum over functions
	local column
	case $1 in calls) column=3 ;; bytes) column=4 ;; failed) column=5 ;; esac
	shift
	printf '%s\n' "$@" | awk -F'|' -v c=$column 'NR == FNR { want[$1]; next }
		$1 == "truth" && $2 in want { v += $c } END { print v + 0 }' - "$T/work"
}

# Every function: calls, bytes and failures as the program tells them ("-": it does not know).
equal_to_truth() {
	local tag name calls bytes failed n=0
	while IFS='|' read -r tag name calls bytes failed; do
		[ "$tag" = truth ] || continue
		echo "$name: $(seen calls "$name") $(seen requested "$name") $(seen failed "$name")"
		[ "$(seen calls "$name")" = "$calls" ] || return 1
		[ "$bytes" = - ] || [ "$(seen requested "$name")" = "$bytes" ] || return 1
		[ "$(seen failed "$name")" = "$failed" ] || return 1
		n=$((n + 1))
	done <"$T/work"
	[ "$n" -gt 0 ]
}

# The change of live bytes within 0.1 % of what is live or 64 KiB of what the allocator says of itself.
live_as_told() {
	awk -F'|' -v got="$(seen live "")" '$1 == "live" {
		n++
		off = got - $2; off = off < 0 ? -off : off
		may = $3 / 1000 > 65536 ? $3 / 1000 : 65536
		printf "live %d, by the allocator %d, off by %d of %d allowed\n", got, $2, off, may
		bad = off > may
	} END { exit bad || n != 1 }' "$T/work"
}

nothing_dropped() {
	! grep '^drop' "$T/seen"
}

# A page that the kernel moves at that moment cannot be read by a program that may not sleep: seen once
# in ten million headers, counted, and within the bound on live bytes.
few_dropped() {
	awk -F'|' '$1 == "drop" { $2 == "copy_fault" ? n += $3 : other++ }
		END { exit other || n > 10 }' "$T/seen"
}

preload() { # GLOB
	local lib
	for lib in /usr/lib/x86_64-linux-gnu/$1; do
		[ -e "$lib" ] || skip "$1 is not installed"
		with=("LD_PRELOAD=$lib" ALLOCWORK_NO_PVALLOC=1)
		return
	done
}
