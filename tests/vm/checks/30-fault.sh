# SPDX-License-Identifier: GPL-2.0-or-later
# Known numbers of page faults, counted exactly. Debian's kernels have huge pages on for everybody.

observe() {
	observe_program "--lens fault" faultwork "$@"
}

count() {
	jq --arg s "$1" '[.metrics[] | select(.name == "fault.count" and .label == $s) | .value] |
		add // 0' /tmp/json
}

value() { # METRIC LABEL
	jq --arg m "$1" --arg s "$2" '[.metrics[] | select(.name == $m and (.label // "") == $s) |
		.value] | add // 0 | floor' /tmp/json
}

mkdir -p /var/tmp # a file system in memory: its files are tmpfs's, or ramfs's
huge=/sys/kernel/mm/transparent_hugepage

observe base 8
within "$(count base.minor)" 4096 4136 "8 x 512 base faults"
within "$(count pmd.minor)" 0 0 "and none of 2 MiB"
within "$(value fault.exception '')" 1 1000000 "the exception is calibrated"

observe huge 8
within "$(count pmd.minor)" 8 8 "8 faults of 2 MiB"
within "$(count base.minor)" 0 60 "and no base faults"

observe kernel 4
within "$(count kernel_base.minor)" 2048 2088 "4 x 512 faults from kernel code"

observe zero 4
within "$(count zero.minor)" 2048 2088 "4 x 512 reads of the zero page"
within "$(count base.minor)" 0 60 "which give no page"

observe zerowrite 4
within "$(count base.minor)" 2048 2108 "writes to it give new pages"

observe cow 4
within "$(count cow.minor)" 2048 2108 "4 x 512 copies after fork"

observe inplace 4
within "$(count in_place.minor)" 2048 2108 "and none when the child is gone"

observe shmem 4
within "$(count shmem.minor)" 2048 2088 "4 x 512 pages of shared anonymous memory"

observe filecopy 4
within "$(count cow.minor)" 2048 2108 "4 x 512 copies of a file's pages"

if [ -w $huge/hugepages-64kB/enabled ]; then
	echo madvise >$huge/hugepages-64kB/enabled
	observe mthp64 8
	within "$(count mthp_64kB.minor)" 128 128 "8 x 16 folios of 64 KiB"
	echo never >$huge/hugepages-64kB/enabled
else
	skip "folios of 64 KiB" "this kernel has no sizes between 4 KiB and 2 MiB"
fi

echo 8 >/proc/sys/vm/nr_hugepages
if [ "$(awk '/HugePages_Free/{print $2}' /proc/meminfo)" -ge 4 ]; then
	observe hugetlb 4
	within "$(count hugetlb.minor)" 4 4 "4 pages of the hugetlb pool"
else
	skip "pages of the hugetlb pool" "no hugetlb pages to be had"
fi
echo 0 >/proc/sys/vm/nr_hugepages

disk=/dev/nvme0n1
box=/sys/fs/cgroup/faults
if [ -b $disk ]; then
	mkswap $disk >/dev/null
	swapon $disk
	observe swap 4
	within $(($(count swap.minor) + $(count swap.major))) 1900 2108 "4 x 512 pages come back from swap"
	within "$(count base.minor)" 0 60 "which are no new pages"

	# 32 MiB of pages where 16 MiB may be: what is too much goes to swap, inside the faults.
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $box
	echo $((16 << 20)) >$box/memory.max
	# shellcheck disable=SC2016 # the inner shell's own
	observe_program "--lens fault" \
		sh -c 'echo $$ >/sys/fs/cgroup/faults/cgroup.procs; exec faultwork base 16'
	within "$(count base.minor)" 8192 8252 "8,192 faults in a full cgroup"
	within "$(value fault.stalled base.minor)" 1 8192 "of which some reclaim"
	within "$(value fault.reclaim_time base.minor)" 1000 "$(value fault.time base.minor)" \
		"for a part of their time"
	rmdir $box
	swapoff $disk
else
	skip "pages that come back from swap" "the guest has no disk to swap to"
	skip "reclaim inside a fault" "the guest has no disk to swap to"
fi

observe stack 1 4
within "$(count base.minor)" 1916 2100 "four stacks of 2 MiB, made after attach"

observe base 2 4
within "$(count base.minor)" 4096 4176 "four threads started after attach are seen whole"

observe_program "--lens fault --fault-by thread,mapping,site" faultwork shmem 4
within "$(value fault.mapping_count shared)" 2048 2088 "by mapping"
within "$(jq '[.metrics[] | select(.name == "fault.site_count") | .value] | max' /tmp/json)" 2048 2048 \
	"by instruction"

observe refused 4
within "$(jq '.drops["fault.unfinished"] // 0' /tmp/json)" 4 4 \
	"4 refused accesses are begun and given up, no loss"

export SONDE_WITHOUT=tp_btf
observe base 4
within "$(count base.minor)" 2048 2088 "the same through raw tracepoints"
observe zero 4
within "$(count zero.minor)" 2048 2088 "and mappings read field by field"

export SONDE_WITHOUT=perf_sw
observe base 4
within "$(count unsized)" 2048 2088 "and, without the software events, at least the number"
