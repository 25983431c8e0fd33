# SPDX-License-Identifier: GPL-2.0-or-later
# Memory that a program touches shows in its RSS; before 6.16 the kernel's counters may be off by
# max(32, 2 x CPUs) x CPUs pages.
observe_program "--lens rss" faultwork base 16
grown=$(jq '.metrics[] | select(.name == "rss.anon") | .value - .first' /tmp/json)
within "$grown" $(((16 << 20) * 2 - 64 * 4096)) $(((16 << 20) * 2 + 4 * 1048576)) \
	"32 MiB touched are 32 MiB of RSS"
