# SPDX-License-Identifier: GPL-2.0-or-later
# What huge pages do, in exact numbers, with the argument layouts of this kernel. The guest is ours: its
# settings are not put back.

THP=/sys/kernel/mm/transparent_hugepage
observe() {
	observe_program "--lens thp" thpwork "$@"
}

metric() { # NAME LABEL
	jq -r --arg n "thp.$1" --arg l "$2" '[.metrics[] | select(.name == $n and (.label // "") == $l) |
		.value // "absent"] | if length == 0 then 0 else .[0] end' /tmp/json
}

worked() { # NAME
	sed -n "s/^done.* $1=\(-\?[0-9]*\).*/\1/p" /tmp/work
}

echo madvise >$THP/enabled
echo 10 >$THP/khugepaged/scan_sleep_millisecs

observe purge 4
is "$(metric purge_calls dontneed)" 4 "4 partial purges are 4 calls"
is "$(metric purge_bytes dontneed)" $((4 * 504 * 4096)) "of 504 pages each"
is "$(metric purge_may_split dontneed)" 4 "and may split 4 huge pages"

observe refill 4
is "$(metric collapses khugepaged)" 4 "khugepaged fills 4 ranges"
is "$(metric bloat khugepaged)" $((4 * 504 * 4096)) "which adds 504 pages each"
is "$(metric bloat khugepaged)" "$((($(worked end) - $(worked after)) * 1024))" \
	"and is the step of the mapped memory to the byte"
is "$(worked faults)" 0 "without a page fault"

observe collapse 8
is "$(metric collapses self)" 8 "8 MADV_COLLAPSE are the process's own"
within "$(metric scans self.succeed)" 8 80 "and so are the scans, by this kernel's name"

observe ways 2
is "$(metric purge_may_split munmap)" 2 "munmap in the middle of a mapping may split"
is "$(metric purge_may_split brk)" 2 "and brk down"

observe small 50
is "$(metric purge_calls munmap)" 50 "50 small mappings end"
is "$(metric purge_may_split munmap)" 0 "and can split nothing"

# All memory in pieces of 60 KiB: who wants 2 MiB must move pages first.
# Whether any are short is up to the kernel, which says so itself: up to three tries.
compact_stalls() { awk '$1 == "compact_stall" { print $2 }' /proc/vmstat; }

stalled=0
for _ in 1 2 3; do
	[ "$stalled" = 0 ] || break
	free=$(awk '/^MemAvailable/ {print int($2 / 2048)}' /proc/meminfo)
	before=$(compact_stalls)
	observe fragment $((free - 60))
	stalled=$(($(compact_stalls) - before))
done
if [ "$stalled" -gt 0 ]; then
	within "$(metric stall_count compaction.huge)" 1 1000000 \
		"requests for 2 MiB stall in compaction"
	within "$(metric stall_time compaction.huge)" 1000 1000000000000 "which takes time"
	within "$(metric migrated compaction)" 1 1000000000 \
		"and the process's own threads move the pages"
	within "$(metric system compact_stall)" 1 1000000 "as the system's counters say"
else
	skip "requests for 2 MiB stall in compaction" "this kernel found them without"
fi

export SONDE_WITHOUT=mm_owner
observe refill 2
is "$(metric bloat khugepaged)" $((2 * 504 * 4096)) "the same bloat with learned address spaces"
unset SONDE_WITHOUT

degraded=$(jq -r '[.notes[] | select(.level == "degraded") | .what] | join("; ")' /tmp/json)
is "$degraded" "" "every hook has a layout that fits"
