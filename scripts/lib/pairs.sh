# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Paired runs of one searchd under one load, with and without sonde, and the ratio's interval. The two of
# a pair follow each other, in an order that changes from pair to pair, so that a machine that drifts
# moves both alike.
#
#   pairs_start            a searchd for the benchmark (needs searchd.sh sourced)
#   pairs_run N SECONDS FIELD LOAD_ARG...   N pairs; prints "with without" of the summary's FIELD a pair
#   pairs_interval         reads such lines: ratio, its 95 % interval (t on log ratios), N
#
# SONDE_ARGS (array) is what sonde runs with; the default is what a user gets: stat.

pairs_start() {
	pairs_dir=$(mktemp -d)
	export SONDE_RUN=$pairs_dir/run
	mkdir "$SONDE_RUN"
	trap 'pairs_stop' EXIT
	trap 'exit 130' INT TERM
	searchd_start "$pairs_dir/sd" >&2
}

pairs_stop() {
	[ -z "${pairs_sonde:-}" ] || kill -INT "$pairs_sonde" 2>/dev/null
	searchd_stop "$pairs_dir/sd" >&2
	rm -rf "$pairs_dir"
}

pairs_load() { # FIELD LOAD_ARG...: one run's figure
	local field=$1
	shift
	"$SONDE_BUILD/harness/searchload" --sphinxql "$SEARCHD_SQL" "$@" | jq -r ".$field"
}

pairs_observed() { # SECONDS FIELD LOAD_ARG...: the same with sonde attached before and after
	local seconds=$1 value lines
	shift
	local -a args=("${SONDE_ARGS[@]:-stat}")
	"$SONDE" "${args[@]}" -p "$SEARCHD_PID" -d $((seconds + 30))s -i 500ms \
		>"$pairs_dir/stat" 2>"$pairs_dir/err" &
	pairs_sonde=$!
	for ((lines = 0; lines < 200; lines++)); do # two printed lines: it is attached and recording
		[ "$(wc -l <"$pairs_dir/stat")" -lt 2 ] || break
		kill -0 "$pairs_sonde" 2>/dev/null || { cat "$pairs_dir/err" >&2; return 1; }
		sleep 0.05
	done
	value=$(pairs_load "$@")
	kill -INT "$pairs_sonde"
	wait "$pairs_sonde"
	pairs_sonde=
	echo "$value"
}

pairs_run() { # N SECONDS FIELD LOAD_ARG...
	local n=$1 seconds=$2 i with without
	shift 2
	for ((i = 0; i < n; i++)); do
		printf '\rpair %d of %d' $((i + 1)) "$n" >&2
		if ((i % 2)); then
			with=$(pairs_observed "$seconds" "$@") && without=$(pairs_load "$@") || return 1
		else
			without=$(pairs_load "$@") && with=$(pairs_observed "$seconds" "$@") || return 1
		fi
		echo "$with $without"
	done
	echo >&2
}

# Two-sided 95 % by Student's t: 2.776 at 4 degrees of freedom, 2.045 at 29, 1.96 without end; between
# them Cornish-Fisher's expansion, right to 0.5 % from 4 on.
pairs_interval() {
	awk 'function t975(df,    z) { z = 1.959964
		return z + (z^3 + z) / (4 * df) + (5 * z^5 + 16 * z^3 + 3 * z) / (96 * df^2) }
	{ d = log($1 / $2); n++; s += d; q += d * d }
	END { m = s / n; se = sqrt((q - n * m * m) / (n - 1) / n); h = t975(n - 1) * se
		printf "%.4f %.4f %.4f %d\n", exp(m), exp(m - h), exp(m + h), n }'
}
