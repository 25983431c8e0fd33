# SPDX-License-Identifier: GPL-2.0-or-later
# Known numbers of page faults, counted exactly. Debian's kernels have huge pages on for everybody.

observe() {
	observe_program "--lens fault" faultwork "$@"
}

count() {
	jq --arg s "$1" '[.metrics[] | select(.name == "fault.count" and .label == $s) | .value] |
		add // 0' /tmp/json
}

observe base 8
within "$(count base.minor)" 4096 4136 "8 x 512 base faults"
within "$(count pmd.minor)" 0 0 "and none of 2 MiB"

observe huge 8
within "$(count pmd.minor)" 8 8 "8 faults of 2 MiB"
within "$(count base.minor)" 0 40 "and no base faults"

observe kernel 4
within "$(count kernel_base.minor)" 2048 2088 "4 x 512 faults from kernel code"

observe base 2 4
within "$(count base.minor)" 4096 4176 "four threads started after attach are seen whole"

observe refused 4
within "$(jq '.drops["fault.no_end"] // 0' /tmp/json)" 4 4 "4 refused accesses are begins without an end"

export SONDE_WITHOUT=tp_btf
observe base 4
within "$(count base.minor)" 2048 2088 "the same through raw tracepoints"

export SONDE_WITHOUT=perf_sw
observe base 4
within "$(count unsized)" 2048 2088 "and, without the software events, at least the number"
