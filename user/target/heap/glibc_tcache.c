// SPDX-License-Identifier: GPL-2.0-or-later
/* The threads' caches: two calls for all threads; see glibc_tcache.h. */
#include <errno.h>

#include "core/mem.h"
#include "target/heap/glibc_tcache.h"
#include "target/heap/remote.h"

void glibc_tcache_init(struct glibc_tcache *c, pid_t pid, const struct sonde_modules *mods,
		       uint64_t bias, const struct sonde_heap_layout *layout)
{
	const int64_t *v = layout->v;
	char why[128];

	*c = (struct glibc_tcache){
		.pid = pid,
		.tp_offset = v[GLIBC_TCACHE_TP],
		.counts = (uint64_t)v[GLIBC_TCACHE_COUNTS],
		.width = (size_t)v[GLIBC_TCACHE_WIDTH],
	};
	c->broken = true;
	if ((c->width != 1 && c->width != 2) || c->counts > 4096)
		return;
	if (v[GLIBC_TCACHE_SLOT] &&
	    sonde_remote_read(pid, bias + (uint64_t)v[GLIBC_TCACHE_SLOT], &c->tp_offset, 8))
		return;
	/* Of an initial TLS block, which lies below the thread pointer. */
	if (c->tp_offset >= 0 || c->tp_offset < -(1 << 24) || (c->tp_offset & 7))
		return;
	c->broken = false;
	c->known = !sonde_threads_init(&c->threads, pid, mods, why, sizeof(why));
}

void glibc_tcache_fini(struct glibc_tcache *c)
{
	sonde_threads_fini(&c->threads);
}

static uint64_t count(const struct glibc_tcache *c, const uint8_t *counts, size_t bin)
{
	uint16_t n;

	if (c->width == 1)
		return counts[bin];
	memcpy(&n, counts + 2 * bin, sizeof(n));
	return n;
}

static uint64_t sum(const struct glibc_tcache *c, const uint8_t *counts)
{
	uint64_t bytes = 0;

	for (size_t bin = 0; bin < GLIBC_TCACHE_BINS; bin++)
		bytes += count(c, counts, bin) * (GLIBC_CHUNK_MIN + GLIBC_CHUNK_STEP * bin);
	return bytes;
}

/* Addresses of the caches, of those threads that have one; *n of them. */
static int find_caches(struct glibc_tcache *c, uint64_t *at, size_t *n)
{
	const struct sonde_threads *t = &c->threads;
	struct sonde_piece *p = calloc(t->n ? t->n : 1, sizeof(*p));
	size_t found = 0;
	int err = p ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < t->n; i++)
		p[i] = (struct sonde_piece){t->tp[i] + (uint64_t)c->tp_offset, &at[i], 8};
	if (!err)
		err = sonde_remote_readv(c->pid, p, t->n);
	for (size_t i = 0; !err && i < t->n; i++)
		if (at[i])
			at[found++] = at[i] + c->counts;
	free(p);
	*n = found;
	return err;
}

int glibc_tcache_read(struct glibc_tcache *c, uint64_t *bytes)
{
	sonde_autofree uint64_t *at = NULL;
	sonde_autofree uint8_t *counts = NULL;
	sonde_autofree bool *ok = NULL;
	size_t len = c->width * GLIBC_TCACHE_BINS, n;
	uint64_t total = 0;
	int err;

	if (!c->known)
		return c->broken ? -EIO : -EOPNOTSUPP;
	err = sonde_threads_read(&c->threads);
	if (err)
		return err;
	n = c->threads.n ? c->threads.n : 1;
	at = calloc(n, sizeof(*at));
	counts = calloc(n, len);
	ok = calloc(n, sizeof(*ok));
	err = at && counts && ok ? find_caches(c, at, &n) : -ENOMEM;
	if (!err)
		err = sonde_remote_each(c->pid, at, n, counts, len, ok);
	/* A cache that cannot be read was its thread's, which has ended. */
	for (size_t i = 0; !err && i < n; i++)
		if (ok[i])
			total += sum(c, counts + i * len);
	if (!err)
		*bytes = total;
	return err;
}
