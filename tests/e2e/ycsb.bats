#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Key-value servers on tcmalloc under a zipfian read and update load as YCSB's workload A, observed by
# default: one linked statically (tests/harness/kvserver.cpp), and Debian's yrmcdsd.

load helpers

setup() {
	B=$e2e_root/build
	PORT=$(searchd_pick_port)
	mkfifo "$BATS_TEST_TMPDIR/in"
}

teardown() {
	exec 8>&-
	end_started
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

server_begin() { # [ask]
	"$B/harness/kvserver" "$PORT" "$@" <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/server" 3>&- &
	PID=$!
	started "$PID"
	exec 8>"$BATS_TEST_TMPDIR/in"
	wait_for 20 answers
}

# Observed by default while the load runs: the summary goes to $T/json.
observed_load() { # OPERATIONS
	sonde_begin stat -p "$PID" -i 200ms -d 300s --json 8>&-
	wait_for 60 stat_or_end
	"$B/harness/kvload" "$PORT" 8 2000 "$1" >"$BATS_TEST_TMPDIR/load" 8>&-
	cat "$BATS_TEST_TMPDIR/load"
	sonde_finish
	tail -n 1 "$BATS_TEST_TMPDIR/sonde.out" >"$BATS_TEST_TMPDIR/json"
	jq -c '(.notes[] | .what), (.diagnosis[] | .text),
		(.metrics[] | select(.name | startswith("ask.")) | [.name, .label, .value // .absent])' \
		"$BATS_TEST_TMPDIR/json"
}

json() { # FILTER
	jq -r "$1" "$BATS_TEST_TMPDIR/json"
}

requests() { # that the load made
	jq '.reads + .updates + .records' "$BATS_TEST_TMPDIR/load"
}

allocator_is() { # NAME
	[[ $(json '.meta | to_entries[] | select(.key == "target.0.allocator") | .value') == "$1"* ]]
}

@test "a server linked with tcmalloc: every answer right, nobody asks" {
	server_begin
	observed_load 20000
	[ "$(jq .errors "$BATS_TEST_TMPDIR/load")" -eq 0 ]
	allocator_is tcmalloc
	[ "$(json '[.metrics[] | select(.name == "ask.cpu_share") | .value] | add')" = 0 ]
	[ "$(json '[.diagnosis[] | select(.cause == "asking")] | length')" -eq 0 ]
	wait_for 10 has_no_probes "$PID"
	"$B/harness/kvload" "$PORT" 8 200 1000
}

@test "the same, asking at each request: sonde names the function, its share and its caller" {
	server_begin ask
	observed_load 20000
	[ "$(jq .errors "$BATS_TEST_TMPDIR/load")" -eq 0 ]
	calls=$(json '[.metrics[] | select(.name == "ask.calls") | .value] | add')
	# Calls seen: all, or those of the windows where the machine is fast enough to make them many.
	if [ "$(json '[.notes[] | select(.lens == "ask")] | length')" -eq 0 ]; then
		[ "$calls" -eq "$(requests)" ]
	else
		[ "$calls" -gt 100 ]
		[ "$calls" -le "$(requests)" ]
	fi
	json '.metrics[] | select(.name == "ask.caller_calls") | .label' >"$BATS_TEST_TMPDIR/callers"
	cat "$BATS_TEST_TMPDIR/callers"
	[ "$(grep -c . "$BATS_TEST_TMPDIR/callers")" -eq 1 ]
	grep -q '^MallocExtension::GetNumericProperty < charge_memory()+' "$BATS_TEST_TMPDIR/callers"
	[ "$(json '[.metrics[] | select(.name == "ask.cpu_share") | .value] | add > 0')" = true ]
	wait_for 10 has_no_probes "$PID"
}

@test "yrmcdsd: every answer right, its allocator found and read" {
	command -v yrmcdsd >/dev/null || skip "yrmcdsd is not installed"
	cat >"$BATS_TEST_TMPDIR/yrmcds.conf" <<-EOF
		virtual_ip = 127.0.0.1
		port = $PORT
		repl_port = $(searchd_pick_port)
		temp_dir = "$BATS_TEST_TMPDIR"
		buckets = 10000
		workers = 4
	EOF
	yrmcdsd -f "$BATS_TEST_TMPDIR/yrmcds.conf" >"$BATS_TEST_TMPDIR/server" 2>&1 3>&- &
	PID=$!
	started "$PID"
	wait_for 20 answers
	observed_load 20000
	[ "$(jq .errors "$BATS_TEST_TMPDIR/load")" -eq 0 ]
	allocator_is tcmalloc
	[ "$(json '[.metrics[] | select(.name == "alloc.allocated") | .value] | add > 1000000')" = true ]
	[ "$(json '[.diagnosis[] | select(.cause == "asking")] | length')" -eq 0 ]
	wait_for 10 has_no_probes "$PID"
	"$B/harness/kvload" "$PORT" 8 200 1000
}
