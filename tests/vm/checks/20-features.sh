# SPDX-License-Identifier: GPL-2.0-or-later
# What doctor says of this kernel, against what Debian's kernels of that version are known to have.
sonde doctor --json >/tmp/doctor 2>/tmp/doctor.err
is "$?" 0 "sonde doctor works"

feature() { # NAME ANSWER
	is "$(jq -r --arg n "$1" '.features[$n].answer // .features[$n] // "absent"' /tmp/doctor)" \
		"$2" "doctor says $2 to $1"
}

for name in bpf btf ringbuf tp_btf tracefs perf_sw iter_task_file map_files; do
	feature $name yes
done
case $(uname -r) in
5.10.*)
	feature task_storage no
	feature sk_storage no
	;;
*)
	feature task_storage yes
	feature sk_storage yes
	feature perf_uprobe yes
	;;
esac
case $(uname -r) in
5.10.* | 6.1.*)
	feature uprobe_multi no
	feature uprobe_session no
	feature sock_length no
	feature sk_data_ready no
	;;
*)
	feature uprobe_multi yes
	feature uprobe_session no
	feature sock_length yes
	feature sk_data_ready yes
	;;
esac
