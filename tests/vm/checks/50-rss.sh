# SPDX-License-Identifier: GPL-2.0-or-later
# Memory that a program touches shows in its RSS; before 6.16 each of the kernel's counters may be off by
# max(32, 2 x CPUs) x CPUs pages, and before 6.2 by 64 a thread: at either of two readings.
observe_program "--lens rss" faultwork base 16
grown=$(jq '.metrics[] | select(.name == "rss.anon") | .value - .first' /tmp/json)
within "$grown" $(((16 << 20) * 2 - 2 * 64 * 4096)) $(((16 << 20) * 2 + 4 * 1048576)) \
	"32 MiB touched are 32 MiB of RSS"

# One reading at rest: each mapping is somebody's, and the ledger adds up but for the same drift of the
# three counters (anonymous, file, shared) that RSS is the sum of.
rm -f /tmp/go
mkfifo /tmp/go
faultwork base 16 </tmp/go >/tmp/work &
work_pid=$!
exec 9>/tmp/go
until_line /tmp/work ^ready $work_pid
echo >&9
until_line /tmp/work ^done $work_pid
sonde stat -p $work_pid --lens rss -d 0 --ledger full --json >/tmp/json
exec 9>&-
wait $work_pid
unexplained=$(jq '.metrics[] | select(.label == "unexplained").value' /tmp/json)
mapped=$(jq '.metrics[] | select(.name == "rss.ledger" and .label == "mapped").value' /tmp/json)
within "${unexplained#-}" 0 $((3 * 64 * 4096)) "what the ledger cannot explain is within the drift"
within "$mapped" $(((16 << 20) * 2)) $(((16 << 20) * 2 + 1048576)) \
	"the ledger has the program's 32 MiB as mapped by it"
