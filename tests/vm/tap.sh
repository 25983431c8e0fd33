# SPDX-License-Identifier: GPL-2.0-or-later
# What a check may use. The host numbers the lines.

ok() {
	echo "ok - $1"
}

not_ok() {
	echo "not ok - $1"
	shift
	[ $# = 0 ] || printf '%s\n' "$@" | sed 's/^/#   /'
}

skip() {
	echo "ok - $1 # SKIP $2"
}

# is GOT WANTED NAME
is() {
	if [ "$1" = "$2" ]; then ok "$3"; else not_ok "$3" "got: $1" "wanted: $2"; fi
}

# within GOT LOW HIGH NAME: a whole number in a range
within() {
	case $1 in
	'' | *[!0-9]*) not_ok "$4" "not a number: '$1'" ;;
	*) if [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; then ok "$4"; else
		not_ok "$4" "got: $1" "wanted: $2 to $3"
	fi ;;
	esac
}

# matches TEXT PATTERN NAME: an extended regular expression
matches() {
	if echo "$1" | grep -Eq "$2"; then ok "$3"; else not_ok "$3" "no match for $2 in:" "$1"; fi
}

# until_line FILE PATTERN PID: wait for a line, five minutes at most (the guest is slow: moving memory
# about took its processor for more than one), and no longer than the program that writes it lives
until_line() {
	for _ in $(seq 3000); do
		grep -q "$2" "$1" 2>/dev/null && return 0
		kill -0 "$3" 2>/dev/null || break
		sleep 0.1
	done
	grep -q "$2" "$1" 2>/dev/null
}

# observe_begin SONDE-OPTIONS PROGRAM ARGUMENT...: run a test program that says "ready PID", works when
# it gets a line and says "done", under sonde stat. What it said is in /tmp/work, the summary in /tmp/json.
# The program ($work_pid) is still there, and waits until observe_end.
observe_begin() {
	options=$1
	shift
	rm -f /tmp/go /tmp/work /tmp/stat
	mkfifo /tmp/go
	"$@" </tmp/go >/tmp/work &
	work_pid=$!
	exec 9>/tmp/go
	until_line /tmp/work ^ready $work_pid
	# shellcheck disable=SC2086 # options are words
	sonde stat -p $work_pid $options -i 200ms --json >/tmp/stat 2>/tmp/stat.err 9>&- &
	sonde_pid=$!
	until_line /tmp/stat interval $sonde_pid || cat /tmp/stat.err >&2
	echo >&9
	until_line /tmp/work ^done $work_pid
	kill -INT $sonde_pid
	wait $sonde_pid
	grep '"summary"' /tmp/stat >/tmp/json
}

observe_end() {
	exec 9>&-
	wait $work_pid
}

observe_program() {
	observe_begin "$@"
	observe_end
}
