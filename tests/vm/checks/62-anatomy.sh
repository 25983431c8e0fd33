# SPDX-License-Identifier: GPL-2.0-or-later
# The anatomy of queries whose cost the server wrote down. Emulated CPUs are slow, so only what does not
# depend on that is compared: every query is divided, its parts are its duration, and waits are as long as
# the server says.
last() { # METRIC: of its plain series
	jq --arg n "$1" '[.metrics[] | select(.name == $n and (.label // "") == "") | .value] | add // 0 |
		floor' /tmp/json
}

# The sum over all parts less that of all latencies, in ns; each may be rounded.
apart() {
	jq '([.metrics[] | select((.name | startswith("query.part.")) and (.label // "") == "") | .value] |
		add) - ([.histograms[] | select(.name == "query.latency" and (.label // "") == "") |
		.mean * .count] | add) | fabs | floor' /tmp/json
}

truth() { # COLUMN: its sum, in ns
	awk -v c="$1" '{ sum += $c } END { printf "%.0f\n", sum }' /tmp/truth
}

rm -f /tmp/truth /tmp/port /tmp/stat
anatomywork /tmp/truth >/tmp/port &
anatomy_pid=$!
until_line /tmp/port "" $anatomy_pid
sonde stat -p $anatomy_pid --lens query --anatomy on -i 200ms --json >/tmp/stat 2>/tmp/stat.err &
sonde_pid=$!
until_line /tmp/stat interval $sonde_pid || cat /tmp/stat.err >&2
anatomyask "$(head -n 1 /tmp/port)" 1 1 "spin 10" # an accept that was under way may not be seen
anatomyask "$(head -n 1 /tmp/port)" 1 10 "spin 2000; sleep 20000; touch 100; lock 20000; purge 512"
kill -INT $sonde_pid
wait $sonde_pid
kill $anatomy_pid
grep '"summary"' /tmp/stat >/tmp/json
within "$(last query.part_spans)" 10 11 "10 queries are divided into parts"
within "$(apart)" 0 11000 "the parts of all are their latencies"
asleep=$(truth 14)
within "$(last query.part.off_sleep)" $((asleep * 9 / 10)) $((asleep * 11 / 10)) \
	"as long asleep as the server says"
locked=$(truth 15)
within "$(last query.part.off_lock)" $((locked * 9 / 10)) $((locked * 11 / 10)) "and as long in a lock"
cpu=$(truth 4)
within "$(last query.part.user)" $((cpu / 100)) $((cpu * 2)) "some of its CPU time is its own code"
[ "$(last query.part.fault_base)" -gt 0 ] && ok "faults are told" || not_ok "faults are told"
[ "$(last query.part.sys_madvise)" -gt 0 ] && ok "and madvise" || not_ok "and madvise"
within "$(last query.part.unattributed)" 0 $(((asleep + locked) / 20)) "little is unattributed"
