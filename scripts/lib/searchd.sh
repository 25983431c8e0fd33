# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A real searchd for the demo, the tests and the benchmarks: a corpus and its index (kept in a cache),
# and daemons that are started and stopped by pid. Source it from bash.
#
#   make_corpus [DOCS]      build the index once, print the folder it is in
#   searchd_start DIR [KEY=VALUE...]   a daemon in DIR; sets SEARCHD_PID, SEARCHD_WATCHDOG,
#                           SEARCHD_SQL and SEARCHD_API (127.0.0.1:PORT), SEARCHD_UNIX (socket path),
#                           SEARCHD_LOG (query log). DIR/env holds the same for other shells.
#   searchd_start_under DIR [KEY=VALUE...] -- COMMAND...   the same in the foreground of COMMAND, which
#                           runs in the background: SEARCHD_RUNNER is its pid, its output DIR/runner.*
#   searchd_stop DIR        end it, wait until it is gone
#
# KEY=VALUE are lines for the searchd section (workers=prefork), or: docs=N, preload=LIBRARY.
# Invariant: no process is ended that was not started here. A daemon leaves its starter's process
# group, so every start is also noted in $SONDE_RUN (if set), and searchd_stop_all ends what is noted.

searchd_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
searchd_build=${SONDE_BUILD:-$searchd_root/build}
searchd_cache=${SONDE_CACHE:-$searchd_root/build/cache}

searchd_say() { echo "searchd.sh: $*" >&2; }

searchd_schema() { # DOCS_TSV INDEX_PATH
	cat <<-CONF
	source docs
	{
	  type = tsvpipe
	  tsvpipe_command = cat $1
	  tsvpipe_field = title
	  tsvpipe_field = body
	  tsvpipe_attr_uint = gid
	  tsvpipe_attr_float = price
	  tsvpipe_attr_timestamp = day
	}
	index docs
	{
	  source = docs
	  path = $2/docs
	  docinfo = extern
	  mlock = 0
	}
	CONF
}

# The name of an index says what it was made from, so that a changed recipe never meets an old cache.
searchd_corpus_key() { # DOCS
	{
		cat "$searchd_root/tests/harness/mkcorpus.c" "$searchd_root/tests/harness/words.h"
		searchd_schema tsv dir
		dpkg-query -W -f '${Version}' sphinxsearch wamerican 2>/dev/null
	} | sha256sum | cut -c1-12
}

searchd_build_corpus() { # DOCS FINAL_DIR
	local tmp
	tmp=$(mktemp -d "$searchd_cache/tmp.XXXXXX") || return 1
	if "$searchd_build/harness/mkcorpus" --docs "$1" >"$tmp/docs.tsv" &&
		{
			searchd_schema "$tmp/docs.tsv" "$tmp"
			printf 'indexer\n{\n  mem_limit = 256M\n}\n'
		} >"$tmp/indexer.conf" &&
		indexer --quiet --config "$tmp/indexer.conf" docs >"$tmp/indexer.log" 2>&1 &&
		[ -s "$tmp/docs.sph" ]; then
		rm -f "$tmp/docs.tsv" "$tmp/indexer.conf"
		mv -T "$tmp" "$2"
	else
		searchd_say "cannot build the index: $(tail -1 "$tmp/indexer.log" 2>/dev/null)"
		rm -rf "$tmp"
		return 1
	fi
}

make_corpus() { # [DOCS]
	local docs=${1:-200000} dir
	mkdir -p "$searchd_cache" || return 1
	dir=$searchd_cache/corpus-$docs-$(searchd_corpus_key)
	(
		flock 9
		[ -s "$dir/docs.sph" ] || searchd_build_corpus "$docs" "$dir"
	) 9>"$searchd_cache/.lock" || return 1
	echo "$dir"
}

# Ports that nobody listens on now, outside the range of outgoing connections.
searchd_port_free() { # PORT
	local hex
	hex=$(printf '%04X' "$1")
	! grep -qE "^ *[0-9]+: [0-9A-F]+:$hex .* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

searchd_pick_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		searchd_port_free "$port" && echo "$port" && return
	done
}

searchd_config() { # DIR SQL_PORT API_PORT KEY=VALUE...
	local dir=$1 sql=$2 api=$3 pair
	shift 3
	searchd_schema /dev/null "$dir/index"
	cat <<-CONF
	index rt
	{
	  type = rt
	  path = $dir/index/rt
	  rt_field = title
	  rt_field = body
	  rt_attr_uint = gid
	  rt_attr_float = price
	  rt_mem_limit = 64M
	}
	searchd
	{
	  listen = 127.0.0.1:$sql:mysql41
	  listen = 127.0.0.1:$api
	  listen = $dir/sql.sock:mysql41
	  listen = $dir/api.sock
	  log = $dir/searchd.log
	  query_log = $dir/query.log
	  query_log_format = sphinxql
	  pid_file = $dir/searchd.pid
	  binlog_path =
	  read_timeout = 60
	  client_timeout = 600
	  max_children = 0
	CONF
	for pair in "$@"; do
		printf '  %s = %s\n' "${pair%%=*}" "${pair#*=}"
	done
	echo '}'
}

# Copies would cost page cache for each daemon; links share it. searchd writes only its own lock file.
searchd_link_index() { # FROM TO
	mkdir -p "$2" && { cp -l "$1"/docs.* "$2" 2>/dev/null || cp "$1"/docs.* "$2"; }
}

searchd_answers() { # PORT
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Wait until the daemon whose pid is in the pid file listens. Its end, or 60 s, is a failure.
searchd_wait_up() { # DIR PORT
	local end=$((SECONDS + 60)) pid=
	while [ $SECONDS -lt $end ]; do
		[ -s "$1/searchd.pid" ] && pid=$(<"$1/searchd.pid")
		if [ -n "$pid" ]; then
			[ -d "/proc/$pid" ] || return 1
			searchd_answers "$2" && return 0
		fi
		sleep 0.05
	done
	return 1
}

searchd_note() { # DIR: what others need to know
	SEARCHD_PID=$(<"$1/searchd.pid")
	SEARCHD_WATCHDOG=$(awk '/^PPid:/ {print $2}' "/proc/$SEARCHD_PID/status")
	[ "$(cat "/proc/$SEARCHD_WATCHDOG/comm" 2>/dev/null)" = searchd ] || SEARCHD_WATCHDOG=
	SEARCHD_UNIX=$1/sql.sock
	SEARCHD_UNIX_API=$1/api.sock
	SEARCHD_LOG=$1/query.log
	declare -p SEARCHD_PID SEARCHD_WATCHDOG SEARCHD_SQL SEARCHD_API SEARCHD_UNIX \
		SEARCHD_UNIX_API SEARCHD_LOG | sed 's/^declare --/declare -g/' >"$1/env"
	[ -z "${SONDE_RUN:-}" ] || echo "$1" >>"$SONDE_RUN/searchd"
}

# Everything but the process: index, configuration, free ports. Sets SEARCHD_SQL and SEARCHD_API.
searchd_prepare() { # DIR [KEY=VALUE...]
	local dir=$1 docs=200000 corpus sql api pair
	local -a lines=()
	shift
	for pair in "$@"; do
		case $pair in
		docs=*) docs=${pair#*=} ;;
		preload=*) ;;
		*) lines+=("$pair") ;;
		esac
	done
	[[ " ${lines[*]} " == *" workers="* ]] || lines+=(workers=threads)
	corpus=$(make_corpus "$docs") && searchd_link_index "$corpus" "$dir/index" || return 1

	sql=$(searchd_pick_port)
	api=$(searchd_pick_port)
	SEARCHD_SQL=127.0.0.1:$sql
	SEARCHD_API=127.0.0.1:$api
	searchd_config "$dir" "$sql" "$api" "${lines[@]}" >"$dir/searchd.conf"
	rm -f "$dir/searchd.pid"
}

searchd_start() { # DIR [KEY=VALUE...]
	local dir preload='' pair
	mkdir -p "$1" && dir=$(cd "$1" && pwd) || return 1
	shift
	for pair in "$@"; do
		[[ $pair != preload=* ]] || preload=${pair#*=}
	done
	searchd_prepare "$dir" "$@" || return 1
	# Not the caller's descriptors: bats and CI wait for every holder of their pipes to end.
	if ! env ${preload:+LD_PRELOAD="$preload"} searchd --config "$dir/searchd.conf" \
		>"$dir/start.log" 2>&1 </dev/null 3>&- 4>&- 9>&- ||
		! searchd_wait_up "$dir" "${SEARCHD_SQL##*:}"; then
		searchd_say "no start: $(grep -hE 'FATAL|ERROR' "$dir/start.log" | tail -1)"
		[ ! -s "$dir/searchd.pid" ] || searchd_stop "$dir"
		return 1
	fi
	searchd_note "$dir"
}

searchd_start_under() { # DIR [KEY=VALUE...] -- COMMAND...
	local dir
	local -a settings=()
	mkdir -p "$1" && dir=$(cd "$1" && pwd) || return 1
	shift
	while [ "$1" != -- ]; do
		settings+=("$1")
		shift
	done
	shift
	searchd_prepare "$dir" "${settings[@]}" || return 1
	"$@" searchd --config "$dir/searchd.conf" --nodetach \
		>"$dir/runner.out" 2>"$dir/runner.err" </dev/null 3>&- 4>&- 9>&- &
	SEARCHD_RUNNER=$!
	if ! searchd_wait_up "$dir" "${SEARCHD_SQL##*:}"; then
		searchd_say "no start: $(tail -1 "$dir/runner.err")"
		[ ! -s "$dir/searchd.pid" ] || searchd_stop "$dir"
		return 1
	fi
	searchd_note "$dir"
}

# Is this pid still the daemon that was started in DIR, and not a stranger with its number?
searchd_is_ours() { # PID DIR
	[ -n "$1" ] && { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qF "$2/searchd.conf"
}

searchd_wait_gone() { # DIR PID...
	local dir=$1 end=$((SECONDS + 15)) pid
	shift
	for pid in "$@"; do
		while searchd_is_ours "$pid" "$dir"; do
			[ $SECONDS -lt $end ] || return 1
			sleep 0.05
		done
	done
}

searchd_stop() { # DIR
	local dir pid watchdog=
	dir=$(cd "$1" 2>/dev/null && pwd) || return 0
	[ -s "$dir/searchd.pid" ] || return 0
	pid=$(<"$dir/searchd.pid")
	if searchd_is_ours "$pid" "$dir"; then
		watchdog=$(awk '/^PPid:/ {print $2}' "/proc/$pid/status")
		searchd_is_ours "$watchdog" "$dir" || watchdog=
		kill -CONT "$pid"
		kill -TERM "$pid"
	fi
	if ! searchd_wait_gone "$dir" "$watchdog" "$pid"; then
		searchd_say "pid $pid ignored SIGTERM for 15 s; killing it"
		for pid in "$watchdog" "$pid"; do
			searchd_is_ours "$pid" "$dir" && kill -KILL "$pid"
		done
	fi
	rm -f "$dir/searchd.pid"
}

# End whatever the shells below this one started and did not stop. For exit traps.
searchd_stop_all() {
	local dir
	[ -s "${SONDE_RUN:-/nonexistent}/searchd" ] || return 0
	while read -r dir; do
		searchd_stop "$dir"
	done <"$SONDE_RUN/searchd"
}
