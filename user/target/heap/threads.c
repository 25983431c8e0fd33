// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The lists of threads that glibc's dynamic linker keeps; see threads.h. libc exports, for
 * debuggers, where they are: descriptors of three words (bits, count, offset). A thread's
 * descriptor begins with its own address, which is the check of every entry.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/elf.h"
#include "target/heap/remote.h"
#include "target/heap/threads.h"

struct descriptor {
	uint32_t bits, count, offset;
};

static int read_descriptor(struct sonde_elf *libc, const char *name, uint32_t *offset)
{
	struct descriptor d;
	uint64_t at, size;

	if (sonde_elf_find_data(libc, name, &at, &size) ||
	    sonde_elf_read(libc, at, &d, sizeof(d)) || d.offset > 1u << 20)
		return -ENOENT;
	*offset = d.offset;
	return 0;
}

/* The module of that soname: its file, open, and what to add to the file's addresses. */
static int open_module(const struct sonde_modules *mods, const char *soname, struct sonde_elf **out,
		       uint64_t *bias)
{
	for (size_t i = 0; i < mods->n; i++) {
		const struct sonde_module *m = &mods->m[i];
		struct sonde_elf *elf;

		if (sonde_elf_try(&elf, m->open_path, ""))
			continue;
		if (!strcmp(sonde_elf_soname(elf), soname) &&
		    !sonde_elf_bias(elf, m->text_start, m->text_pgoff, bias)) {
			*out = elf;
			return 0;
		}
		sonde_elf_free(&elf);
	}
	return -ENOENT;
}

static int find_lists(struct sonde_threads *t, struct sonde_elf *ld, uint64_t ld_bias,
		      struct sonde_elf *libc)
{
	static const char *const heads[] = {
		"_thread_db_rtld_global__dl_stack_user",
		"_thread_db_rtld_global__dl_stack_used",
	};
	uint64_t global, size;
	uint32_t offset;

	if (sonde_elf_find_data(ld, "_rtld_global", &global, &size))
		return -ENOENT;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(heads); i++) {
		if (read_descriptor(libc, heads[i], &offset))
			return -ENOENT;
		t->head[i] = ld_bias + global + offset;
	}
	if (read_descriptor(libc, "_thread_db_pthread_list", &offset))
		return -ENOENT;
	t->node = offset;
	return 0;
}

int sonde_threads_init(struct sonde_threads *t, pid_t pid, const struct sonde_modules *mods,
		       char *why, size_t size)
{
	struct sonde_threads made = {.pid = pid};
	struct sonde_elf *ld = NULL, *libc = NULL;
	uint64_t ld_bias = 0, libc_bias;
	int err = open_module(mods, "ld-linux-x86-64.so.2", &ld, &ld_bias);

	if (!err)
		err = open_module(mods, "libc.so.6", &libc, &libc_bias);
	if (!err)
		err = find_lists(&made, ld, ld_bias, libc);
	sonde_elf_free(&ld);
	sonde_elf_free(&libc);
	if (err) {
		snprintf(why, size,
			 "its C library has no lists of threads that can be found (glibc 2.34 and "
			 "later has)");
		return -EOPNOTSUPP;
	}
	*t = made;
	return 0;
}

static int read_list(struct sonde_threads *t, uint64_t head)
{
	uint64_t node, next;
	int err = sonde_remote_read(t->pid, head, &node, sizeof(node));

	while (!err && node != head) {
		uint64_t tp = node - t->node, self;
		struct sonde_piece p[] = {{tp, &self, 8}, {node, &next, 8}};

		if (t->n == SONDE_THREADS_MAX || !node || (node & 7))
			return -EAGAIN;
		err = sonde_remote_readv(t->pid, p, 2);
		if (!err && self != tp)
			err = -EAGAIN;
		if (!err)
			err = SONDE_GROW(t->tp, t->n, t->cap);
		if (err)
			break;
		t->tp[t->n++] = tp;
		node = next;
	}
	return err;
}

/* Each descriptor must hold its own address, and each node link to the next, from head to head. */
static bool same_chain(const struct sonde_threads *t, const uint64_t head[2], const uint64_t *seen)
{
	uint64_t expect = head[0];

	for (size_t i = 0; i < t->n; i++) {
		if (i == t->split) {
			if (expect != t->head[0])
				return false;
			expect = head[1];
		}
		if (expect != t->tp[i] + t->node || seen[2 * i] != t->tp[i])
			return false;
		expect = seen[2 * i + 1];
	}
	if (t->n == t->split)
		return expect == t->head[0] && head[1] == t->head[1];
	return expect == t->head[1];
}

/* All threads known, by few calls: are they still those of the lists? */
static int check_known(const struct sonde_threads *t)
{
	struct sonde_piece *p = calloc(2 * t->n + 2, sizeof(*p));
	uint64_t *seen = calloc(2 * t->n + 1, sizeof(*seen)), head[2];
	int err = p && seen ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < 2; i++)
		p[i] = (struct sonde_piece){t->head[i], &head[i], 8};
	for (size_t i = 0; !err && i < t->n; i++) {
		p[2 * i + 2] = (struct sonde_piece){t->tp[i], &seen[2 * i], 8};
		p[2 * i + 3] = (struct sonde_piece){t->tp[i] + t->node, &seen[2 * i + 1], 8};
	}
	if (!err)
		err = sonde_remote_readv(t->pid, p, 2 * t->n + 2);
	if (!err && !same_chain(t, head, seen))
		err = -EAGAIN;
	free(p);
	free(seen);
	return err;
}

int sonde_threads_read(struct sonde_threads *t)
{
	int err = t->n ? check_known(t) : -EAGAIN;

	/* A thread that came or went meanwhile breaks the chain: rarely twice in a row. */
	for (int tries = 0; tries < 3 && (err == -EAGAIN || err == -EFAULT); tries++) {
		t->n = 0;
		err = read_list(t, t->head[0]);
		t->split = t->n;
		if (!err)
			err = read_list(t, t->head[1]);
	}
	return err == -EFAULT ? -EAGAIN : err;
}

void sonde_threads_fini(struct sonde_threads *t)
{
	free(t->tp);
	*t = (struct sonde_threads){0};
}
