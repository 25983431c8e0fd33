// SPDX-License-Identifier: GPL-2.0-or-later
/* Gathers what --why splits: the parts' sums by window, and the slowest queries; see trial_why.h.
 */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_forms.h"
#include "judge/trial_why.h"

#define MAX_SLOW 40000 /* of a server and period, 112 bytes each */

const char *sonde_why_words(unsigned part)
{
	static const char *const words[SONDE_PART__MAX] = {
		[SONDE_PART_QUEUED] = "queued before it was read",
		[SONDE_PART_USER] = "user CPU",
		[SONDE_PART_FAULT_BASE] = "base page faults",
		[SONDE_PART_FAULT_MTHP] = "mTHP faults",
		[SONDE_PART_FAULT_PMD] = "huge page faults",
		[SONDE_PART_FAULT_COW] = "copy-on-write faults",
		[SONDE_PART_FAULT_FILE] = "file faults",
		[SONDE_PART_FAULT_SWAP] = "swap faults",
		[SONDE_PART_FAULT_OTHER] = "other faults",
		[SONDE_PART_RECLAIM] = "reclaim",
		[SONDE_PART_COMPACTION] = "compaction",
		[SONDE_PART_SYS_MADVISE] = "madvise",
		[SONDE_PART_SYS_MUNMAP] = "munmap",
		[SONDE_PART_SYS_MMAP] = "mmap",
		[SONDE_PART_SYS_BRK] = "brk",
		[SONDE_PART_SYS_OTHER] = "other kernel CPU",
		[SONDE_PART_RUNQUEUE] = "run queue",
		[SONDE_PART_OFF_MMAP_LOCK] = "waiting for mmap_lock",
		[SONDE_PART_OFF_ALLOC_LOCK] = "waiting for the allocator's lock",
		[SONDE_PART_OFF_LOCK] = "waiting for another lock",
		[SONDE_PART_OFF_IO] = "waiting for I/O",
		[SONDE_PART_OFF_SOCKET] = "waiting for a socket",
		[SONDE_PART_OFF_SLEEP] = "sleeping",
		[SONDE_PART_OFF_OTHER] = "waiting for something else",
		[SONDE_PART_UNATTRIBUTED] = "unattributed",
	};

	return part < SONDE_PART__MAX && words[part] ? words[part] : sonde_part_name(part);
}

int sonde_why_init(struct sonde_why_data *d, const struct sonde_trial *t)
{
	size_t cells = t->n_servers * t->n_windows;

	*d = (struct sonde_why_data){.n_servers = t->n_servers, .n_windows = t->n_windows};
	d->part = calloc(cells * SONDE_PART__MAX + 1, sizeof(*d->part));
	d->count = calloc(cells + 1, sizeof(*d->count));
	d->cell = calloc(t->n_servers * 2 + 1, sizeof(*d->cell));
	d->by_total = calloc(t->n_servers + 1, sizeof(*d->by_total));
	if (d->part && d->count && d->cell && d->by_total)
		return 0;
	sonde_why_fini(d);
	return -ENOMEM;
}

void sonde_why_fini(struct sonde_why_data *d)
{
	for (size_t i = 0; d->cell && i < d->n_servers * 2; i++)
		free(d->cell[i].slow);
	free(d->cell);
	free(d->part);
	free(d->count);
	free(d->by_total);
	*d = (struct sonde_why_data){0};
}

/* ---- the slowest ---- */

static void sift_up(struct sonde_why_slow *heap, size_t i)
{
	struct sonde_why_slow item = heap[i];

	for (; i && heap[(i - 1) / 2].ns > item.ns; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = item;
}

static void sift_down(struct sonde_why_slow *heap, size_t n)
{
	struct sonde_why_slow top = heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1].ns < heap[child].ns)
			child++;
		if (heap[child].ns >= top.ns)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = top;
}

static void keep_slow(struct sonde_why_cell *c, size_t window, uint64_t ns,
		      const struct sonde_span *s)
{
	struct sonde_why_slow *to;
	bool full = c->n == MAX_SLOW || SONDE_GROW(c->slow, c->n, c->cap);

	if (full && (!c->n || ns <= c->slow[0].ns)) {
		c->complete_ns = ns > c->complete_ns ? ns : c->complete_ns;
		return;
	}
	if (full && c->slow[0].ns > c->complete_ns)
		c->complete_ns = c->slow[0].ns;
	to = full ? &c->slow[0] : &c->slow[c->n++];
	to->ns = ns;
	to->window = (uint32_t)window;
	for (int p = 0; p < SONDE_PART__MAX; p++)
		to->part[p] = (float)s->part_ns[p];
	if (full)
		sift_down(c->slow, c->n);
	else
		sift_up(c->slow, c->n - 1);
}

void sonde_why_put(struct sonde_why_data *d, size_t server, int period, size_t window,
		   const struct sonde_span *s)
{
	size_t at = server * d->n_windows + window;

	if (!d->part || !s->has_parts || !sonde_forms_counts(s))
		return;
	d->count[at] += !d->by_total[server];
	for (int p = 0; p < SONDE_PART__MAX && !d->by_total[server]; p++)
		d->part[at * SONDE_PART__MAX + (size_t)p] += (double)s->part_ns[p];
	keep_slow(&d->cell[server * 2 + (size_t)period], window, sonde_span_duration_ns(s), s);
}

bool sonde_why_put_total(struct sonde_why_data *d, size_t server, size_t window, const char *name,
			 double grown)
{
	static const char spans[] = "query.part_spans", part[] = "query.part.";
	size_t at = server * d->n_windows + window;
	unsigned int p = 0;

	if (!d->part)
		return false;
	if (!strcmp(name, spans)) {
		d->by_total[server] = true;
		if (window < d->n_windows)
			d->count[at] += grown;
		return true;
	}
	if (!sonde_str_starts(name, part))
		return false;
	while (p < SONDE_PART__MAX && strcmp(sonde_part_name(p), name + strlen(part)))
		p++;
	if (p < SONDE_PART__MAX && window < d->n_windows)
		d->part[at * SONDE_PART__MAX + p] += grown;
	return true;
}

void sonde_why_hour(struct sonde_why_data *d, size_t server, int period, uint64_t ns)
{
	struct sonde_why_cell *c = d->cell ? &d->cell[server * 2 + (size_t)period] : NULL;

	if (c && ns > c->complete_ns)
		c->complete_ns = ns;
}

void sonde_why_result_fini(struct sonde_why *w)
{
	free(w->rows);
	*w = (struct sonde_why){0};
}
