# SPDX-License-Identifier: GPL-2.0-or-later
# Exact allocation counts by every kind of link that this kernel has: what allocwork says it did, function
# by function (calls, bytes, failures), is what sonde counted.

table() {
	jq -r '[.metrics[] | select(.name | test("^alloc[.](calls|requested|failed)$"))] |
		group_by(.label)[] | (map({key: .name, value: .value}) | from_entries) as $v |
		[.[0].label, $v["alloc.calls"], $v["alloc.requested"] // 0, $v["alloc.failed"] // 0] |
		join("|")' /tmp/json | sort
}

truth() {
	sed -n 's/^truth|//p' /tmp/work | sort
}

exact() { # FAMILY
	export SONDE_FORCE_LINK=$1
	# An emulated sonde on a busy host may get no CPU for so long that its guard lets go, and says so.
	for _ in 1 2 3; do
		observe_program "--lens alloc --alloc-mode exact --yes -d 120s" allocwork calls 5
		[ "$(jq -r .ended /tmp/json)" = "probes lost" ] || break
	done
	is "$(table)" "$(truth)" "allocations are counted exactly by $1 links"
	is "$(jq -r '.drops | to_entries | map(.key) | join(" ")' /tmp/json)" "" "and nothing is dropped"
}

exact perf
case $(uname -r) in
6.1.*) ;;
*) exact multi ;;
esac

# A link kind that the kernel lacks is an error that names it, never a quiet fall-back.
allocwork loop >/tmp/work </dev/null &
loop=$!
until_line /tmp/work ^ready $loop
SONDE_FORCE_LINK=session sonde stat -p $loop --lens alloc --alloc-mode exact --yes -d 1s \
	>/tmp/out 2>/tmp/err
[ $? != 0 ] && ok "session links are refused here" || not_ok "session links are refused here"
matches "$(cat /tmp/err)" "uprobe_session" "and the message names them"
kill $loop
