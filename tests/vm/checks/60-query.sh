# SPDX-License-Identifier: GPL-2.0-or-later
# Queries of a real searchd (an empty real-time index will do), by the socket tracepoints where the kernel
# has them and by system calls where not: every query that the client sent is a span.
dir=/tmp/searchd
words=/usr/share/dict/words

serve() {
	mkdir -p $dir
	cat >$dir/conf <<-CONF
	index docs
	{
	  type = rt
	  path = $dir/docs
	  rt_field = title
	  rt_field = body
	  rt_attr_uint = gid
	  rt_attr_float = price
	  rt_attr_timestamp = day
	}
	searchd
	{
	  listen = 127.0.0.1:29340:mysql41
	  listen = 127.0.0.1:29341
	  listen = $dir/sql.sock:mysql41
	  log = $dir/log
	  pid_file = $dir/pid
	  binlog_path =
	  workers = threads
	}
	CONF
	searchd --nodetach --config $dir/conf >$dir/out 2>&1 &
	searchd_pid=$!
	until_line $dir/out "accepting connections" $searchd_pid || cat $dir/out >&2
}

sum() { # METRIC
	jq --arg n "$1" '[.metrics[] | select(.name == $n) | .value] | add // 0' /tmp/json
}

# 60 queries on 6 connections, two a listener; the SphinxAPI connections also say PERSIST once.
ask() { # NAME
	rm -f /tmp/stat
	sonde stat -p $searchd_pid --lens query -i 200ms --json >/tmp/stat 2>/tmp/stat.err &
	sonde_pid=$!
	until_line /tmp/stat interval $sonde_pid || cat /tmp/stat.err >&2
	searchload --sphinxql 127.0.0.1:29340 --api 127.0.0.1:29341 --sphinxql $dir/sql.sock \
		--connections 6 --queries 60 --mix light --words $words >/tmp/load 2>/tmp/load.err
	is "$(jq .ok /tmp/load)" 60 "searchd answers 60 queries ($1)"
	kill -INT $sonde_pid
	wait $sonde_pid
	grep '"summary"' /tmp/stat >/tmp/json
	is "$(sum query.spans)" 60 "each is a span ($1)"
	is "$(jq '[.histograms[] | select(.name == "query.latency" and (.label // "") == "") | .count] |
		add' /tmp/json)" 60 "and has a latency ($1)"
	is "$(jq -c .drops /tmp/json)" "{}" "nothing is dropped ($1)"
	kill -0 $searchd_pid && ok "searchd lives ($1)" || not_ok "searchd lives ($1)"
}

if ! command -v searchd >/dev/null || [ ! -s $words ]; then
	skip "queries of searchd" "searchd or $words is not installed on the host"
else
	serve
	case $(uname -r) in
	6.1.*) ask "system calls" ;;
	*)
		ask "socket tracepoints"
		SONDE_FORCE_SYSCALLS=1
		export SONDE_FORCE_SYSCALLS
		ask "system calls"
		;;
	esac
	kill $searchd_pid
	wait $searchd_pid
	true
fi
