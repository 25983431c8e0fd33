// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory ledger: RSS by whose memory it is, from /proc/PID/smaps. Invariant: the rows of a
 * reading, "unexplained" included, add up to rss.total of the same tick to the byte. Smaps is read
 * just behind status and takes time; how far RSS moved meanwhile bounds what is unexplained.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "lens/rss_priv.h"
#include "target/allocator.h"
#include "target/mchunk.h"
#include "target/smaps.h"

#define AUTO_MAX_NS   (50 * SONDE_NS_PER_MS)
#define AUTO_SHARE    1000 /* unasked, a thousandth of the time may go into walks */
#define NS_PER_GIB    (22 * SONDE_NS_PER_MS) /* measured: base pages, the dear case */
#define LARGE_TAIL    (64u << 10)
#define TOP_FILES     10
#define MAX_SERIES    24 /* names of one metric and target */

struct ledger {
	uint64_t rows[SONDE_MAP__MAX];
	uint64_t swap[SONDE_MAP__MAX];
	uint64_t sum, anon_huge, lazyfree;
};

/* Where a tally's rows go. */
struct push {
	struct sonde_lens_ctx *ctx;
	uint32_t index;
	size_t metric;
	uint64_t ts_ns;
};

static int push_name(void *arg, const char *name, uint64_t bytes)
{
	const struct push *p = arg;

	return sonde_lens_push(p->ctx, p->index, p->metric, name, p->ts_ns, (double)bytes);
}

static bool is_glibc(const struct sonde_target *t)
{
	return t->allocator && !strcmp(t->allocator->name, "glibc");
}

static int read_hints(const struct sonde_target *t, struct sonde_mapkind_hints *h)
{
	uint64_t *sp = NULL, *dev = NULL;
	size_t n_sp = 0, n_dev = 0;

	/* Without them kinds are told by shape and name alone. */
	sonde_stack_pointers(t->pid, &sp, &n_sp);
	sonde_shmem_devices(t->pid, &dev, &n_dev);
	*h = (struct sonde_mapkind_hints){.glibc_malloc = is_glibc(t),
					  .sp = sp,
					  .n_sp = n_sp,
					  .shmem_dev = dev,
					  .n_shmem_dev = n_dev};
	return 0;
}

static void free_hints(struct sonde_mapkind_hints *h)
{
	free((void *)h->sp);
	free((void *)h->shmem_dev);
}

/* All of it but what may have been merged with its end, such as a thread's TLS. */
static bool is_large(struct sonde_mchunk *c, const struct sonde_map *m)
{
	uint64_t size = m->end - m->start, covered = sonde_mchunk_covered(c, m->start, m->end);

	return covered && size - covered <= LARGE_TAIL;
}

/* The target's memory is read for this, which --passive forbids. */
static void find_large(const struct sonde_target *t, const struct sonde_smaps *maps,
		       enum sonde_map_kind *kinds)
{
	struct sonde_mchunk c;

	if (sonde_mchunk_init(&c, t->pid))
		return;
	for (size_t i = 0; i < maps->n; i++)
		if (kinds[i] == SONDE_MAP_MMAP && !maps->m[i].map.path[0] && maps->m[i].rss &&
		    maps->m[i].map.w && is_large(&c, &maps->m[i].map))
			kinds[i] = SONDE_MAP_LARGE;
	sonde_mchunk_fini(&c);
}

/* What of a mapping is not private copies: shared memory, or pages of a file. */
static int add_shared(struct rss_target *t, const struct sonde_smap *m, enum sonde_map_kind kind,
		      bool program, uint64_t bytes)
{
	char label[4096], ext[32];
	int err;

	sonde_map_label(&m->map, kind, label, sizeof(label));
	if (sonde_map_kind_is_shmem(kind))
		return rss_tally_add(&t->shmem, label, bytes);
	sonde_path_ext(label, ext, sizeof(ext));
	if (program && strcmp(ext, ".so"))
		snprintf(ext, sizeof(ext), "(program)");
	err = rss_tally_add(&t->path, label, bytes);
	return err ? err : rss_tally_add(&t->ext, ext, bytes);
}

/* Does the file's run of mappings, which begins at @i, hold code? *end: behind the run. */
static bool has_code(const struct sonde_smaps *maps, size_t i, size_t *end)
{
	const char *path = maps->m[i].map.path;
	bool code = false;

	for (; i < maps->n && !strcmp(maps->m[i].map.path, path); i++)
		code |= maps->m[i].map.x;
	*end = i;
	return code;
}

static void add_rows(struct ledger *l, const struct sonde_smap *m, enum sonde_map_kind kind)
{
	uint64_t anon = m->anonymous < m->rss ? m->anonymous : m->rss;
	bool is_anon = sonde_map_kind_is_anon(kind);

	l->sum += m->rss;
	l->anon_huge += m->anon_huge;
	l->lazyfree += m->lazyfree;
	l->swap[is_anon || m->map.shared ? kind : SONDE_MAP_DATA] += m->swap;
	l->rows[is_anon ? kind : SONDE_MAP_DATA] += anon;
	/* [vdso] and other special pages are the kernel's: RssFile has them. */
	l->rows[is_anon ? SONDE_MAP_FILE : kind] += m->rss - anon;
}

static int sum_up(struct rss_target *t, const struct sonde_smaps *maps,
		  const enum sonde_map_kind *kinds, struct ledger *l)
{
	bool program = false;
	size_t run_end = 0;
	int err = 0;

	for (size_t i = 0; i < maps->n && !err; i++) {
		const struct sonde_smap *m = &maps->m[i];

		if (i == run_end)
			program = has_code(maps, i, &run_end);
		add_rows(l, m, kinds[i]);
		if (m->map.path[0] && m->rss > m->anonymous)
			err = add_shared(
				t, m, sonde_map_kind_is_anon(kinds[i]) ? SONDE_MAP_FILE : kinds[i],
				program, m->rss - m->anonymous);
	}
	return err;
}

static int classify(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		    const struct sonde_smaps *maps, struct ledger *l)
{
	const struct sonde_target *target = &ctx->targets->t[index];
	sonde_autofree enum sonde_map_kind *kinds = calloc(maps->n + 1, sizeof(*kinds));
	struct sonde_mapkind_hints hints;

	if (!kinds)
		return -ENOMEM;
	read_hints(target, &hints);
	sonde_mapkind(maps, &hints, kinds);
	if (hints.glibc_malloc && !ctx->opts->passive)
		find_large(target, maps, kinds);
	free_hints(&hints);
	return sum_up(t, maps, kinds, l);
}

static int push_rows(const struct push *to, struct rss_target *t, const struct ledger *l,
		     int64_t rss)
{
	int err = 0;

	t->extent |= l->rows[SONDE_MAP_EXTENT] > 0;
	t->large |= l->rows[SONDE_MAP_LARGE] > 0;
	for (int k = 0; k < SONDE_MAP__MAX && !err; k++) {
		bool rare = (k == SONDE_MAP_EXTENT && !t->extent) ||
			    (k == SONDE_MAP_LARGE && !t->large);

		if (!rare)
			err = push_name((void *)to, sonde_map_kind_name(k), l->rows[k]);
		if (l->swap[k])
			t->swapped |= 1u << k;
		if (!err && t->swapped & 1u << k)
			err = sonde_lens_push(to->ctx, to->index, M_LEDGER_SWAP,
					      sonde_map_kind_name(k), to->ts_ns,
					      (double)l->swap[k]);
	}
	return err ? err
		   : sonde_lens_push(to->ctx, to->index, M_LEDGER, "unexplained", to->ts_ns,
				     (double)rss - (double)l->sum);
}

static int push_names(const struct push *to, struct rss_target *t)
{
	struct {
		struct rss_tally *tally;
		struct push to;
	} all[] = {{&t->shmem, *to}, {&t->ext, *to}, {&t->path, *to}};
	int err = 0;

	all[0].to.metric = M_SHMEM_NAME;
	all[1].to.metric = M_FILE_EXT;
	all[2].to.metric = M_FILE_PATH;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all) && !err; i++)
		err = rss_tally_push(all[i].tally, TOP_FILES, MAX_SERIES, push_name, &all[i].to);
	return err;
}

static int push_reading(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
			const struct ledger *l, int64_t rss, uint64_t ts_ns)
{
	struct push to = {ctx, index, M_LEDGER, ts_ns};
	struct sonde_proc_mem after;
	int err = push_rows(&to, t, l, rss);

	err = err ? err : push_names(&to, t);
	err = err ? err : sonde_lens_push(ctx, index, M_ANON_HUGE, "", ts_ns, (double)l->anon_huge);
	err = err ? err : sonde_lens_push(ctx, index, M_LAZYFREE, "", ts_ns, (double)l->lazyfree);
	err = err ? err
		  : sonde_lens_push(ctx, index, M_WALK_NS, "smaps", ts_ns,
				    (double)t->ledger.took_ns);
	if (err || sonde_proc_mem(ctx->targets->t[index].pid, &after) || after.rss < 0)
		return err;
	return sonde_lens_push(ctx, index, M_LEDGER_MOVED, "", ts_ns,
			       (double)after.rss - (double)rss);
}

/* Why the mappings are not read now; NULL: they may be. "": not yet again. */
static const char *why_not(struct sonde_lens_ctx *ctx, const struct rss_target *t, int64_t rss,
			   uint64_t ts_ns, char *buf, size_t size)
{
	const struct rss_walk *w = &t->ledger;
	uint64_t predicted = w->took_ns ? w->took_ns : ((uint64_t)rss >> 20) * NS_PER_GIB / 1024;
	bool full = ctx->opts->ledger == SONDE_LEDGER_FULL;

	if (ctx->opts->ledger == SONDE_LEDGER_OFF)
		return "not read (--ledger off)";
	if (!full && predicted > AUTO_MAX_NS) {
		snprintf(buf, size,
			 "reading every mapping would hold mmap_lock for about %.0f ms; --ledger "
			 "full reads them",
			 (double)predicted / 1e6);
		return buf;
	}
	if (!full && w->last_ns && ts_ns - w->last_ns < w->took_ns * AUTO_SHARE)
		return "";
	return rss_may_walk(w, predicted, UINT64_MAX, ts_ns) ? NULL : "";
}

static int push_absence(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
			uint64_t ts_ns, const char *why)
{
	if (!*why || t->ledger.refused)
		return 0; /* the latest reading stands, with its own time */
	t->ledger.refused = true;
	return sonde_lens_push_absent(ctx, index, M_LEDGER, "", ts_ns, why);
}

int rss_ledger_push(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		    const struct sonde_proc_mem *mem, uint64_t ts_ns, bool *done)
{
	char buf[128];
	const char *why;
	struct sonde_smaps maps = {0};
	struct ledger l = {0};
	uint64_t took = 0;
	int err;

	if (mem->rss < 0)
		return 0; /* a zombie: it has no memory */
	why = why_not(ctx, t, mem->rss, ts_ns, buf, sizeof(buf));
	if (why)
		return push_absence(ctx, index, t, ts_ns, why);
	err = sonde_smaps_read(ctx->targets->t[index].pid, &maps, &took);
	if (err == -ESRCH || (!err && !maps.n))
		err = -ESRCH; /* gone between two reads: the session says so */
	else if (err)
		return push_absence(ctx, index, t, ts_ns, "/proc/PID/smaps is not readable");
	if (err)
		return 0;
	err = classify(ctx, index, t, &maps, &l);
	sonde_smaps_fini(&maps);
	if (err)
		return err;
	t->ledger = (struct rss_walk){.last_ns = ts_ns, .took_ns = took};
	*done = true;
	return push_reading(ctx, index, t, &l, mem->rss, ts_ns);
}
