// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What observing costs, beside every figure: hits times the calibrated cost of a hit for the
 * target, CPU and memory for sonde itself. The kernel's own BPF run time leaves out the trap and is
 * not used.
 */
#include <sys/resource.h>

#include "core/mem.h"
#include "session/internal.h"
#include "target/proc.h"

enum { M_HITS, M_PROBE_NS, M_OWN_CPU, M_START_CPU, M_OWN_RSS, M_MAP_BYTES, M_OBSERVED };

static const struct sonde_metric_desc metrics[] = {
	[M_HITS] = {"cost.hits", "count", SONDE_COUNTER,
		    "times that sonde's programs ran in the target"},
	[M_PROBE_NS] = {"cost.probe_time", "ns", SONDE_COUNTER,
			"CPU time that observing added to the target: hits x calibrated cost"},
	[M_OWN_CPU] = {"cost.own_cpu", "ns", SONDE_COUNTER,
		       "CPU time of sonde itself while it recorded"},
	[M_START_CPU] =
		{"cost.start_cpu", "ns", SONDE_GAUGE,
		 "CPU time of sonde before it recorded: calibration, the kernel's verifier"},
	[M_OWN_RSS] = {"cost.own_rss", "bytes", SONDE_GAUGE, "resident memory of sonde itself"},
	[M_MAP_BYTES] = {"cost.map_bytes", "bytes", SONDE_GAUGE,
			 "kernel memory of sonde's BPF maps"},
	[M_OBSERVED] = {"cost.observed_ratio", "ratio", SONDE_GAUGE,
			"share of the time since recording began in which programs were attached"},
};

/* Of sonde itself: goes on over generations, so it does not pass the gate that adds them up. */
static int push_own(struct session *s, size_t metric, uint64_t ts_ns, double value)
{
	struct sonde_metric m = {
		.desc = &metrics[metric], .label = "", .ts_ns = ts_ns, .value = value};

	return s->baseline ? 0 : sonde_visit(&s->out, metric, &m);
}

static int push(struct session *s, size_t metric, const char *label, uint64_t ts_ns, double value)
{
	struct sonde_metric m = {
		.desc = &metrics[metric], .label = label, .ts_ns = ts_ns, .value = value};

	return sonde_visit(&s->gate, metric, &m);
}

uint64_t session_own_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ((uint64_t)ru.ru_utime.tv_sec + (uint64_t)ru.ru_stime.tv_sec) * SONDE_NS_PER_SEC +
	       ((uint64_t)ru.ru_utime.tv_usec + (uint64_t)ru.ru_stime.tv_usec) * 1000;
}

static int push_lens(struct session *s, int lens, uint64_t ts_ns, double *probe_ns)
{
	struct sonde_lens_hits rows[16];
	struct sonde_lens_ctx *ctx = &s->ctx[lens];
	size_t n = ctx->lens->hits ? ctx->lens->hits(ctx, rows, SONDE_ARRAY_SIZE(rows)) : 0;
	double hits = 0;

	for (size_t i = 0; i < n; i++) {
		hits += (double)rows[i].n;
		*probe_ns += (double)rows[i].n * s->calibration.hit_ns[rows[i].kind][rows[i].insn];
	}
	return n ? push(s, M_HITS, ctx->lens->name, ts_ns, hits) : 0;
}

int session_push_cost(struct session *s, uint64_t ts_ns)
{
	uint64_t active = s->observed_ns + (s->active_since_ns ? ts_ns - s->active_since_ns : 0);
	uint64_t span = ts_ns - s->first_active_ns, rss = 0;
	double probe_ns = 0;
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++)
		if (s->inited[l])
			err = push_lens(s, l, ts_ns, &probe_ns);
	err = err ? err : push(s, M_PROBE_NS, "", ts_ns, probe_ns);
	err = err ? err
		  : push_own(s, M_OWN_CPU, ts_ns, (double)(session_own_cpu_ns() - s->start_cpu_ns));
	err = err ? err : push_own(s, M_START_CPU, ts_ns, (double)s->start_cpu_ns);
	if (!err && !sonde_proc_rss(getpid(), &rss))
		err = push_own(s, M_OWN_RSS, ts_ns, (double)rss);
	if (!err && s->engine)
		err = push_own(s, M_MAP_BYTES, ts_ns, (double)sonde_engine_map_bytes(s->engine));
	return err || !span ? err : push_own(s, M_OBSERVED, ts_ns, (double)active / (double)span);
}
