#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What a process has allocated, as one figure that other processes read (sonde/consumption.h), against
# glibc's own account. Its thread cache counts as in use there, so it is switched off.

load pair_helpers

setup() {
	B=${SONDE_BUILD:-build}
	T=$BATS_TEST_TMPDIR
	page=$T/page
	mkfifo "$T/go"
	GLIBC_TUNABLES=glibc.malloc.tcache_count=0 "$B/harness/consume" hold <"$T/go" >"$T/work" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
}

teardown() {
	local pid

	exec 9>&-
	for pid in "$work_pid" "$sonde_pid"; do
		[ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
	done
}

# sonde in the background, until it publishes.
publish() { # ARGUMENTS...
	"$B/sonde" stat -p "$work_pid" --lens rss -i 50ms --publish "$page" "$@" >"$T/out" 2>"$T/err" \
		3>&- 9>&- &
	sonde_pid=$!
	until [ -e "$page" ]; do
		kill -0 "$sonde_pid" || { cat "$T/err"; return 1; }
		sleep 0.02
	done
}

exact=(--alloc-mode exact --yes -d 60s)

# Another program instead of setup's.
hold_again() { # COMMAND...
	exec 9>&-
	wait "$work_pid"
	rm "$T/work"
	"$@" <"$T/go" >"$T/work" 2>"$T/err" 3>&- &
	work_pid=$!
	exec 9>"$T/go"
	until_line "$T/work" ^ready "$work_pid"
}

# The program allocates N bytes more: its own account goes to $used.
allocate() {
	local lines
	lines=$(wc -l <"$T/work")
	echo "$1" >&9
	until [ "$(wc -l <"$T/work")" -gt "$lines" ]; do sleep 0.02; done
	used=$(tail -n 1 "$T/work" | sed 's/in use //')
}

# Values come every 10 ms: wait for the one that holds what the program's account says.
agrees() { # BYTES SOURCE
	local i
	for ((i = 0; i < 500; i++)); do
		read -r bytes bound age source ended < <("$B/harness/consume" read "$page")
		[ "$bytes" -ne "$1" ] || [ "$bound" != 0 ] || break
		sleep 0.02
	done
	echo "value $bytes, program $1, within $bound, $age ns old, source $source, ended $ended"
	tail -n 5 "$T/err" 2>/dev/null || true
	[ "$bytes" -eq "$1" ]
	[ "$bound" = 0 ] # at rest
	[ "$source" -eq "$2" ]
	[ "$ended" -eq 0 ]
}

steps() { # SOURCE
	local step
	for step in 5000000 -3000000 64000000 -60000000; do
		allocate $step
		agrees "$used" "$1"
	done
}

@test "exact mode: the value is the program's own, after each change" {
	allocate 1000000
	publish "${exact[@]}"
	agrees "$used" 2 # what was there before, too
	steps 2
}

@test "counters mode, nothing attached: the value is the program's own" {
	allocate 1000000
	publish
	agrees "$used" 3
	steps 3
}

@test "a command from its start" {
	sonde_pid=
	hold_again "$B/sonde" stat --lens rss --json --publish "$page" "${exact[@]}" -- env \
		GLIBC_TUNABLES=glibc.malloc.tcache_count=0 "$B/harness/consume" hold
	until [ -e "$page" ]; do kill -0 "$work_pid"; sleep 0.02; done
	steps 2
	exec 9>&-
	wait "$work_pid"
	work_pid=
	[ ! -e "$page" ]
}

@test "gperftools: both modes against its own property" {
	hold_again env LD_PRELOAD=libtcmalloc_minimal.so.4 "$B/harness/consume" hold
	allocate 1000000
	publish
	agrees "$used" 3
	steps 3
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	publish "${exact[@]}"
	agrees "$used" 2
	steps 2
}

@test "jemalloc: both modes against what its one thread took" {
	hold_again env LD_PRELOAD=libjemalloc.so.2 "$B/harness/consume" hold
	allocate 1000000
	publish
	agrees "$used" 3
	steps 3
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	base=$used
	publish "${exact[@]}"
	agrees 0 1 # what was there before is known in counters mode only
	for step in 5000000 -3000000 64000000 -60000000; do
		allocate $step
		agrees $((used - base)) 1
	done
}

@test "stat --field prints the figure and nothing else" {
	publish --field consumption
	allocate 2000000
	agrees "$used" 3
	until_line "$T/out" "^$used$" "$sonde_pid"
	kill -INT "$sonde_pid"
	wait "$sonde_pid"
	sonde_pid=
	[ "$(grep -Evc '^-?[0-9]+$' "$T/out")" -eq 0 ]
	[ ! -e "$page" ] # gone with who wrote it
}

@test "sonde is killed: the last value stays and its age tells" {
	publish --consumption-interval 20ms
	allocate 2000000
	agrees "$used" 3
	kill -KILL "$sonde_pid"
	wait "$sonde_pid" || true
	for ((i = 0; i < 500; i++)); do
		read -r bytes bound age source ended < <("$B/harness/consume" read "$page")
		[ "$age" -le 200000000 ] || break
		sleep 0.02
	done
	[ "$age" -gt 200000000 ] # ten times the interval
	[ "$bytes" -eq "$used" ]
	[ "$ended" -eq 0 ]
	# Its page may be replaced by a successor.
	before=$(stat -c %i "$page")
	publish
	until [ "$(stat -c %i "$page")" != "$before" ]; do
		kill -0 "$sonde_pid"
		sleep 0.02
	done
	agrees "$used" 3
}

@test "another file, or a link, is never written over" {
	echo mine >"$page"
	run "$B/sonde" stat -p "$work_pid" --lens rss -d 1s --publish "$page"
	[ "$status" -eq 1 ]
	[[ $output == *"is no page of sonde's"* ]]
	[ "$(cat "$page")" = mine ]
	ln -s "$page" "$T/link"
	run "$B/sonde" stat -p "$work_pid" --lens rss -d 1s --publish "$T/link"
	[ "$status" -eq 1 ]
	[[ $output == *"symbolic link"* ]]
	[ "$(cat "$page")" = mine ]
	[ "$(find "$T" -name 'page*' | wc -l)" -eq 1 ] # nothing of ours beside it
}

@test "the header: C99 and C++, pedantic, nothing to link" {
	cat >"$T/use.c" <<-EOF
		#include "sonde/consumption.h"
		int main(int argc, char **argv)
		{
			const struct sonde_consumption_page *page = sonde_consumption_map(argv[argc - 1]);
			struct sonde_consumption c;

			if (!page)
				return 3;
			if (!sonde_consumption_read(page, &c))
				return 1;
			(void)sonde_consumption_age_ns(&c);
			return sonde_consumption_bytes(page) == c.bytes ? 0 : 2;
		}
	EOF
	cp "$T/use.c" "$T/use.cpp"
	inc=$BATS_TEST_DIRNAME/../../include
	for std in c99 c11 gnu17; do
		gcc -std=$std -D_POSIX_C_SOURCE=200809L -Wall -Wextra -pedantic -Werror -I"$inc" \
			-o "$T/c" "$T/use.c"
	done
	for std in c++11 c++17 c++20; do
		g++ -std=$std -Wall -Wextra -pedantic -Werror -I"$inc" -o "$T/cxx" "$T/use.cpp"
	done
	allocate 1000000
	publish
	agrees "$used" 3
	"$T/c" "$page"
	"$T/cxx" "$page"
	run "$T/c" "$T/use.c"
	[ "$status" -eq 3 ]
	# A reading makes no system call: not one between the marks, of a million.
	cat >"$T/many.c" <<-EOF
		#include "sonde/consumption.h"
		int main(int argc, char **argv)
		{
			const struct sonde_consumption_page *page = sonde_consumption_map(argv[argc - 1]);
			struct sonde_consumption c;
			long i, n = 0;

			write(1, "mark\n", 5);
			for (i = 0; page && i < 100000; i++)
				n += sonde_consumption_bytes(page) + sonde_consumption_read(page, &c) +
				     (long)(sonde_consumption_age_ns(&c) & 1);
			write(1, "mark\n", 5);
			return n < 0;
		}
	EOF
	gcc -O2 -D_POSIX_C_SOURCE=200809L -I"$inc" -Wno-unused-result -o "$T/many" "$T/many.c"
	strace -o "$T/calls" "$T/many" "$page"
	[ "$(sed -n '/mark/,/mark/p' "$T/calls" | wc -l)" -eq 2 ]
}

@test "nothing can tell: refused with the reason, and no file" {
	run "$B/sonde" stat -p "$work_pid" -d 1s --lens rss --alloc-mode off --publish "$page"
	[ "$status" -eq 5 ]
	[[ $output == *"consumption cannot be told"*"--alloc-mode exact"* ]]
	[ ! -e "$page" ]
}

@test "a page that somebody cuts off or replaces is left, and said once; the observation goes on" {
	local how

	for how in cut replace; do
		publish -d 60s
		if [ $how = cut ]; then
			: >"$page"
		else
			echo mine >"$T/other"
			mv "$T/other" "$page"
		fi
		until_line "$T/err" "nothing is published any more" "$sonde_pid"
		kill -INT "$sonde_pid"
		wait "$sonde_pid"
		sonde_pid=
		[ "$(grep -c "by something else" "$T/err")" = 1 ]
		grep -q "^DEGRADED --publish $page: the file was" "$T/out"
		[ $how = cut ] || [ "$(cat "$page")" = mine ]
		rm -f "$page"
	done
}

# The header alone, as another program's build sees it: no feature macro, warnings are errors.
reader() { # COMPILER LANGUAGE STD
	cat >"$T/reader.src" <<-'EOF'
		#include <sonde/consumption.h>
		#include <stdio.h>
		int main(int argc, char **argv)
		{
			const struct sonde_consumption_page *page = sonde_consumption_map(argv[argc - 1]);
			struct sonde_consumption c;
			if (!page || !sonde_consumption_read(page, &c))
				return 1;
			printf("%d %lld\n", sonde_consumption_age_ns(&c) < 1000000000000u,
			       (long long)(sonde_consumption_bytes(page) - c.bytes));
			sonde_consumption_unmap(page);
			return 0;
		}
	EOF
	"$1" -x "$2" "-std=$3" -pedantic -Wall -Wextra -Werror -Iinclude "$T/reader.src" \
		-o "$T/reader"
}

@test "the header works under every standard that it names, by itself" {
	local std

	publish
	for std in c99 c11 c17 gnu99 gnu17; do
		reader gcc c "$std"
		[ "$("$T/reader" "$page")" = "1 0" ]
		reader clang c "$std"
		[ "$("$T/reader" "$page")" = "1 0" ]
	done
	for std in c++11 c++17 gnu++20; do
		reader g++ c++ "$std"
		[ "$("$T/reader" "$page")" = "1 0" ]
	done
}
