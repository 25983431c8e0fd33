# SPDX-License-Identifier: GPL-2.0-or-later
# A sonde that is killed leaves no probe behind: the target's code is again what its files say.
probes() {
	textdiff $loop | tail -n 1
}

until_probes() { # none|some: a minute at most
	for _ in $(seq 60); do
		case $(probes) in
		0) [ "$1" = none ] && return 0 ;;
		*) [ "$1" = some ] && return 0 ;;
		esac
		sleep 1
	done
	return 1
}

allocwork loop >/tmp/work </dev/null &
loop=$!
until_line /tmp/work ^ready $loop
is "$(probes)" 0 "no probe before"
sonde stat -p $loop --lens alloc --alloc-mode exact --yes -d 200s --json >/tmp/stat 2>/tmp/stat.err &
sonde_pid=$!
until_probes some && ok "probes while it observes" || not_ok "probes while it observes" "$(cat /tmp/stat.err)"
kill -KILL $sonde_pid
until_probes none && ok "none after SIGKILL" || not_ok "none after SIGKILL" "left: $(probes)"
kill -0 $loop && ok "the target lives" || not_ok "the target lives"
kill $loop
