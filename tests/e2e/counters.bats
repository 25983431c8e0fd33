#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Counters mode on real daemons under load: figures that fit one another, nothing attached for them, and
# no query lost.

bats_require_minimum_version 1.5.0
load helpers

setup() { mkdir -p "$BATS_TEST_TMPDIR"; }

teardown() {
	end_started
	[ -z "${SEARCHD_DIR:-}" ] || searchd_down
}

figure() { # NAME [LABEL]: its last value
	tail -n 1 "$BATS_TEST_TMPDIR/sonde.out" | jq -r --arg n "alloc.$1" --arg l "${2:-}" '
		[.metrics[] | select(.name == $n and (.label // "") == $l) | .value // empty][0]'
}

# What is live is part of what the allocator has, and that is what it says of itself: parts that add up.
observe_under_load() { # SEARCHD-SETTINGS...
	searchd_up "$@"
	load_begin --sphinxql "$SEARCHD_SQL" --api "$SEARCHD_API" --connections 4 --queries 3000 \
		--mix light --seed 5
	stat_begin --json --lens rss,alloc
	load_go
	load_finish
	has_no_probes
	sonde_finish
	equal 3000 "$(load_field ok)" "queries answered"
	[ "$(figure allocated)" -gt 100000 ]
	[ "$(figure at_most)" -ge "$(figure allocated)" ]
	[ "$(figure heap)" -ge "$(figure at_most)" ]
	searchd_is_well
}

@test "searchd with glibc" {
	observe_under_load
	[ "$(figure age)" -ge 0 ]
	[ "$(figure free threads)" -ge 0 ]
}

@test "searchd with tcmalloc" {
	observe_under_load preload=libtcmalloc_minimal.so.4
	equal "$(figure heap)" "$(($(figure allocated) + $(figure free pages) + $(figure free lists) +
		$(figure free transfer) + $(figure free threads) + $(figure unmapped)))" "parts of the heap"
	equal 0 "$(figure age)" "age of what was counted"
}
