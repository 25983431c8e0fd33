# SPDX-License-Identifier: GPL-2.0-or-later
# The guest is what it should be, and sonde starts in it.
is "$(id -u)" 0 "the guest runs as root"
is "$(nproc)" 2 "it has two processors"
[ -e /sys/kernel/btf/vmlinux ] && ok "the kernel has BTF" || not_ok "the kernel has BTF"
sonde --version >/tmp/version 2>&1
is "$?" 0 "sonde --version works" 
