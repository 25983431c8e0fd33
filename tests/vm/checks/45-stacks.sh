# SPDX-License-Identifier: GPL-2.0-or-later
# Call stacks under this kernel's verifier and links: every stack that stackwork says it allocated from, with
# its bytes, is one that sonde recorded, and nothing else of the program is.

truth() {
	awk -F'|' '$1 == "truth" { n = split($2, f, ";"); line = f[n]
		for (i = n - 1; i > 0; i--) line = line ";" f[i]
		bytes[line] += $4 }
		END { for (l in bytes) print l " " bytes[l] }' /tmp/work | sort
}

seen() { # outermost first, from lv_enter on
	sonde export /tmp/x.sonde --to folded |
		awk '/;lv_enter;/ { at = index($0, ";lv_enter;"); head = substr($0, 1, at)
			# Two functions of a libc whose names are perhaps not known here, none in brackets.
			if (head !~ /^[^;[]*;[^;]*;work;$/) print "odd: " head
			line = substr($0, at + 1); n = length(line) - length($NF) - 1
			bytes[substr(line, 1, n)] += $NF }
			END { for (l in bytes) print l " " bytes[l] }' | sort
}

recording() { # until the first interval is in
	for _ in $(seq 600); do
		sonde export /tmp/x.sonde --to csv --series 2>/dev/null | grep -q alloc.calls && return
		kill -0 "$sonde_pid" || return 1
		sleep 0.1
	done
}

stacks() {
	rm -f /tmp/go /tmp/x.sonde
	mkfifo /tmp/go
	stackwork 40 400 2 </tmp/go >/tmp/work &
	work_pid=$!
	exec 9>/tmp/go
	until_line /tmp/work ^ready $work_pid
	sonde record -p $work_pid --lens alloc --alloc-mode exact --sites --yes -d 120s -i 200ms \
		-o /tmp/x.sonde >/tmp/out 2>/tmp/err 9>&- &
	sonde_pid=$!
	recording || cat /tmp/err >&2
	echo >&9
	until_line /tmp/work ^done $work_pid
	kill -INT $sonde_pid
	wait $sonde_pid
	exec 9>&-
	wait $work_pid
}

for _ in 1 2 3; do
	stacks
	grep -q 'ended by: probes lost' /tmp/err || break
done
is "$(seen)" "$(truth)" "call stacks are as the program knows them"
