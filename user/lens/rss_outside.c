// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory that RSS does not show: what the process's cgroup is charged for, and huge pages that are
 * mapped in part. The kernel counts the latter for the whole system only, so they are labelled so;
 * the cgroup's charge is the process's own only where it is alone in it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/mem.h"
#include "lens/rss_priv.h"

#define MEMCG_EVERY_NS (10 * SONDE_NS_PER_SEC)

static int push_held(struct sonde_lens_ctx *ctx, uint32_t index, const struct sonde_memcg *m,
		     uint64_t ts_ns)
{
	int64_t outside = sonde_memcg_outside(m);
	char why[96];

	if (m->procs > 1 || m->has_children) {
		snprintf(why, sizeof(why), "it shares its cgroup with %zu other%s", m->procs - 1,
			 m->has_children ? " processes and with cgroups below it"
			 : m->procs == 2 ? " process"
					 : " processes");
		return sonde_lens_push_absent(ctx, index, M_HELD_OUTSIDE, "", ts_ns, why);
	}
	if (outside < 0)
		return sonde_lens_push_absent(ctx, index, M_HELD_OUTSIDE, "", ts_ns,
					      "this kernel does not say what of the charge is its "
					      "own memory");
	return sonde_lens_push(ctx, index, M_HELD_OUTSIDE, "", ts_ns, (double)outside);
}

static int push_memcg(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		      uint64_t ts_ns)
{
	const char *version = t->memcg.version == 1 ? "v1" : "v2";
	struct sonde_memcg m = {0};
	int err = sonde_memcg_read(&t->memcg, &m);
	const struct {
		size_t metric;
		int64_t value;
	} rows[] = {
		{M_MEMCG_USAGE, m.usage},	  {M_MEMCG_LIMIT, m.limit}, {M_MEMCG_ANON, m.anon},
		{M_MEMCG_ANON_HUGE, m.anon_huge}, {M_MEMCG_FILE, m.file},
	};

	if (err)
		return sonde_lens_push_absent(ctx, index, M_MEMCG_USAGE, version, ts_ns,
					      err == -ENODATA ? "nothing is charged to the root "
								"cgroup"
							      : "its cgroup is not readable");
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows) && !err; i++)
		if (rows[i].value >= 0)
			err = sonde_lens_push(ctx, index, rows[i].metric, version, ts_ns,
					      (double)rows[i].value);
	return err ? err : push_held(ctx, index, &m, ts_ns);
}

static int push_system(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		       uint64_t ts_ns)
{
	sonde_autofree struct sonde_hugepart *parts = NULL;
	size_t n = 0;
	int err = sonde_hugeparts(&parts, &n);

	if (err)
		return sonde_lens_push_absent(ctx, index, M_HELD_SYSTEM, "", ts_ns,
					      "this kernel does not count huge pages that are "
					      "mapped in part (6.10 does)");
	for (size_t i = 0; i < n && !err; i++) {
		char label[32];

		/* The biggest, and what sizes were ever seen: the rest of some ten is never used.
		 */
		if (parts[i].pages)
			t->parts |= 1u << (i & 31);
		if (i + 1 < n && !(t->parts & 1u << (i & 31)))
			continue;
		snprintf(label, sizeof(label), "%" PRIu64 "kB", parts[i].size >> 10);
		err = sonde_lens_push(ctx, index, M_HELD_SYSTEM, label, ts_ns,
				      (double)(parts[i].pages * parts[i].size));
	}
	return err;
}

static size_t first_living(const struct sonde_lens_ctx *ctx)
{
	size_t i = 0;

	while (i < ctx->targets->n && ctx->targets->t[i].gone)
		i++;
	return i;
}

int rss_outside_push(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		     uint64_t ts_ns)
{
	/* Once for all targets, as one series: it is the system's. */
	int err = index == first_living(ctx) ? push_system(ctx, 0, t, ts_ns) : 0;

	if (err)
		return err;
	/* Looked for again now and then: a process may be moved. */
	if (!t->memcg_known_ns || ts_ns - t->memcg_known_ns > MEMCG_EVERY_NS) {
		t->memcg_err = sonde_memcg_find(ctx->targets->t[index].pid, &t->memcg);
		t->memcg_known_ns = ts_ns;
	}
	if (t->memcg_err)
		return sonde_lens_push_absent(ctx, index, M_MEMCG_USAGE, "", ts_ns,
					      "no memory cgroup of it is mounted here");
	return push_memcg(ctx, index, t, ts_ns);
}
