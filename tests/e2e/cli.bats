# SPDX-License-Identifier: GPL-2.0-or-later
# The command line: help, refusals with their exit codes, what becomes of stdout, and that looking
# attaches nothing. The target is a sleeping process of the test's own.

setup_file() {
	export SONDE=${SONDE:-$PWD/build/sonde}
	sleep 600 3>&- &
	export TARGET=$!
}

teardown_file() {
	kill "$TARGET"
}

# What a probe leaves in a process for good: the page of the kernel's uprobes, and private text pages.
probed() { grep -q '\[uprobes\]' "/proc/$1/maps"; }
dirty_text() {
	awk '/^[0-9a-f]+-/ { text = /r-xp/ } text && /^Private_Dirty/ { kb += $2 } END { print kb + 0 }' \
		"/proc/$1/smaps"
}

refused() { # CODE PATTERN ARG...
	local code=$1 pattern=$2
	shift 2
	run "$SONDE" "$@"
	echo "sonde $*: exit $status: $output"
	[ "$status" = "$code" ]
	[[ $output == *$pattern* ]]
	[ "${#lines[@]}" = 1 ]
}

@test "--version says the version of the file VERSION" {
	run "$SONDE" --version
	[ "$status" = 0 ]
	[ "$output" = "sonde $(cat VERSION)" ]
}

@test "help is data: exit 0, on stdout; without a command it is a mistake: exit 2, on stderr" {
	[ "$("$SONDE" --help 2>/dev/null)" = "$("$SONDE" help 2>/dev/null)" ]
	"$SONDE" help | grep -q '^  stat '
	run "$SONDE"
	[ "$status" = 2 ]
	[ -z "$("$SONDE" 2>/dev/null)" ]
}

@test "each command's help names it, its options and exits 0, whatever else is missing" {
	for cmd in ps doctor stat record report export help; do
		run "$SONDE" "$cmd" --help
		[ "$status" = 0 ]
		[[ ${lines[0]} == "sonde $cmd: "* ]]
		[[ $output == *--quiet* ]]
		[ "$output" = "$("$SONDE" help "$cmd")" ]
	done
}

@test "help fits a terminal of 100 columns" {
	for cmd in ps doctor stat record report export help; do
		! "$SONDE" help "$cmd" | grep -E '.{101}'
	done
}

@test "the committed pages are what the tables make" {
	diff docs/options.md <("$SONDE" help --markdown)
	diff docs/sonde.1 <("$SONDE" help --man)
}

@test "completion is valid bash and completes commands and options" {
	"$SONDE" help --bash-completion >"$BATS_TEST_TMPDIR/c"
	bash -n "$BATS_TEST_TMPDIR/c"
	complete_words() {
		bash -c '
			source "$0"
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
			_sonde
			echo "${COMPREPLY[*]}"' "$BATS_TEST_TMPDIR/c" "$@"
	}
	[ "$(complete_words sonde stat --alloc-m)" = --alloc-mode ]
	[ "$(complete_words sonde stat --alloc-mode ex)" = exact ]
	[ "$(complete_words sonde rec)" = record ]
}

@test "what is not known is answered with the nearest name" {
	refused 2 'did you mean `sonde stat`' stta
	refused 2 'sonde help` lists' zebra
	refused 2 'did you mean --interval' stat --intervall 1s
	refused 2 'did you mean query' stat -p 1 --lens qeury
	refused 2 'did you mean csv' export x.sonde --to cvs
}

@test "numbers are taken whole or refused" {
	refused 2 "--pid: '12abc'" stat -p 12abc
	refused 2 "--pid: '-1'" stat -p -1
	refused 2 "--duration: '5 s'" stat -p 1 -d '5 s'
	refused 2 "--interval: '1ms' is refused: it must be from 10.0 ms" stat -p 1 -i 1ms
	refused 2 "--ring-size: '4Q'" stat -p 1 --ring-size 4Q
	refused 2 "--spans: 'slowest=x/h'" record -p 1 -o x --spans slowest=x/h
	refused 2 "--harm-limit: '0.5'" stat -p 1 --harm-limit 0.5
	refused 2 '--pid needs a value' stat -p
}

@test "an option of another command says where it belongs" {
	refused 2 'it belongs to: sonde export' stat -p 1 --to csv
	refused 2 'the command comes first' -p 1 stat
}

@test "what is missing or contradicts itself is one sentence" {
	refused 2 'needs one of: -p, -n, --unit, --cgroup, or -- COMMAND' stat
	refused 2 'needs -o' record -p 1
	refused 2 'something is missing' report
	refused 2 'one word too many' report a b
	refused 2 'contradict' stat -p 1 -q -v
	refused 2 'one of -p, -n' stat -p 1 -n x
	refused 2 'leave out -p' stat -p 1 -- true
	refused 2 'nothing follows --' stat --
	refused 2 'records nothing' record -p 1 -o x -d 0
	refused 2 'leaves no time' stat -p 1 -d 0 --lens fault
	refused 2 'leaves no time' stat -p 1 -d 0 --lens query,fault,stall
	refused 2 'put -- before the command' run -d 12s searchd --config x
	refused 2 'put -- before the command' stat -d 1s searchd -p 3
	refused 2 'by its option: -p 812' stat 812
}

@test "exact mode needs an end, and a yes that somebody can give" {
	refused 2 'add -d' stat -p "$TARGET" --alloc-mode exact
	refused 2 'add -d' stat -p "$TARGET" --alloc-mode exact -d 0
	refused 2 'leave one of them out' stat -p "$TARGET" --lens alloc --alloc-mode off
	refused 2 '--passive forbids' stat -p "$TARGET" --alloc-mode exact -d 1s --passive
	run "$SONDE" stat -p "$TARGET" --alloc-mode exact -d 1s </dev/null
	echo "$output"
	[ "$status" = 2 ]
	[[ $output == *"not agreed to"* ]]
	! probed "$TARGET"
}

@test "the question is asked on a terminal, and only yes is a yes" {
	command="$SONDE stat -p $TARGET --alloc-mode exact -d 200ms --lens rss"
	for answer in n '' nonsense; do
		run script -qec "$command" /dev/null <<<"$answer"
		echo "$answer: $output"
		[ "$status" = 2 ]
		[[ $output == *"[y/N]"*"not agreed to"* ]]
	done
	run script -qec "$command" /dev/null <<<y
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"every call"* ]]
}

@test "with --yes the price is told, that of a malloc and free pair; with -q nothing is" {
	run "$SONDE" stat -p "$TARGET" --alloc-mode exact -d 200ms --lens rss --yes
	echo "$output"
	[ "$status" = 0 ]
	said='a malloc and free pair costs the target about ([0-9.]+) us.*takes about ([0-9.]+) ms'
	[[ $output =~ $said ]]
	price=${BASH_REMATCH[1]} query=${BASH_REMATCH[2]}
	# 1,300 pairs, to the digits shown; and no sum of single-stepped prices, which doctor has too.
	awk -v p="$price" -v q="$query" \
		'BEGIN { exit !(q > 1.3 * (p - 0.06) - 0.06 && q < 1.3 * (p + 0.06) + 0.06) }'
	run "$SONDE" stat -q -p "$TARGET" --alloc-mode exact -d 200ms --lens rss --yes
	[ "$status" = 0 ]
	[[ $output != *"sonde: "* ]]
}

@test "doctor gives each price of a hit a name of its own" {
	"$SONDE" doctor -p "$TARGET" --alloc-mode exact >"$BATS_TEST_TMPDIR/doctor"
	names=$(sed -n 's/^costs a hit *//p' "$BATS_TEST_TMPDIR/doctor" | sed 's/ (calibrated.*//' |
		tr ',' '\n' | sed 's/ [0-9.]* [nu]s$//')
	echo "$names"
	[ "$(sort <<<"$names" | uniq -d)" = "" ]
	[[ $names == *"(emulated)"*"(single-stepped)"* ]]
}

@test "that observing has begun is said once, on stderr, but not with -q, --json or -d 0" {
	line="sonde: attached to $TARGET (sleep) in "
	run "$SONDE" stat -p "$TARGET" --lens rss -d 100ms
	[[ $output == "$line"*" observing"* ]]
	[ "$(grep -c observing <<<"$output")" = 1 ]
	run "$SONDE" record -p "$TARGET" --lens rss -d 100ms -o "$BATS_TEST_TMPDIR/begun.sonde"
	[[ $output == "$line"*" observing"* ]]
	run "$SONDE" run --lens rss -d 100ms -- sleep 9
	[[ $output == *"(sleep) in "*" observing"* ]]
	[ "$("$SONDE" stat -p "$TARGET" --lens rss -d 100ms 2>/dev/null | grep -c observing)" = 0 ]
	for how in "-q -d 100ms" "--json -d 100ms" "-d 0"; do
		run "$SONDE" stat -p "$TARGET" --lens rss $how
		[[ $output != *observing* ]]
	done
}

@test "a target that exits in the middle of an interval leaves no line for its rest" {
	run "$SONDE" stat --lens rss,fault -i 1s -- sleep 1.3
	echo "$output"
	[ "$status" = 0 ]
	[ "$(grep -c '^[0-9][0-9]:[0-9][0-9]:[0-9][0-9] ' <<<"$output")" = 1 ]
	# its CPU time is known although it ran for less than a tick of the kernel's
	[[ $output == *"% of the target's CPU"* ]]
	[ "$("$SONDE" stat --lens rss -i 1s --json -- sleep 1.3 2>/dev/null | grep -c '"interval"')" = 2 ]
}

@test "a recording without allocations or queries says so, and which export has something" {
	f=$BATS_TEST_TMPDIR/none.sonde
	"$SONDE" record -q -p "$TARGET" --alloc-mode exact --sites --yes -d 100ms -o "$f"
	refused 1 'no allocation was seen' report "$f" --sites
	refused 1 'no allocation was seen' export "$f" --to pprof
	refused 1 'no allocation was seen' export "$f" --to folded
	run "$SONDE" export "$f" --to csv
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 2 ]
	[[ $output == *"no query trace"*"--series"*"--to pprof"* ]]
	run "$SONDE" export "$f" --to csv --series
	[[ $output != *"no query trace"* ]]
	# A target that is idle at first has no histogram; what is reported begins when counting did.
	ns=$(sqlite3 -readonly "$f" "SELECT max(ts_ns) - (SELECT CAST(value AS INTEGER) FROM meta
		WHERE key = 'recording.active_ns') FROM tick")
	[ "$ns" -ge 100000000 ]
	took=$(awk -v ns="$ns" \
		'BEGIN { if (ns < 999e6) printf "%.0f ms", ns / 1e6; else printf "%.2f s", ns / 1e9 }')
	"$SONDE" report "$f" | grep -F " UTC ($took), complete"
	[ "$("$SONDE" export "$f" --to jsonl | jq -s 'map(select(.type == "drops")) | length')" = 0 ]
}

@test "ps and doctor say which protocols are known, and that any process can be observed" {
	run "$SONDE" ps
	[[ $output == *"MySQL, SphinxAPI"*"-p PID; -a lists all"* ]]
	run "$SONDE" doctor -p "$TARGET" --lens query
	[[ $output == *"known protocol (MySQL, SphinxAPI, HTTP)"* ]]
	cp "$(command -v sleep)" "$BATS_TEST_TMPDIR/redis-server"
	"$BATS_TEST_TMPDIR/redis-server" 600 3>&- &
	pid=$!
	until [ "$(readlink "/proc/$pid/exe")" = "$BATS_TEST_TMPDIR/redis-server" ]; do sleep 0.01; done
	run "$SONDE" doctor -p $pid --lens query
	kill $pid
	[[ $output == *"none will be seen, its protocol is not known here (known: MySQL, SphinxAPI, HTTP)"* ]]
}

@test "a target that is not there is exit 3" {
	refused 3 999999999 stat -p 999999999
	refused 3 no-such-daemon stat -n no-such-daemon
	refused 3 2 doctor -p 2 # kthreadd: a kernel thread
}

@test "a file that is not there, or no recording, is one sentence and exit 1" {
	refused 1 /nonexistent report /nonexistent
	echo text >"$BATS_TEST_TMPDIR/text"
	refused 1 text report "$BATS_TEST_TMPDIR/text"
}

@test "ps lists the target with -a, and JSON says the same" {
	"$SONDE" ps -a 2>/dev/null | grep -q "^ *$TARGET sleep "
	[ "$("$SONDE" ps -a --json | jq -r ".processes[] | select(.pid == $TARGET) | .name")" = sleep ]
}

@test "a process's name steers no terminal, and JSON stays whole" {
	evil=$BATS_TEST_TMPDIR/$'a\e[31m\n\xff\tz'
	cp "$(command -v sleep)" "$evil"
	"$evil" 600 3>&- &
	pid=$!
	until [ "$(readlink "/proc/$pid/exe")" = "$evil" ]; do sleep 0.01; done
	name=$'a\xef\xbf\xbd[31m \xef\xbf\xbd z'
	"$SONDE" ps -a >"$BATS_TEST_TMPDIR/out" 2>&1
	"$SONDE" doctor -p $pid >>"$BATS_TEST_TMPDIR/out" 2>&1
	"$SONDE" stat -p $pid --dry-run >>"$BATS_TEST_TMPDIR/out" 2>&1
	"$SONDE" stat -p $pid -d 0 >>"$BATS_TEST_TMPDIR/out" 2>&1
	"$SONDE" ps -a --json | jq -r ".processes[] | select(.pid == $pid) | .name" >"$BATS_TEST_TMPDIR/ps"
	"$SONDE" doctor -p $pid --json | jq -r '.targets[0].name' >"$BATS_TEST_TMPDIR/doctor"
	"$SONDE" stat -p $pid -d 0 --json | jq -r '.meta["target.0.comm"]' >"$BATS_TEST_TMPDIR/stat"
	kill $pid
	run env LC_ALL=C grep -a -n $'[\x01-\x09\x0b-\x1f\x7f\xff]' "$BATS_TEST_TMPDIR/out"
	[ "$status" = 1 ]
	[ "$(grep -c -F "$name" "$BATS_TEST_TMPDIR/out")" -ge 4 ]
	for said in ps doctor; do [ "$(cat "$BATS_TEST_TMPDIR/$said")" = "$name" ]; done
	[ "$(cat "$BATS_TEST_TMPDIR/stat")" = $'a\xef\xbf\xbd[31m\n\xef\xbf\xbd\tz' ]
}

@test "a recording's settings steer no terminal" {
	command -v sqlite3 >/dev/null || skip "sqlite3 is not installed"
	made=$BATS_TEST_TMPDIR/made.sonde
	"$SONDE" record -p "$TARGET" -d 1s -o "$made" --lens rss
	sqlite3 "$made" "UPDATE meta SET value = char(27) || '[31m' || char(155) || value ||
		char(10) || 'DEGRADED'; UPDATE series SET label = char(27) || ']0;x' || char(7) || label
		WHERE label != ''; UPDATE name SET name = char(27) || '[2J' || name;"
	"$SONDE" report "$made" >"$BATS_TEST_TMPDIR/out" 2>&1
	"$SONDE" compare "$made" "$made" >>"$BATS_TEST_TMPDIR/out" 2>&1 || true
	cat "$BATS_TEST_TMPDIR/out"
	# C0 but for tab and newline, DEL, C1.
	run env LC_ALL=C grep -a -n $'[\x01-\x08\x0b-\x1f\x7f]\|\xc2[\x80-\x9f]' "$BATS_TEST_TMPDIR/out"
	[ "$status" = 1 ]
	grep -q $'host \xef\xbf\xbd' "$BATS_TEST_TMPDIR/out"
}

@test "ps says when it cannot see everything" {
	command -v setpriv >/dev/null || skip "setpriv is not installed"
	run setpriv --reuid=65534 --clear-groups "$SONDE" ps
	[ "$status" = 0 ]
	[[ $output =~ processes\ \(pid\ ([0-9]+), ]]
	[ -d "/proc/${BASH_REMATCH[1]}" ]
	[[ $output == *"may not be looked into"* ]]
}

@test "--dry-run and doctor attach nothing and write nothing into the target" {
	maps=$(cat "/proc/$TARGET/maps") dirty=$(dirty_text "$TARGET")
	run "$SONDE" stat -p "$TARGET" --dry-run --alloc-mode exact -d 1s
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"breakpoint bytes into private copies"* ]]
	[[ $output == *"Nothing attached."* ]]
	run "$SONDE" stat -p "$TARGET" --dry-run --lens rss,query,fault
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"nothing into the target"* ]]
	run "$SONDE" doctor -p "$TARGET"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"Nothing attached."* ]]
	[ "$(cat "/proc/$TARGET/maps")" = "$maps" ]
	[ "$(dirty_text "$TARGET")" = "$dirty" ]
}

@test "what these tests look for is there once exact mode was agreed to" {
	bash -c 'while sleep 0.05; do :; done' 3>&- & # bash allocates each time round
	run "$SONDE" stat -p $! --alloc-mode exact --yes -d 1s --lens rss
	echo "$output"
	probed $! && seen=1
	kill $!
	[ "$status" = 0 ]
	[ "${seen:-}" = 1 ]
	[[ $output == *"yes (--yes)"* ]]
}

@test "--dry-run of record creates no file" {
	run "$SONDE" record -p "$TARGET" --dry-run -o "$BATS_TEST_TMPDIR/x.sonde"
	[ "$status" = 0 ]
	[[ $output == *"creates        $BATS_TEST_TMPDIR/x.sonde"* ]]
	[ ! -e "$BATS_TEST_TMPDIR/x.sonde" ]
}

@test "doctor's JSON carries every feature with its answer" {
	"$SONDE" doctor --json |
		jq -e '.features | length > 10 and all(.[]; .answer | IN("yes", "no", "denied"))'
	"$SONDE" doctor -p "$TARGET" --json |
		jq -e ".targets[0].pid == $TARGET and (.plan.items | length > 0)"
}

@test "a reader that goes away ends the command quietly" {
	run bash -c '"$1" help record 2>"$2" | true; echo "${PIPESTATUS[0]}"; cat "$2"' - "$SONDE" \
		"$BATS_TEST_TMPDIR/err"
	[ "$output" = 0 ]
	run timeout 20 bash -c '
		"$1" stat -p "$2" --lens rss 2>"$3" | head -1 >/dev/null
		echo "${PIPESTATUS[0]}"' - "$SONDE" "$TARGET" "$BATS_TEST_TMPDIR/err"
	echo "$output"
	[ "$output" = 0 ]
	! grep -v observing "$BATS_TEST_TMPDIR/err"
}

@test "output that cannot be written is said, exit 1" {
	run bash -c '"$1" help >/dev/full' - "$SONDE"
	[ "$status" = 1 ]
	[[ $output == *"cannot write to stdout: No space left on device"* ]]
	[ "${#lines[@]}" = 1 ]
	run bash -c '"$1" help >&-' - "$SONDE"
	[ "$status" = 1 ]
	"$SONDE" record -q -p "$TARGET" --lens rss -d 300ms -i 50ms -o "$BATS_TEST_TMPDIR/x.sonde"
	for verb in "export --to csv --series" "export --to jsonl" report; do
		run bash -c '"$@" >/dev/full' - "$SONDE" $verb "$BATS_TEST_TMPDIR/x.sonde"
		echo "$output"
		[ "$status" = 1 ]
		[ "${#lines[@]}" = 1 ]
		refused 1 '/dev/full: No space left on device' $verb "$BATS_TEST_TMPDIR/x.sonde" -o /dev/full
		run bash -c '"$@" | true' - "$SONDE" $verb "$BATS_TEST_TMPDIR/x.sonde"
		[ -z "$output" ]
	done
}

@test "-q silences warnings, not errors" {
	run "$SONDE" stat -q -p 999999999
	[ "$status" = 3 ]
	[ -n "$output" ]
}

@test "--comm with a name that no thread has is warned of" {
	run "$SONDE" stat -p "$TARGET" --comm nosuch -d 100ms
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"warning: --comm: no thread was called 'nosuch'"* ]]
	run "$SONDE" record -p "$TARGET" --comm nosuch -d 100ms -o "$BATS_TEST_TMPDIR/x.sonde"
	[[ $output == *"no thread was called 'nosuch'"* ]]
	run "$SONDE" stat -p "$TARGET" --comm sleep -d 100ms
	[ "$status" = 0 ]
	[[ $output != *"no thread"* ]]
}

@test "that it is starting is said on a terminal only" {
	run script -qec "$SONDE stat -p $TARGET -d 0" /dev/null
	[[ ${lines[0]} == "sonde: starting (calibrating"* ]]
	run script -qec "$SONDE stat -q -p $TARGET -d 0" /dev/null
	[[ $output != *starting* ]]
	run "$SONDE" stat -p "$TARGET" -d 0
	[[ $output != *starting* ]]
}

@test "-d 0 is one reading: no rate of no time, nothing attached for one" {
	run "$SONDE" stat -p "$TARGET" -d 0
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"RSS "*"rates need time: -d 10s"* ]]
	for word in Queries "Page faults" "Attached in" "not known" "observed "; do
		[[ $output != *"$word"* ]]
	done
	run "$SONDE" stat -p "$TARGET" -d 0 --dry-run
	[[ $output == *"query          off"*"Nothing attached."* ]]
}

@test "the exit status of a started command is told when it is not 0" {
	run "$SONDE" stat --lens rss -- sh -c 'exit 7'
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"The command ended with status 7"* ]]
	run "$SONDE" stat --lens rss -- true
	[[ $output != *"The command"* ]]
}

@test "a command after -- is started and observed, with its own options left alone" {
	run "$SONDE" stat --lens rss -i 100ms -- sleep 0.3
	echo "$output"
	[ "$status" = 0 ]
}
