// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A heap profile as `go tool pprof` reads it: alloc_objects and alloc_space, and where frees were
 * followed inuse_objects and inuse_space; or page faults and their time. Uncompressed, which pprof
 * takes as well.
 *
 * Addresses are those of the files; files are set apart by giving each a terabyte of its own, for
 * in a profile their mappings must not overlap. The names are in the profile, so pprof looks up
 * none.
 */
#include <errno.h>
#include <stdint.h>

#include "core/err.h"
#include "core/mem.h"
#include "export/export.h"
#include "export/pprof_build.h"
#include "model/stacks.h"

struct pprof {
	struct sonde_stack_table table;
	uint64_t first_ns, last_ns;
};

static int on_start(void *ctx, uint64_t ts_ns)
{
	struct sonde_export *x = ctx;
	struct pprof *p = x->priv;

	p->first_ns = p->last_ns = ts_ns;
	return 0;
}

static int on_tick(void *ctx, uint64_t ts_ns)
{
	struct sonde_export *x = ctx;
	struct pprof *p = x->priv;

	if (!p->first_ns)
		p->first_ns = ts_ns;
	p->last_ns = ts_ns;
	return 0;
}

static int pprof_open(struct sonde_export *x)
{
	struct pprof *p = calloc(1, sizeof(*p));

	if (!p)
		return sonde_err(ENOMEM, "cannot export: out of memory");
	sonde_stack_table_init(&p->table);
	x->priv = p;
	sonde_export_take_stacks(x, &p->table);
	x->visitor.start = on_start;
	x->visitor.tick = on_tick;
	return 0;
}

static int write_profile(struct sonde_export *x, const struct pprof *p, enum sonde_lens_id lens,
			 const struct sonde_site_group *g, size_t n)
{
	sonde_autostr struct sonde_str bytes = {0};
	struct sonde_profile *profile = NULL;
	int err = sonde_profile_new(&profile, lens, g, n);

	if (!err)
		sonde_profile_time(profile, p->first_ns ? sonde_export_utc(x, p->first_ns) : 0,
				   p->last_ns - p->first_ns);
	err = err ? err : sonde_profile_pack(profile, &bytes);
	sonde_profile_free(&profile);
	return err ? sonde_err(ENOMEM, "cannot export: out of memory")
		   : sonde_export_put(x, &bytes);
}

static int pprof_close(struct sonde_export *x)
{
	struct pprof *p = x->priv;
	struct sonde_site_group *g = NULL;
	size_t n = 0;
	enum sonde_lens_id lens = SONDE_LENS_ALLOC;
	int err = sonde_export_groups(x, &lens, &g, &n);

	err = err ? err : write_profile(x, p, lens, g, n);
	sonde_site_groups_fini(g, n);
	sonde_stack_table_fini(&p->table);
	free(p);
	return err;
}

const struct sonde_exporter sonde_export_pprof = {
	.name = "pprof",
	.summary = "call stacks as a heap profile for `go tool pprof`: alloc_space, alloc_objects, "
		   "inuse_space, inuse_objects; or page faults: faults, fault_time",
	.suffix = ".pb",
	.takes = SONDE_TAKES_STACK,
	.open = pprof_open,
	.close = pprof_close,
};
