# SPDX-License-Identifier: GPL-2.0-or-later
# The attach engine by every family of links that this kernel has: exact counts, nothing left behind by a
# sonde that is killed or stopped, a cost for each kind of link (tests/bench/attachdrv.c).
drive() { # SCENARIO [FAMILY]
	attachdrv "$@" >/tmp/drv 2>&1
	status=$?
	if [ $status = 0 ] && grep -q '^ok ' /tmp/drv && ! grep -q '^not ok ' /tmp/drv; then
		ok "attach engine: $*"
	else
		not_ok "attach engine: $* (status $status)" "$(cat /tmp/drv)"
	fi
}

families=perf
case $(uname -r) in
6.1.*) ;;
*) families="perf multi" ;;
esac
for family in $families; do
	drive counts $family
	drive two $family
	drive killed $family
	drive stopped $family
done
drive kernel
drive refused
drive calibrate
dmesg | grep -q "leaking uprobe" && not_ok "no breakpoint was left in a target" ||
	ok "no breakpoint was left in a target"
