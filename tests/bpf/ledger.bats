#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The memory ledger against a program that took known amounts of every kind, and against smaps summed by
# awk. Nothing here attaches a probe.

bats_require_minimum_version 1.5.0
load ../e2e/helpers

MIB=1048576
PAGE=4096

setup() {
	DIR=$(mktemp -d "${TMPDIR:-/tmp}/sonde-ledger-XXXXXX")
	mkfifo "$BATS_TEST_TMPDIR/in"
	"$searchd_build/harness/ledgerwork" "$DIR" <"$BATS_TEST_TMPDIR/in" \
		>"$BATS_TEST_TMPDIR/work.out" 3>&- &
	WORK=$!
	started "$WORK"
	exec 7>"$BATS_TEST_TMPDIR/in"
	wait_for 10 grep -q ^ready "$BATS_TEST_TMPDIR/work.out"
}

teardown() {
	exec 7>&-
	end_started
	wait_for 10 is_gone "$WORK"
	rm -rf "$DIR"
	[ -z "${CGROUP:-}" ] || rmdir "$CGROUP"
}

go() { # WORD: let it go on until it says this
	echo >&7
	wait_for 60 grep -q "^$1" "$BATS_TEST_TMPDIR/work.out"
}

# One reading into a file.
reading() { # FILE [OPTIONS...]
	local file=$1
	shift
	"$SONDE" stat -p "$WORK" --lens rss -d 0 --json "$@" >"$file"
}

value() { # FILE METRIC [LABEL]
	jq -r --arg n "$2" --arg l "${3:-}" '[.metrics[] |
		select(.name == $n and (.label // "") == $l and .value != null).value] |
		if length == 1 then .[0] else "absent" end' "$1"
}

took() { # KIND
	grep ^done "$BATS_TEST_TMPDIR/work.out" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

grown() { # METRIC LABEL: from the first reading to the second
	local before after
	before=$(value "$BATS_TEST_TMPDIR/before" "$1" "$2")
	after=$(value "$BATS_TEST_TMPDIR/after" "$1" "$2")
	[ "$before" != absent ] || before=0
	echo $((after - before))
}

within() { # LEAST MOST ACTUAL WHAT
	[ "$3" -ge "$1" ] && [ "$3" -le "$2" ] || {
		echo "$4: $3 is not in [$1, $2]" >&2
		return 1
	}
}

take_all() {
	reading "$BATS_TEST_TMPDIR/before"
	go done
	reading "$BATS_TEST_TMPDIR/after"
}

@test "private anonymous memory: each kind has what the program took of it" {
	take_all
	local kind
	# malloc shares its first and last page of a request with others.
	for kind in heap arenas; do
		within $(($(took $kind) - PAGE)) $(($(took $kind) + 4 * PAGE)) \
			"$(grown rss.ledger $kind)" $kind
	done
	# The loader's TLS, some pages of "mapped" before, is merged with its end.
	within "$(took large)" $(($(took large) + 4 * PAGE)) "$(grown rss.ledger large)" large
	# The stacks' own frames, and that of the arena's thread.
	within "$(took stacks)" $(($(took stacks) + 5 * 4 * PAGE)) "$(grown rss.ledger stacks)" stacks
	# libc's data that the work was the first to write.
	within "$(took data)" $(($(took data) + 16 * PAGE)) "$(grown rss.ledger data)" "program data"
	within $(($(took mapped) - 4 * PAGE)) $(($(took mapped) + 4 * PAGE)) \
		"$(grown rss.ledger mapped)" mapped
	equal "$(took lazyfree)" "$(value "$BATS_TEST_TMPDIR/after" rss.lazyfree)" LazyFree
	equal "$(took locked)" "$(grown rss.locked "")" "locked memory"
}

@test "without reading its memory malloc's own mappings are among the others" {
	go done
	reading "$BATS_TEST_TMPDIR/passive" --passive
	equal absent "$(value "$BATS_TEST_TMPDIR/passive" rss.ledger large)" "large"
	within $(($(took mapped) + $(took large))) $(($(took mapped) + $(took large) + 8 * PAGE)) \
		"$(value "$BATS_TEST_TMPDIR/passive" rss.ledger mapped)" mapped
}

@test "shared memory by kind and name, files by extension and path" {
	take_all
	local after=$BATS_TEST_TMPDIR/after kind
	for kind in shared memfd sysv tmpfs; do
		equal "$(took $kind)" "$(grown rss.ledger $kind)" $kind
	done
	equal "$(took shared)" "$(value "$after" rss.shmem_name anonymous)" "anonymous"
	equal "$(took memfd)" "$(value "$after" rss.shmem_name "memfd:ledger pool")" "memfd"
	equal "$(took sysv)" "$(value "$after" rss.shmem_name SYSV00000000)" "SysV"
	equal "$(took tmpfs)" "$(value "$after" rss.shmem_name /dev/shm/ledgerwork.tmp)" "tmpfs"
	equal "$(value "$after" rss.shmem)" \
		"$(jq '[.metrics[] | select(.name == "rss.shmem_name").value] | add' "$after")" \
		"names of RssShmem"
	equal "$(took spd)" "$(value "$after" rss.file_ext .spd)" ".spd"
	equal "$(took spp)" "$(value "$after" rss.file_ext .spp)" ".spp"
	equal "$(took spd)" "$(value "$after" rss.file_path "$DIR/docs.spd")" "docs.spd"
	equal "$(value "$after" rss.file)" \
		"$(jq '[.metrics[] | select(.name == "rss.file_ext").value] | add' "$after")" \
		"extensions of RssFile"
	equal "$(value "$after" rss.file)" \
		"$(jq '[.metrics[] | select(.name == "rss.file_path").value] | add' "$after")" \
		"paths of RssFile"
}

@test "the rows add up to RSS, and nothing is unexplained at rest" {
	go done
	reading "$BATS_TEST_TMPDIR/r"
	equal "$(value "$BATS_TEST_TMPDIR/r" rss.total)" \
		"$(jq '[.metrics[] | select(.name == "rss.ledger").value] | add' \
			"$BATS_TEST_TMPDIR/r")" "sum of the rows"
	equal 0 "$(value "$BATS_TEST_TMPDIR/r" rss.ledger unexplained)" unexplained
	equal 0 "$(value "$BATS_TEST_TMPDIR/r" rss.ledger_moved)" "RSS moved"
	equal "$(value "$BATS_TEST_TMPDIR/r" rss.anon)" \
		"$(jq '[.metrics[] | select(.name == "rss.ledger" and (.label |
			IN("heap", "arenas", "large", "named", "mapped", "stacks", "data"))).value]
			| add' "$BATS_TEST_TMPDIR/r")" "anonymous rows"
}

# A cgroup of our own: version 1 where it has the memory controller, else version 2.
make_cgroup() {
	local v1 v2
	v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ {print $2; exit}' /proc/self/mounts)
	v2=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/self/mounts)
	if [ -z "$v1" ]; then
		grep -qw memory "$v2/cgroup.subtree_control" 2>/dev/null || return 1
	fi
	CGROUP=${v1:-$v2}/sonde-test-$$-$BATS_TEST_NUMBER
	mkdir "$CGROUP" 2>/dev/null || {
		CGROUP=
		return 1
	}
	echo "$WORK" >"$CGROUP/cgroup.procs"
}

@test "huge pages given back in part: RSS falls, what is held outside it appears" {
	[ -e /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/nr_anon_partially_mapped ] ||
		skip "this kernel does not count huge pages that are mapped in part"
	make_cgroup || skip "no memory cgroup can be made here"
	go done
	reading "$BATS_TEST_TMPDIR/before"
	go purged
	local gone huge
	gone=$(sed -n 's/^purged gone=\([0-9]*\) .*/\1/p' "$BATS_TEST_TMPDIR/work.out")
	huge=$(sed -n 's/^purged .*huge=//p' "$BATS_TEST_TMPDIR/work.out")
	[ "$huge" = 8 ] || skip "huge pages are not to be had (THP never, or memory is fragmented)"
	reading "$BATS_TEST_TMPDIR/after"
	# 8 of 512 pages of each are left.
	within $((8 * 8 * PAGE)) $((8 * 8 * PAGE + 4 * PAGE)) "$(grown rss.anon "")" "RssAnon"
	equal 0 "$(value "$BATS_TEST_TMPDIR/after" rss.anon_huge)" "AnonHugePages"
	# The kernel charges up to 64 pages a CPU ahead.
	within $((gone - MIB / 4 * $(nproc))) $((gone + MIB / 4 * $(nproc))) \
		"$(grown rss.held_outside "")" "held outside RSS"
	within "$gone" $((1 << 40)) "$(value "$BATS_TEST_TMPDIR/after" rss.held_system 2048kB)" \
		"system-wide"
}

@test "what is charged and the limit of its cgroup" {
	make_cgroup || skip "no memory cgroup can be made here"
	local limit=$((512 * MIB)) version=v2
	[ ! -e "$CGROUP/memory.limit_in_bytes" ] || version=v1
	echo $limit >"$CGROUP/memory.limit_in_bytes" || echo $limit >"$CGROUP/memory.max"
	go done
	reading "$BATS_TEST_TMPDIR/r"
	equal $limit "$(value "$BATS_TEST_TMPDIR/r" rss.memcg_limit $version)" limit
	within $(($(took heap) + $(took large) + $(took shared))) $limit \
		"$(value "$BATS_TEST_TMPDIR/r" rss.memcg_usage $version)" charge
	[ "$(value "$BATS_TEST_TMPDIR/r" rss.held_outside)" != absent ]
}

@test "--ledger off reads no mapping and says so" {
	go done
	reading "$BATS_TEST_TMPDIR/off" --ledger off
	equal 1 "$(jq '[.metrics[] | select(.name == "rss.ledger")] | length' \
		"$BATS_TEST_TMPDIR/off")" "rows"
	equal "not read (--ledger off)" "$(jq -r '.metrics[] | select(.name == "rss.ledger").absent' \
		"$BATS_TEST_TMPDIR/off")" reason
	equal absent "$(value "$BATS_TEST_TMPDIR/off" rss.walk_time smaps)" "time of the walk"
	"$SONDE" stat -p "$WORK" --lens rss -d 0 --ledger off | grep -q 'by mapping: not read'
}

sysv_grown() { # FILE: from the first reading to the last by what the program took
	[ "$(took sysv)" = "$(sqlite3 -readonly "$1" "SELECT cast(max(value) - min(value) AS integer)
		FROM value JOIN series ON series.id = value.series
		WHERE series.name = 'rss.ledger' AND label = 'sysv'")" ]
}

@test "over time: a recording holds first and last, report shows the change" {
	local f=$BATS_TEST_TMPDIR/r.sonde
	TARGET_PID=$WORK record_begin "$f" --lens rss --ledger full
	go done
	# On a busy machine the ledger is read in longer intervals, so the rows of one tick may be older.
	wait_for 60 sysv_grown "$f"
	sonde_finish
	"$SONDE" report "$f" >"$BATS_TEST_TMPDIR/report"
	grep -qE '^  +malloc arenas .* \+5\.0' "$BATS_TEST_TMPDIR/report"
	grep -qE "^Leak\? +cannot tell from .* -> sonde record -n ledgerwork -d 6h" \
		"$BATS_TEST_TMPDIR/report"
	"$SONDE" export "$f" --to csv --series | grep -q 'rss.file_ext'
}

more_ticks() { # FILE TICKS-BEFORE
	[ "$(sqlite3 -readonly "$1" 'SELECT count(*) FROM tick')" -gt $(($2 + 2)) ]
}

twin() { # a second program of another name that has taken all: TWIN
	rm -f "$BATS_TEST_TMPDIR/twin.out"
	cp "$searchd_build/harness/ledgerwork" "$DIR/sonde-ledger-twin"
	"$DIR/sonde-ledger-twin" "$DIR" <"$BATS_TEST_TMPDIR/twin.in" >"$BATS_TEST_TMPDIR/twin.out" 3>&- &
	TWIN=$!
	started "$TWIN"
	echo >&8
	wait_for 60 grep -q ^done "$BATS_TEST_TMPDIR/twin.out"
}

has_note() { # FILE TEXT
	[ "$(sqlite3 -readonly "$1" "SELECT count(*) FROM note WHERE what LIKE '%$2%'")" -gt 0 ]
}

@test "what exited is in no sum: its successor's RSS is the RSS" {
	local f=$BATS_TEST_TMPDIR/follow.sonde ticks
	mkfifo "$BATS_TEST_TMPDIR/twin.in"
	exec 8<>"$BATS_TEST_TMPDIR/twin.in"
	twin
	sonde_begin record -n sonde-ledger-twin --follow --lens rss -o "$f" -i 100ms
	wait_for 30 recording_or_end "$f"
	{
		kill -KILL "$TWIN"
		wait "$TWIN" || true
	} 2>/dev/null
	wait_for 10 has_note "$f" "(pid $TWIN) exited"
	twin
	wait_for 20 has_note "$f" "restarted: pid $TWIN"
	ticks=$(sqlite3 -readonly "$f" 'SELECT count(*) FROM tick')
	wait_for 30 more_ticks "$f" "$ticks"
	sonde_finish
	"$SONDE" report "$f" >"$BATS_TEST_TMPDIR/report"
	# 97 MiB each.
	grep -qE '^RSS (9[5-9]|10[0-9])(\.[0-9]+)? MiB,' "$BATS_TEST_TMPDIR/report" || {
		cat "$BATS_TEST_TMPDIR/report" >&2
		return 1
	}
	grep -q "sonde record -n sonde-ledger-tw -d 6h" "$BATS_TEST_TMPDIR/report"
	exec 8>&-
}
