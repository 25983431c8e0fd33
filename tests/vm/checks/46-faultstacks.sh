# SPDX-License-Identifier: GPL-2.0-or-later
# Page faults by call stack under this kernel's verifier: every way that stackwork says it touched pages from,
# by itself, by memset and by read(2), is one that sonde recorded, with its pages, and nothing else.

truth() {
	awk -F'|' '$1 == "truth" { n = split($2, f, ";"); line = f[n]
		for (i = n - 1; i > 0; i--) line = line ";" f[i]
		pages[line] += $3 }
		END { for (l in pages) print l " " pages[l] }' /tmp/work | sort
}

seen() { # outermost first, from lv_enter to the function that touches
	awk '/^[^[].*;lv_enter;.*lv_(touch|fill|read)[; ]/ {
			pages = $NF; sub(/ [0-9]+$/, ""); line = substr($0, index($0, ";lv_enter;") + 1)
			match(line, /lv_(touch|fill|read)/)
			n[substr(line, 1, RSTART + RLENGTH - 1)] += pages }
		END { for (l in n) print l " " n[l] }' /tmp/folded | sort
}

recording() { # until the first interval is in
	for _ in $(seq 600); do
		sonde export /tmp/x.sonde --to csv --series 2>/dev/null | grep -q fault.count && return
		kill -0 "$sonde_pid" || return 1
		sleep 0.1
	done
}

rm -f /tmp/go /tmp/x.sonde
mkfifo /tmp/go
stackwork 40 400 2 fault </tmp/go >/tmp/work &
work_pid=$!
exec 9>/tmp/go
until_line /tmp/work ^ready $work_pid
sonde record -p $work_pid --lens fault --fault-by stack -d 120s -i 200ms -o /tmp/x.sonde \
	>/tmp/out 2>/tmp/err 9>&- &
sonde_pid=$!
recording || cat /tmp/err >&2
echo >&9
until_line /tmp/work ^done $work_pid
kill -INT $sonde_pid
wait $sonde_pid
exec 9>&-
wait $work_pid
sonde export /tmp/x.sonde --to folded >/tmp/folded
is "$(seen)" "$(truth)" "page faults by call stack are as the program knows them"
