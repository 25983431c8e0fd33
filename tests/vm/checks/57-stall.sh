# SPDX-License-Identifier: GPL-2.0-or-later
# Known numbers of waits by cause. Emulated CPUs are slow: times are not compared, but counts are exact.

observe() {
	observe_program "--lens stall" stallwork "$@"
}

metric() { # NAME LABEL
	jq --arg n "$1" --arg l "$2" '[.metrics[] | select(.name == $n and .label == $l) | .value] |
		add | floor' /tmp/json
}

for kind in sleep:sleep futex:futex alloc:alloc_lock socket:socket epoll:socket pipe:pipe; do
	observe "${kind%:*}" 10 20
	within "$(metric stall.count "${kind#*:}")" 10 10 "10 waits of kind ${kind%:*} are ${kind#*:}"
	within "$(metric stall.time "${kind#*:}")" 150000000 100000000000 "and as long as they were made"
done

observe calls 10 1
for call in madvise munmap mmap mremap; do
	within "$(metric stall.syscall_count $call)" 10 10 "10 calls of $call"
done
