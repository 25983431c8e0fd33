# SPDX-License-Identifier: GPL-2.0-or-later
# Memory runs out: first in the whole guest, whose page cache is full when a program grows beyond what is
# left, so that it must free memory itself and swap; then in a cgroup (v2) of it alone.

disk=/dev/nvme0n1

metric() { # NAME LABEL TARGET
	jq -r --arg n "$1" --arg l "$2" --argjson t "${3:-0}" '[.metrics[] | select(.name == $n and
		(.label // "") == $l and .target == $t) | .value // "absent"] |
		if length == 0 then 0 else .[0] end' /tmp/json
}

vmstat() { # PATTERN: sum of the counters
	awk -v p="^$1\$" '$1 ~ p { n += $2 } END { print n + 0 }' /proc/vmstat
}

swapped() { # PID: by a walk of its page tables, all and what has no file
	awk '/^[0-9a-f]+-/ { file = $5 != 0 }
		/^Swap:/ { all += $2; if (!file) own += $2 }
		END { print all * 1024, own * 1024 }' "/proc/$1/smaps"
}

# Until two looks around a reading are the same: $before is what it should have found.
reading_at_rest() { # COMMAND ARGUMENT...: what is looked at
	for _ in 1 2 3 4 5 6 7 8; do
		before=$("$@")
		sonde stat -p $work_pid --lens rss -d 0 --ledger full --json >/tmp/json
		[ "$("$@")" != "$before" ] || return 0
	done
}

global() {
	cat $disk >/dev/null
	mkswap $disk >/dev/null
	swapon $disk
	mkfifo /tmp/go2
	thpwork idle 1 </tmp/go2 >/tmp/idle 9>&- &
	idle_pid=$!
	exec 8>/tmp/go2
	until_line /tmp/idle ^ready $idle_pid

	stalls=$(vmstat 'allocstall_.*')
	scanned=$(vmstat pgscan_direct)
	free=$(awk '/^MemAvailable/ { print int($2 / 2048) }' /proc/meminfo)
	observe_begin "--lens thp -p $idle_pid" thpwork grow $((free + 75))
	stalls=$(($(vmstat 'allocstall_.*') - stalls))
	scanned=$(($(vmstat pgscan_direct) - scanned))
	within "$(metric thp.stall_count reclaim)" 1 $stalls \
		"direct reclaims are counted, no more than the system's allocstall"
	within "$(metric thp.stall_time reclaim)" 1000 100000000000 "which takes time"
	within $scanned 1 1000000000 "and scans pages, as the system says"
	is "$(metric thp.stall_count reclaim 1)" 0 "none is charged to a process that was idle"
	is "$(metric thp.stall_count memcg_reclaim)" 0 "and none to a cgroup"

	reading_at_rest swapped $work_pid
	all=${before% *}
	own=${before#* }
	within "$own" 1048576 2000000000 "the program is swapped out in part"
	is "$(jq '[.metrics[] | select(.name == "rss.ledger_swap").value] | add' /tmp/json)" "$all" \
		"the ledger has all of it"
	within "$(metric rss.ledger_swap mapped)" $((own * 9 / 10)) "$own" "and most as mapped by it"
	# The guest's files are in tmpfs, which can be swapped too, and is not in VmSwap; that is a counter
	# that drifts before 6.16.
	within "$(metric rss.swap '')" $((own - 64 * 4096)) $((all + 64 * 4096)) \
		"VmSwap agrees within the counter's drift"
	observe_end
	exec 8>&-
	wait $idle_pid
}

box=/sys/fs/cgroup/box
boxed() { cat $box/memory.current $box/memory.stat; }

in_cgroup() {
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $box
	echo $((48 << 20)) >$box/memory.max
	# shellcheck disable=SC2016 # the inner shell's own
	observe_begin "--lens thp" sh -c 'echo $$ >/sys/fs/cgroup/box/cgroup.procs; exec thpwork grow 32'
	# A charge that may not wait is counted as well, and reclaims nothing.
	within "$(metric thp.stall_count memcg_reclaim)" 1 \
		"$(awk '$1 == "max" { print $2 }' $box/memory.events)" \
		"a cgroup's (v2) reclaims are counted, no more than its limit was met"
	within "$(metric thp.stall_time memcg_reclaim)" 1000 100000000000 "which takes time"

	reading_at_rest boxed
	is "$(metric rss.memcg_limit v2)" $((48 << 20)) "the cgroup's limit"
	is "$(metric rss.memcg_usage v2)" "$(echo "$before" | head -n 1)" "what is charged to it"
	is "$(metric rss.memcg_anon v2)" "$(echo "$before" | awk '$1 == "anon" { print $2 }')" \
		"of it, anonymous memory"
	# How far a reclaim goes beyond what is needed is the kernel's affair; no page is lost.
	within "$(metric rss.ledger_swap mapped)" $((16 << 20)) $((64 << 20)) \
		"of 64 MiB what is above the limit is swapped out"
	within $(($(metric rss.ledger_swap mapped) + $(metric rss.ledger mapped))) $((64 << 20)) \
		$((65 << 20)) "the rest is resident"
	is "$(metric rss.held_outside '')" "$(echo "$before" | awk 'NR == 1 { n = $1 }
		$1 == "anon" || $1 == "file" || $1 == "kernel" { n -= $2 }
		END { print (n > 0 ? n : 0) }')" "what is held outside RSS is the difference"
	observe_end
	rmdir $box
}

if [ -b $disk ]; then
	global
	in_cgroup
	swapoff $disk
else
	skip "reclaim and swap" "the guest has no disk"
fi
