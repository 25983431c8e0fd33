# SPDX-License-Identifier: GPL-2.0-or-later
# A kernel that is too old is told so in one sentence, with the exit status for that.
case $(uname -r) in
5.10.*)
	sleep 300 &
	target=$!
	sonde stat -p $target --lens rss -d 1s >/tmp/said 2>/tmp/complaint
	is "$?" 5 "sonde stat ends with the status for a kernel that cannot"
	is "$(wc -l </tmp/complaint)" 1 "it says so in one line"
	matches "$(cat /tmp/complaint)" "task_storage.* 5[.]11" "that names what is lacking and since when"
	is "$(wc -c </tmp/said)" 0 "and shows no figures"
	kill $target
	;;
*) skip "the refusal of kernels before 5.11" "this one is newer" ;;
esac
