#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The attach engine on targets whose counts are known (tests/bench/attachdrv.c), once per family of links.
# Every fact that attachdrv states is a line "ok ..." or "not ok ..."; its exit status says if all were ok.

bats_require_minimum_version 1.5.0

setup() {
	DRV=${SONDE_BUILD:-build}/bench/attachdrv
}

# A test may be skipped only for a feature that this kernel lacks; "denied" is a failure.
needs() { # FEATURE...
	local f
	for f in "$@"; do
		! "$DRV" features | grep -qx "$f no" || skip "this kernel lacks $f"
	done
}

drive() { # SCENARIO [FAMILY]
	run timeout 120 "$DRV" "$@"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^ok ' <<<"$output")" -ge 1 ]
	! grep -q '^not ok ' <<<"$output"
}

# What the kernel says when it could not take a breakpoint out again.
leaks() { dmesg | grep -c 'leaking uprobe' || true; }

@test "features: an unprivileged user is told denied, never no" {
	local drv=$BATS_TEST_TMPDIR/attachdrv
	install -m 755 "$DRV" "$drv"
	chmod 755 "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR"
	"$DRV" features >"$BATS_TEST_TMPDIR/root"
	run -0 setpriv --reuid 65534 --regid 65534 --clear-groups "$drv" features
	echo "$output"
	local name answer mine
	while read -r name answer; do
		mine=$(awk -v n="$name" '$1 == n {print $2}' <<<"$output")
		case $answer in
		yes) # what the kernel's types alone tell needs no privilege
			[ "$mine" = denied ] || [[ "$name $mine" =~ ^(btf|find_vma|mm_owner)\ yes$ ]] ;;
		esac
	done <"$BATS_TEST_TMPDIR/root"
	grep -qx "bpf denied" <<<"$output"
}

@test "session: exact counts on every thread, none of a twin process" {
	needs uprobe_session
	drive counts session
}

@test "multi: exact counts on every thread, none of a twin process" {
	needs uprobe_multi
	drive counts multi
}

@test "perf: exact counts on every thread, none of a twin process" {
	needs perf_uprobe
	drive counts perf
}

@test "session: two processes of one file" {
	needs uprobe_session
	drive two session
}

@test "multi: two processes of one file" {
	needs uprobe_multi
	drive two multi
}

@test "perf: two processes of one file" {
	needs perf_uprobe
	drive two perf
}

@test "a forced family that the kernel lacks is an error, not another family" {
	local f
	for f in session multi; do
		"$DRV" features | grep -qx "uprobe_$f no" || continue
		run ! timeout 60 "$DRV" counts "$f"
	done
	run -1 timeout 60 "$DRV" counts nosuchfamily
	[[ $output == *"no such kind of link"* ]]
}

@test "kernel hooks: tp_btf, raw_tp, classic tracepoint, page faults, iterator, drops" {
	needs tp_btf tracefs perf_sw iter_task_file
	drive kernel
}

@test "a program that the verifier refuses is named with the verifier's words" {
	drive refused
	[[ $output == *"invalid mem access"* ]]
}

@test "program statistics count the runs" {
	needs uprobe_multi
	drive stats
}

@test "SIGKILL of sonde leaves no probe: session" {
	needs uprobe_session
	local before
	before=$(leaks)
	drive killed session
	[ "$(leaks)" = "$before" ]
}

@test "SIGKILL of sonde leaves no probe: multi" {
	needs uprobe_multi
	local before
	before=$(leaks)
	drive killed multi
	[ "$(leaks)" = "$before" ]
}

@test "SIGKILL of sonde leaves no probe: perf" {
	needs perf_uprobe
	local before
	before=$(leaks)
	drive killed perf
	[ "$(leaks)" = "$before" ]
}

@test "SIGKILL at 20 moments of attach and detach leaves no probe: multi" {
	needs uprobe_multi
	local before
	before=$(leaks)
	drive churn multi
	[ "$(leaks)" = "$before" ]
}

@test "SIGKILL at 20 moments of attach and detach leaves no probe: perf" {
	needs perf_uprobe
	local before
	before=$(leaks)
	drive churn perf
	[ "$(leaks)" = "$before" ]
}

@test "sonde and its guard stopped: no probe outlives the deadline: session" {
	needs uprobe_session
	drive stopped session
}

@test "sonde and its guard stopped: no probe outlives the deadline: perf" {
	needs perf_uprobe
	drive stopped perf
}

@test "sonde and its guard frozen by their cgroup: no probe outlives the deadline" {
	needs uprobe_multi
	CGROUP2=$(awk '$3 == "cgroup2" && $4 ~ /^rw/ {print $2; exit}' /proc/mounts)
	[ -n "$CGROUP2" ] || skip "no writable cgroup v2 hierarchy is mounted"
	export CGROUP2
	drive frozen multi
}

@test "the absolute deadline ends the probes of a living sonde" {
	needs uprobe_multi
	drive deadline multi
}

@test "calibration: every kind costs something, and stepping no less than emulating" {
	drive calibrate
}
