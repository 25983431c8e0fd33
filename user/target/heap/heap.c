// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a process to its heap's figures: who serves malloc, where that library keeps its figures,
 * whether that is so, and then readings. What a library's file told is kept by build-id, so that a
 * restart or a second process of the same build costs nothing.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "target/allocator.h"
#include "target/heap/confirm.h"
#include "target/heap/heap.h"
#include "target/heap/remote.h"
#include "target/proc.h"

#define SONDE_HEAP_READER(name) extern const struct sonde_heap_reader sonde_heap_reader_##name;
#include "target/heap/readers.def"
#undef SONDE_HEAP_READER

#define SONDE_HEAP_READER(name) &sonde_heap_reader_##name,
const struct sonde_heap_reader *const sonde_heap_readers[] = {
#include "target/heap/readers.def"
};
#undef SONDE_HEAP_READER
const size_t sonde_heap_reader_count = SONDE_ARRAY_SIZE(sonde_heap_readers);

const char *const sonde_heap_source_names[] = {
	[SONDE_HEAP_COUNTED] = "counted",
	[SONDE_HEAP_BOUND] = "upper bound",
	[SONDE_HEAP_COMBINED] = "estimate",
};

/* 16 random bytes that the kernel gives each program that it starts: equal ones are the same
 * program. */
#define UNUSED_ANON (4 << 20) /* bytes; code and stacks take less */

struct identity {
	uint64_t at; /* 0: not known */
	uint8_t bytes[16];
};

struct sonde_heap {
	pid_t pid;
	struct identity identity;
	struct sonde_heap_layout layout;
	void *state;
	char describe[96];
};

/* The outcome for one build of a library. */
struct verdict {
	struct sonde_heap_layout layout;
	int err;
	char why[256];
};

static struct verdict *verdicts;
static size_t n_verdicts, cap_verdicts;

const struct sonde_heap_reader *sonde_heap_reader_find(const char *allocator)
{
	for (size_t i = 0; i < sonde_heap_reader_count; i++)
		if (!strcmp(sonde_heap_readers[i]->allocator, allocator))
			return sonde_heap_readers[i];
	return NULL;
}

bool sonde_heap_counts_threads(const char *allocator)
{
	const struct sonde_heap_reader *r = sonde_heap_reader_find(allocator);

	return r && r->places;
}

int64_t sonde_heap_slot(const struct sonde_heap_layout *layout, const char *name)
{
	for (size_t i = 0; i < layout->reader->n_slots; i++)
		if (!strcmp(layout->reader->slots[i].name, name))
			return layout->v[i];
	return 0;
}

static const struct verdict *recall(const struct sonde_heap_reader *reader, const char *build_id)
{
	for (size_t i = 0; *build_id && i < n_verdicts; i++)
		if (verdicts[i].layout.reader == reader &&
		    !strcmp(verdicts[i].layout.build_id, build_id))
			return &verdicts[i];
	return NULL;
}

/* Refusals are kept too, but not what may be otherwise next time. */
static void keep(const struct verdict *v)
{
	bool lasting = !v->err || v->err == -EOPNOTSUPP || v->err == -EINVAL;

	if (lasting && v->layout.build_id[0] && !SONDE_GROW(verdicts, n_verdicts, cap_verdicts))
		verdicts[n_verdicts++] = *v;
}

/* With what a scratch process showed, and without it where that does not hold. */
static int confirm(struct verdict *v, pid_t pid, const struct sonde_modules *mods, size_t m)
{
	const struct sonde_heap_reader *reader = v->layout.reader;
	struct sonde_heap_layout derived = v->layout;

	if (reader->learn && !reader->learn(&v->layout, pid, mods, m, v->why, sizeof(v->why))) {
		if (!sonde_heap_confirm(&v->layout, pid, mods, m, v->why, sizeof(v->why)))
			return 0;
		v->layout = derived;
	}
	return sonde_heap_confirm(&v->layout, pid, mods, m, v->why, sizeof(v->why));
}

/* Where the executable holds the allocator there is no library that a scratch process could load.
 */
static void judge(struct verdict *v, struct sonde_elf *elf, pid_t pid,
		  const struct sonde_modules *mods, size_t m)
{
	v->err = v->layout.reader->derive(elf, &v->layout);
	if (v->err) {
		snprintf(v->why, sizeof(v->why), "%s",
			 v->layout.why[0] ? v->layout.why : strerror(-v->err));
		return;
	}
	if (!mods->m[m].is_exe) {
		v->layout.named = false;
		v->err = confirm(v, pid, mods, m);
	} else if (!v->layout.named) {
		v->err = -EOPNOTSUPP;
		snprintf(v->why, sizeof(v->why),
			 "the allocator is part of the executable, whose symbols do not name its "
			 "data, and no scratch process can confirm what its code suggests");
	}
}

static int find_layout(pid_t pid, const struct sonde_modules *mods, size_t m,
		       const struct sonde_heap_reader *reader, struct sonde_heap_layout *out,
		       char *why, size_t size)
{
	struct verdict v = {.layout.reader = reader};
	const struct verdict *known;
	struct sonde_elf *elf;
	char root[32];
	int err;

	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	err = sonde_elf_try(&elf, mods->m[m].open_path, root);
	if (err) {
		snprintf(why, size, "the allocator's file cannot be read: %s", strerror(-err));
		return err;
	}
	sonde_elf_build_id(elf, v.layout.build_id, sizeof(v.layout.build_id));
	known = recall(reader, v.layout.build_id);
	if (known) {
		v = *known;
	} else {
		judge(&v, elf, pid, mods, m);
		keep(&v);
	}
	sonde_elf_free(&elf);
	if (v.err) {
		snprintf(why, size, "%s", v.why);
		return v.err == -ESRCH ? v.err : -EOPNOTSUPP;
	}
	*out = v.layout;
	return 0;
}

static int read_identity(pid_t pid, struct identity *out)
{
	sonde_autofree char *auxv = NULL;
	struct identity id = {0};
	size_t len = 0;
	int err = sonde_read_filef(&auxv, &len, "/proc/%d/auxv", pid);

	for (size_t i = 0; !err && i + 16 <= len; i += 16) {
		uint64_t entry[2];

		memcpy(entry, auxv + i, sizeof(entry));
		if (entry[0] == AT_RANDOM)
			id.at = entry[1];
	}
	if (!err && id.at)
		err = sonde_remote_read(pid, id.at, id.bytes, sizeof(id.bytes));
	if (!err)
		*out = id;
	return err;
}

/* After an exec all addresses mean something else. 0, -ESTALE or -ESRCH. */
static int check_identity(const struct sonde_heap *h)
{
	uint8_t now[16];
	int err = sonde_remote_read(h->pid, h->identity.at, now, sizeof(now));

	if (err == -ESRCH || !h->identity.at)
		return h->identity.at ? err : 0;
	return err || memcmp(now, h->identity.bytes, sizeof(now)) ? -ESTALE : 0;
}

static int open_in(struct sonde_heap *h, const struct sonde_modules *mods, char *why, size_t size)
{
	const struct sonde_allocator *a = NULL;
	const struct sonde_heap_reader *reader;
	char version[32] = "";
	size_t m;
	int err = sonde_allocator_detect(h->pid, mods, &a, &m, version, sizeof(version));

	if (err) {
		snprintf(why, size, "its allocator was not recognised");
		return -EOPNOTSUPP;
	}
	reader = sonde_heap_reader_find(a->name);
	if (!reader) {
		snprintf(why, size, "the heap of %s cannot be read from outside", a->name);
		return -EOPNOTSUPP;
	}
	err = find_layout(h->pid, mods, m, reader, &h->layout, why, size);
	if (err)
		return err;
	snprintf(h->describe, sizeof(h->describe), "%s%s%s, %s", a->name, version[0] ? " " : "",
		 version, h->layout.named ? "named by symbols" : "confirmed by a scratch process");
	err = reader->attach(h->pid, mods, m, &h->layout, &h->state, why, size);
	return err && err != -ESRCH ? -EOPNOTSUPP : err;
}

int sonde_heap_open(struct sonde_heap **out, pid_t pid, char *why, size_t size)
{
	struct sonde_heap *h = calloc(1, sizeof(*h));
	struct sonde_modules mods = {0};
	int err = h ? sonde_modules_read(pid, &mods) : -ENOMEM;

	if (err) {
		snprintf(why, size, "%s", err == -ESRCH ? "it is gone" : strerror(-err));
		free(h);
		return err;
	}
	h->pid = pid;
	err = read_identity(pid, &h->identity);
	if (err)
		snprintf(why, size, "its memory cannot be read: %s", strerror(-err));
	else
		err = open_in(h, &mods, why, size);
	if (err && err != -ESRCH && h->identity.at && check_identity(h) == -ESTALE) {
		snprintf(why, size,
			 "it replaced its program while its heap was looked at; it is tried again "
			 "at a later tick, so observe it for longer");
		err = -ESTALE;
	}
	sonde_modules_fini(&mods);
	if (err)
		free(h);
	else
		*out = h;
	return err;
}

void sonde_heap_close(struct sonde_heap **ref)
{
	struct sonde_heap *h = *ref;

	*ref = NULL;
	if (!h)
		return;
	h->layout.reader->detach(h->state);
	free(h);
}

const char *sonde_heap_describe(const struct sonde_heap *heap)
{
	return heap->describe;
}

const struct sonde_heap_layout *sonde_heap_layout(const struct sonde_heap *heap)
{
	return &heap->layout;
}

bool sonde_heap_places(const struct sonde_heap *heap, int64_t out[2])
{
	const struct sonde_heap_reader *reader = heap->layout.reader;

	return reader->places && reader->places(heap->state, out);
}

int sonde_heap_may_read(const struct sonde_proc_mem *mem, char *why, size_t size)
{
	if (mem->rss < 0)
		return -ESRCH; /* a zombie has no memory */
	if (mem->swap <= 0)
		return 0;
	snprintf(why, size,
		 "%.1f MiB of it are swapped out, and reading its heap would bring them back",
		 (double)mem->swap / (1 << 20));
	return -EAGAIN;
}

/* An allocator that nobody calls beside much memory that somebody has: it is not what serves. */
static void doubt(const struct sonde_proc_mem *mem, struct sonde_heap_reading *r)
{
	if (!(r->present & 1u << SONDE_HEAP_SYSTEM) || r->bytes[SONDE_HEAP_SYSTEM] ||
	    mem->rss_anon < UNUSED_ANON)
		return;
	r->present &= ~(1u << SONDE_HEAP_LIVE);
	snprintf(r->broken, sizeof(r->broken),
		 "this allocator is not used: 0 B of %.1f MiB anonymous memory are its",
		 (double)mem->rss_anon / (1 << 20));
}

int sonde_heap_read(struct sonde_heap *heap, const struct sonde_heap_budget *budget,
		    struct sonde_heap_reading *out, char *why, size_t size)
{
	struct sonde_heap_reading r = {.at_ns = sonde_mono_ns()};
	struct sonde_proc_mem mem;
	int err;

	why[0] = '\0';
	err = sonde_proc_mem(heap->pid, &mem);
	if (!err)
		err = sonde_heap_may_read(&mem, why, size);
	if (!err)
		err = heap->layout.reader->read(heap->state, budget, &r, why, size);
	/* Looked at behind the reading, which an exec may have come between. */
	if (err != -ESRCH && err != -EAGAIN) {
		int other = check_identity(heap);

		if (other) {
			snprintf(why, size, "it replaced its program");
			return other;
		}
	}
	if (err)
		return err;
	doubt(&mem, &r);
	r.cost_ns = sonde_mono_ns() - r.at_ns;
	*out = r;
	return 0;
}
