#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What cannot be done is refused with one sentence and the documented exit status: 1 failed, 2 usage,
# 3 no such target, 4 not permitted, 5 this kernel cannot, 6 degraded under --strict.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
	# Another user must be able to run it.
	export SONDE_COPY=$BATS_FILE_TMPDIR/sonde
	install -m 755 "$SONDE" "$SONDE_COPY"
	chmod 755 "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
}

teardown() {
	end_started
	[ ! -e "$BATS_TEST_TMPDIR/mounted" ] || umount "$(cat "$BATS_TEST_TMPDIR/mounted")"
}

idle() { # a process that does nothing: IDLE_PID
	sleep 300 3>&- &
	IDLE_PID=$!
	started "$IDLE_PID"
}

# ---- targets ----

@test "no such process: 3" {
	sleep 0 &
	wait $!
	refuses 3 "$!" stat -p $! -d 1s
	refuses 3 "$!" doctor -p $!
	refuses 3 "$!" record -p $! -o "$BATS_TEST_TMPDIR/x.sonde" -d 1s
	[ ! -e "$BATS_TEST_TMPDIR/x.sonde" ]
	refuses 3 "nosuchdaemon" stat -n nosuchdaemon -d 1s
}

@test "a kernel thread: 3" {
	[ "$(cat /proc/2/comm)" = kthreadd ] || skip "no kernel threads in this pid namespace"
	refuses 3 "kernel thread" stat -p 2 -d 1s
}

zombie_of() { # PID: its child that is one
	ps -o pid=,stat= --ppid "$1" | awk '$2 ~ /^Z/ {print $1}'
}

has_zombie() { [ -n "$(zombie_of "$1")" ]; }

@test "a zombie: 3" {
	# The shell becomes a sleep, which never asks for its child's status.
	bash -c 'sleep 0.3 & exec sleep 300' 3>&- &
	local parent=$!
	started "$parent"
	wait_for 10 has_zombie "$parent"
	refuses 3 "zombie|exited" stat -p "$(zombie_of "$parent")" -d 1s
}

@test "another user's process, without the privilege: 4" {
	idle
	AS=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	SONDE=$SONDE_COPY
	refuses 4 "$IDLE_PID.*(root|permi|privileg)" stat -p "$IDLE_PID" -d 1s
	install -d -m 777 "$BATS_FILE_TMPDIR/any"
	refuses 4 "(root|permi|privileg)" record -p "$IDLE_PID" -o "$BATS_FILE_TMPDIR/any/x" -d 1s
	equal "" "$(ls "$BATS_FILE_TMPDIR/any")" "files left behind"
}

@test "a user's own process, without the privilege to load programs: 4" {
	setpriv --reuid=65534 --regid=65534 --clear-groups sleep 300 3>&- &
	IDLE_PID=$!
	started "$IDLE_PID"
	AS=(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all)
	SONDE=$SONDE_COPY
	refuses 4 "(root|CAP_|privileg|permi)" stat -p "$IDLE_PID" --lens fault -d 1s
}

@test "a 32-bit program: 5" {
	local dir=$BATS_TEST_TMPDIR
	printf '%s\n' ".globl _start" "_start: mov \$29, %eax" "int \$0x80" "jmp _start" >"$dir/pause.s"
	as --32 "$dir/pause.s" -o "$dir/pause.o"
	ld -m elf_i386 "$dir/pause.o" -o "$dir/pause"
	"$dir/pause" 3>&- &
	started $!
	wait_for 5 grep -q pause "/proc/$!/comm" || skip "this kernel runs no 32-bit programs"
	refuses 5 "32-bit" stat -p $! -d 1s
	refuses 5 "32-bit" doctor -p $!
}

@test "a static program is observed, and what cannot be seen is absent, not zero" {
	printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' \
		>"$BATS_TEST_TMPDIR/p.c"
	gcc -static -o "$BATS_TEST_TMPDIR/pause-static" "$BATS_TEST_TMPDIR/p.c"
	strip "$BATS_TEST_TMPDIR/pause-static"
	"$BATS_TEST_TMPDIR/pause-static" 3>&- &
	started $!
	wait_for 5 grep -q pause-static "/proc/$!/comm"
	"$SONDE" stat -p $! -d 300ms --json >"$BATS_TEST_TMPDIR/json"
	jq -es 'length > 0' "$BATS_TEST_TMPDIR/json"
	local status=0
	"$SONDE" stat -p $! --alloc-mode exact --yes -d 300ms >"$BATS_TEST_TMPDIR/o" \
		2>"$BATS_TEST_TMPDIR/e" || status=$?
	[ "$status" != 0 ] || grep -qiE 'allocator|symbol' "$BATS_TEST_TMPDIR/o" "$BATS_TEST_TMPDIR/e"
}

@test "a process that ends while sonde attaches: done or 3, never a crash" {
	local i status
	for i in $(seq 20); do
		sleep "0.0$i" 3>&- &
		status=0
		timeout 60 "$SONDE" stat -p $! -d 1s >"$BATS_TEST_TMPDIR/o" \
			2>"$BATS_TEST_TMPDIR/e" || status=$?
		wait $! || true
		case $status in
		0 | 3) ;;
		*)
			echo "exit $status in round $i" >&2
			cat "$BATS_TEST_TMPDIR/e" >&2
			return 1
			;;
		esac
	done
}

# ---- the surroundings ----

# A shell of its own as the command in front of sonde: SCRIPT runs first, then sonde with its arguments.
in_shell() { # SCRIPT [WRAPPER...]
	AS=("${@:2}" bash -c "$1; exec \"\$@\"" -)
}

private_pids() { unshare --pid --fork --mount-proc true 2>/dev/null; }

@test "in a pid namespace of its own sonde attaches nothing: 5" {
	private_pids || skip "no pid namespaces"
	in_shell 'sleep 30 & until [ "$(cat /proc/$!/comm)" = sleep ]; do kill -0 $!; done
		set -- "${@//PID/$!}"' unshare --pid --fork --kill-child --mount-proc
	refuses 5 "pid namespace.*--pid=host" stat -p PID -d 300ms
	refuses 5 "pid namespace.*--pid=host" stat -p PID --lens rss --passive -d 300ms
	refuses 5 "pid namespace" record -p PID -o "$BATS_TEST_TMPDIR/x.sonde" -d 300ms
	[ ! -e "$BATS_TEST_TMPDIR/x.sonde" ]
	"${AS[@]}" "$SONDE" doctor | grep -q "host_pids no:"
	"${AS[@]}" "$SONDE" doctor -p PID | grep -q "^Ready: NO, host_pids"
	"${AS[@]}" "$SONDE" ps -a | grep -qw sleep
}

@test "a target in a pid namespace is observed from the host" {
	private_pids || skip "no pid namespaces"
	# It forks all the time, so it copies pages all the time.
	unshare --pid --fork --kill-child --mount-proc \
		bash -c 'while :; do : "$(:)"; done' 3>&- &
	local outer=$! inner
	started "$outer"
	wait_for 5 pgrep -P "$outer"
	inner=$(pgrep -P "$outer")
	started "$inner"
	"$SONDE" stat -p "$inner" --lens fault -d 500ms >"$BATS_TEST_TMPDIR/o"
	grep -E "^Page faults [1-9]" "$BATS_TEST_TMPDIR/o"
}

@test "without /sys the kernel's types are named, not the process: 5" {
	idle
	in_shell "umount -l /sys" unshare --mount
	refuses 5 "types of this kernel.*CONFIG_DEBUG_INFO_BTF" stat -p "$IDLE_PID" -d 300ms
	"${AS[@]}" "$SONDE" doctor >"$BATS_TEST_TMPDIR/o"
	grep -q "btf no:" "$BATS_TEST_TMPDIR/o"
	! grep -E "use kernel 5|use kernel 6" "$BATS_TEST_TMPDIR/o"
}

@test "without /proc that is said, not that nobody is there: 1" {
	idle
	in_shell "umount -l /proc" unshare --mount
	refuses 1 "/proc is not mounted" stat -p "$IDLE_PID" -d 300ms
	refuses 1 "/proc is not mounted" stat -n sleep -d 300ms
	refuses 1 "/proc is not mounted" doctor -p "$IDLE_PID"
	refuses 1 "/proc is not mounted" ps
}

@test "too few open files: 1, with the remedy" {
	idle
	local n
	for n in 8 9 10 12 14 17 20 30 50 100; do
		in_shell "ulimit -n $n"
		refuses 1 "open files.*ulimit -n" stat -p "$IDLE_PID" -d 300ms
	done
}

@test "too little memory: 1, never 'no such process'" {
	idle
	local kib
	for kib in 20000 25000 30000; do
		in_shell "ulimit -v $kib"
		refuses 1 "[Mm]emory" stat -p "$IDLE_PID" -d 300ms
	done
}

@test "root without CAP_SYS_PTRACE: 4, and the capability is named" {
	setpriv --reuid=65534 --regid=65534 --clear-groups sleep 300 3>&- &
	started $!
	AS=(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace)
	refuses 4 "CAP_SYS_PTRACE" stat -p $! -d 300ms
	equal 0 "$(grep -c "another user" "$BATS_TEST_TMPDIR/err")" "sentences on other users"
}

@test "a process of a cgroup that may not be looked into is left out, the others are observed" {
	local dir
	dir=$(awk '$3 == "cgroup2" || $3 == "cgroup" {print $2; exit}' /proc/self/mounts)
	[ -n "$dir" ] && mkdir "$dir/sonde-test-$$" 2>/dev/null || skip "no cgroup can be made"
	# With more capabilities than sonde it would be closed to it, too.
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace sleep 300 3>&- &
	IDLE_PID=$!
	started "$IDLE_PID"
	setpriv --reuid=65534 --regid=65534 --clear-groups sleep 300 3>&- &
	local closed=$! status=0
	started "$closed"
	echo "$IDLE_PID" >"$dir/sonde-test-$$/cgroup.procs"
	echo "$closed" >"$dir/sonde-test-$$/cgroup.procs"
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$SONDE" stat \
		--cgroup "$dir/sonde-test-$$" -d 300ms >"$BATS_TEST_TMPDIR/o" \
		2>"$BATS_TEST_TMPDIR/e" || status=$?
	end_started || true
	wait_for 5 rmdir "$dir/sonde-test-$$"
	cat "$BATS_TEST_TMPDIR/e" >&2
	equal 0 "$status" "exit status"
	grep -q "warning: $closed (sleep) is left out" "$BATS_TEST_TMPDIR/e"
	grep -q "pid $IDLE_PID" "$BATS_TEST_TMPDIR/o"
}

# ---- the command line ----

@test "numbers with junk, signs, no unit or out of range: 2" {
	refuses 2 "12x" stat -p 12x -d 1s
	refuses 2 "" stat -p -1 -d 1s
	refuses 2 "" stat -p 0 -d 1s
	refuses 2 "" stat -p 99999999999999999999 -d 1s
	refuses 2 "10q" stat -p 1 -d 10q
	refuses 2 "" stat -p 1 -d "1 s"
	refuses 2 "" stat -p 1 -d ""
	refuses 2 "5ms!" stat -p 1 -i 5ms!
	refuses 2 "64X" stat -p 1 --ring-size 64X
	refuses 2 "3x" export x.sonde --to csv --slowest 3x
	refuses 2 "" stat -p 1 --harm-limit nan
	refuses 2 "" record -p 1 -o x --spans slowest=0/h
}

@test "commands and options that do not exist, with the nearest one: 2" {
	refuses 2 "record" recrod -p 1
	refuses 2 "duration" stat -p 1 --duratoin 1s
	refuses 2 "rss" stat -p 1 --lens rsss
	refuses 2 "" stat -p 1 --slowest 3
	refuses 2 "" stat -d 1s
	refuses 2 "" stat -p 1 -n searchd
	refuses 2 "" stat -p 1 -q -v
	refuses 2 "" report
	refuses 2 "nosuchformat" export /dev/null --to nosuchformat
}

@test "exact mode needs a time and consent: 2" {
	idle
	refuses 2 "-d" stat -p "$IDLE_PID" --alloc-mode exact --yes
	local status=0
	"$SONDE" stat -p "$IDLE_PID" --alloc-mode exact -d 1s </dev/null >"$BATS_TEST_TMPDIR/o" \
		2>"$BATS_TEST_TMPDIR/e" || status=$?
	equal 2 "$status" "exit status"
	grep -q -- "--yes" "$BATS_TEST_TMPDIR/e"
	has_no_probes "$IDLE_PID"
}

# ---- files ----

@test "a recording that is none: 1" {
	local bad=$BATS_TEST_TMPDIR/bad
	echo "not a recording" >"$bad.txt"
	: >"$bad.empty"
	head -c 65536 /dev/urandom >"$bad.random"
	sqlite3 "$bad.other" 'CREATE TABLE t (a)'
	mkdir "$bad.dir"
	local f
	for f in txt empty random other dir missing; do
		refuses 1 "bad.$f" report "$bad.$f"
		refuses 1 "bad.$f" export "$bad.$f" --to csv
	done
}

@test "an output that exists is kept unless --overwrite: 1" {
	idle
	local f=$BATS_TEST_TMPDIR/kept.sonde
	echo precious >"$f"
	refuses 1 "kept.sonde.*overwrite" record -p "$IDLE_PID" -o "$f" -d 200ms
	equal precious "$(cat "$f")" "the file"
	"$SONDE" record -p "$IDLE_PID" -o "$f" -d 200ms --overwrite
	"$SONDE" report "$f" >/dev/null
}

@test "a recording that another sonde writes is not replaced, and one that is taken away ends: 1" {
	idle
	local f=$BATS_TEST_TMPDIR/two.sonde status=0
	TARGET_PID=$IDLE_PID
	record_begin "$f"
	refuses 1 "two.sonde.*another sonde" record -p "$IDLE_PID" -o "$f" -d 200ms --overwrite
	sonde_finish
	equal 1 "$(sqlite3 "$f" "SELECT value FROM meta WHERE key = 'complete'")" "the first: complete"
	"$SONDE" record -p "$IDLE_PID" -o "$f" -d 200ms --overwrite # it is done, and let go of
	f=$BATS_TEST_TMPDIR/gone.sonde
	record_begin "$f"
	rm "$f"
	wait_for 30 is_gone "$SONDE_PID"
	wait "$SONDE_PID" || status=$?
	equal 1 "$status" "exit status of the one whose file is gone"
	equal 1 "$(grep -c 'gone.sonde.*removed' "$BATS_TEST_TMPDIR/sonde.err")" "sentences on it"
}

@test "an output that is the recording being read: 2, and the recording is left" {
	idle
	cd "$BATS_TEST_TMPDIR"
	"$SONDE" record -p "$IDLE_PID" -o r.sonde -d 500ms -i 100ms
	"$SONDE" record -p "$IDLE_PID" -o s.sonde -d 500ms -i 100ms
	ln -s r.sonde link.sonde
	ln r.sonde hard.sonde
	local before out
	before=$(sha256sum <r.sonde)
	for out in r.sonde ./r.sonde link.sonde hard.sonde "$PWD/r.sonde" r.sonde-wal; do
		refuses 2 "recording that is read" export r.sonde --to csv -o "$out" --overwrite
		refuses 2 "recording that is read" report r.sonde -o "$out" --overwrite
		refuses 2 "recording that is read" compare s.sonde r.sonde -o "$out" --overwrite
	done
	[ ! -e r.sonde-wal ]
	equal "$before" "$(sha256sum <r.sonde)" "the recording"
}

@test "a file is replaced when all is written, else it is left" {
	idle
	cd "$BATS_TEST_TMPDIR"
	"$SONDE" record -p "$IDLE_PID" -o r.sonde -d 500ms -i 10ms
	mkdir into
	echo precious >into/old.csv
	chmod 640 into/old.csv
	ln -s old.csv into/link.csv
	local status=0
	(ulimit -f 4 && exec "$SONDE" export r.sonde --to csv --series -o into/link.csv --overwrite) 2>e ||
		status=$?
	equal 1 "$status" "exit status"
	equal 1 "$(wc -l <e)" "sentences on stderr"
	equal precious "$(cat into/old.csv)" "the old file"
	"$SONDE" export r.sonde --to csv --series -o into/link.csv --overwrite
	"$SONDE" export r.sonde --to csv --series >want.csv
	cmp want.csv into/old.csv
	equal 640 "$(stat -c %a into/old.csv)" mode
	[ -L into/link.csv ]
	equal "link.csv old.csv" "$(ls into | xargs)" "files"
}

@test "an output that cannot be written: 1, or 4 where it is not permitted" {
	idle
	refuses 1 "nowhere" record -p "$IDLE_PID" -o "$BATS_TEST_TMPDIR/nowhere/x.sonde" -d 200ms
	refuses 4 "/sys" record -p "$IDLE_PID" -o /sys/x.sonde -d 200ms
	"$SONDE" record -p "$IDLE_PID" -o "$BATS_TEST_TMPDIR/r.sonde" -d 200ms
	refuses 1 "" export "$BATS_TEST_TMPDIR/r.sonde" --to csv -o /dev/full
	local status=0
	"$SONDE" report "$BATS_TEST_TMPDIR/r.sonde" >/dev/full 2>"$BATS_TEST_TMPDIR/e" || status=$?
	equal 1 "$status" "exit status of a report to a full device"
	equal 1 "$(wc -l <"$BATS_TEST_TMPDIR/e")" "sentences on stderr"
}

@test "a disk that becomes full while recording: 1, and what was written opens" {
	local mnt=$BATS_TEST_TMPDIR/small status=0
	mkdir "$mnt"
	mount -t tmpfs -o size=4m none "$mnt" || skip "tmpfs cannot be mounted here"
	echo "$mnt" >"$BATS_TEST_TMPDIR/mounted"
	idle
	TARGET_PID=$IDLE_PID
	record_begin "$mnt/x.sonde"
	dd if=/dev/zero of="$mnt/filler" bs=4k status=none 2>/dev/null || true
	wait_for 60 is_gone "$SONDE_PID"
	wait "$SONDE_PID" || status=$?
	equal 1 "$status" "exit status"
	grep -qiE 'full|no space' "$BATS_TEST_TMPDIR/sonde.err"
	rm "$mnt/filler"
	"$SONDE" report "$mnt/x.sonde" >/dev/null
}

@test "a file size limit while recording: 1, and what was written opens" {
	idle
	local f=$BATS_TEST_TMPDIR/limited.sonde status=0
	(ulimit -f 400 && exec "$SONDE" record -p "$IDLE_PID" -o "$f" -i 10ms -d 120s) \
		>/dev/null 2>"$BATS_TEST_TMPDIR/e" || status=$?
	equal 1 "$status" "exit status"
	equal 1 "$(grep -c 'file size limit' "$BATS_TEST_TMPDIR/e")" "sentences on it"
	"$SONDE" report "$f" >/dev/null
	# Too little for even an empty recording.
	status=0
	(ulimit -f 4 && exec "$SONDE" record -p "$IDLE_PID" -o "$f.2" -d 1s) 2>"$BATS_TEST_TMPDIR/e" ||
		status=$?
	equal 1 "$status" "exit status"
	[ ! -e "$f.2" ]
	# A command that is started meets the limit as it would without sonde.
	(ulimit -f 64 && "$SONDE" stat --lens proc -d 5s -- \
		bash -c 'head -c 999999 /dev/zero >"$1"; echo "ended with $?" >&2' - "$f.3") \
		>/dev/null 2>"$BATS_TEST_TMPDIR/e" || true
	grep -q 'ended with 153' "$BATS_TEST_TMPDIR/e"
}

@test "a reader that goes away ends the command quietly" {
	idle
	"$SONDE" record -p "$IDLE_PID" -o "$BATS_TEST_TMPDIR/r.sonde" -d 500ms -i 100ms
	"$SONDE" export "$BATS_TEST_TMPDIR/r.sonde" --to csv --series 2>"$BATS_TEST_TMPDIR/e" |
		head -1 >/dev/null
	equal "" "$(cat "$BATS_TEST_TMPDIR/e")" stderr
}

# ---- degraded ----

@test "degraded under --strict: 6, with the reason on the terminal" {
	idle
	local status=0
	SONDE_FORCE_SYSCALLS=1 "$SONDE" stat -p "$IDLE_PID" --lens query -d 200ms --strict \
		>"$BATS_TEST_TMPDIR/o" 2>"$BATS_TEST_TMPDIR/e" || status=$?
	equal 6 "$status" "exit status"
	grep -qi degraded "$BATS_TEST_TMPDIR/o" "$BATS_TEST_TMPDIR/e"
	SONDE_FORCE_SYSCALLS=1 "$SONDE" stat -p "$IDLE_PID" --lens query -d 200ms >/dev/null
}

@test "a link kind that was forced and does not exist is an error, not a fall-back: 2" {
	idle
	export SONDE_FORCE_LINK=nosuchlink
	refuses 2 "nosuchlink" stat -p "$IDLE_PID" --alloc-mode exact --yes -d 200ms
}
