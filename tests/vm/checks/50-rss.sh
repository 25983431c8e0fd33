# SPDX-License-Identifier: GPL-2.0-or-later
# Memory that a program touches shows in its RSS; before 6.16 the kernel's counters may be off by
# max(32, 2 x CPUs) x CPUs pages.
observe_program "--lens rss --ledger full" faultwork base 16
grown=$(jq '.metrics[] | select(.name == "rss.anon") | .value - .first' /tmp/json)
within "$grown" $(((16 << 20) * 2 - 64 * 4096)) $(((16 << 20) * 2 + 4 * 1048576)) \
	"32 MiB touched are 32 MiB of RSS"
# Each mapping is somebody's: the ledger adds up, but for the same drift.
rows=$(jq '[.metrics[] | select(.name == "rss.ledger").value] | add' /tmp/json)
mapped=$(jq '.metrics[] | select(.name == "rss.ledger" and .label == "mapped").value' /tmp/json)
unexplained=$(jq '.metrics[] | select(.label == "unexplained").value' /tmp/json)
within "${unexplained#-}" 0 $((64 * 4096)) "what the ledger cannot explain is within the drift"
within "$rows" $(((16 << 20) * 2 - 64 * 4096)) $((64 << 20)) "the ledger's rows are its RSS"
within "$mapped" 0 "$rows" "the ledger knows mappings of the program"
