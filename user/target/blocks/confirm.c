// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second witness for an allocator's tables: a scratch process that loads the same file, found
 * in by the same search. Chance could put something that looks like a table into one process, not
 * at the same place of the library's data in two.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/allocator.h"
#include "target/blocks/blocks.h"
#include "target/elf.h"
#include "target/heap/confirm.h"
#include "target/heap/scratch.h"

static const char inside[] = {
	[SONDE_BLOCK_RTREE] = SONDE_INSIDE_JEMALLOC,
	[SONDE_BLOCK_PAGEMAP] = SONDE_INSIDE_TCMALLOC,
};

static int find_same(pid_t pid, const struct sonde_module *m, struct sonde_modules *mods,
		     size_t *out)
{
	struct sonde_elf *elf;
	char id[41];
	int err = sonde_elf_try(&elf, m->open_path, "");

	if (err)
		return err;
	sonde_elf_build_id(elf, id, sizeof(id));
	sonde_elf_free(&elf);
	if (!id[0])
		return -ENOENT;
	err = sonde_modules_read(pid, mods);
	return err ? err : sonde_heap_find_module(mods, id, out);
}

static int compare(pid_t pid, const struct sonde_allocator *a, const struct sonde_module *m,
		   const struct sonde_alloc_domain *d, char *why, size_t size)
{
	sonde_autofree struct sonde_alloc_domain *other = calloc(1, sizeof(*other));
	struct sonde_modules mods = {0};
	size_t same = 0;
	int err = other ? find_same(pid, m, &mods, &same) : -ENOMEM;

	err = err ? err : sonde_blocks_learn(pid, a, &mods.m[same], other);
	if (err) {
		snprintf(why, size, "nothing was found in a scratch process: %s", strerror(-err));
		err = err == -ENOENT ? -EINVAL : -EOPNOTSUPP;
	} else if (other->root - mods.m[same].base != d->root - m->base ||
		   other->page_shift != d->page_shift || other->leaf_bits != d->leaf_bits) {
		snprintf(why, size,
			 "in a scratch process they lie at 0x%" PRIx64
			 " of its data, here at 0x%" PRIx64,
			 other->root - mods.m[same].base, d->root - m->base);
		err = -EINVAL;
	}
	sonde_modules_fini(&mods);
	return err;
}

int sonde_blocks_confirm(pid_t pid, const struct sonde_allocator *a,
			 const struct sonde_modules *mods, size_t m,
			 const struct sonde_alloc_domain *d, char *why, size_t size)
{
	struct sonde_scratch *scratch;
	struct sonde_report r = {0};
	int err;

	if (a->rule >= SONDE_ARRAY_SIZE(inside) || !inside[a->rule] || mods->m[m].is_exe) {
		snprintf(why, size, "a program is not started again to look at its allocator");
		return -EOPNOTSUPP;
	}
	err = sonde_scratch_start(&scratch, pid, mods, m, inside[a->rule], why, size);
	if (err)
		return -EOPNOTSUPP;
	/* At its last state but one it holds blocks of many kinds. */
	do
		err = sonde_scratch_next(scratch, &r, why, size);
	while (!err && r.state + 2 < r.states);
	err = err ? -EOPNOTSUPP : compare(sonde_scratch_pid(scratch), a, &mods->m[m], d, why, size);
	sonde_scratch_free(&scratch);
	return err;
}
