// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading the THP lens's maps, and the names of their keys; see thp_read.h. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include "attach/feature.h"
#include "core/mem.h"
#include "core/str.h"
#include "lens/thp_read.h"

static int compare(const void *a, const void *b)
{
	const struct sonde_thp_key *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	if (x->what != y->what)
		return x->what < y->what ? -1 : 1;
	return x->arg < y->arg ? -1 : x->arg > y->arg;
}

int sonde_thp_sums_read(int fd, int n_cpus, struct sonde_thp_sums *to)
{
	sonde_autofree struct sonde_thp_sum *percpu = calloc((size_t)n_cpus, sizeof(*percpu));
	struct sonde_thp_key key, *prev = NULL;

	if (!percpu)
		return -ENOMEM;
	to->n = 0;
	while (!bpf_map_get_next_key(fd, prev, &key)) {
		struct sonde_thp_entry e = {.key = key};

		prev = &key;
		if (bpf_map_lookup_elem(fd, &key, percpu))
			continue;
		for (int c = 0; c < n_cpus; c++) {
			e.sum.count += percpu[c].count;
			e.sum.amount += percpu[c].amount;
		}
		if (SONDE_GROW(to->e, to->n, to->cap))
			return -ENOMEM;
		to->e[to->n++] = e;
	}
	if (to->n)
		qsort(to->e, to->n, sizeof(*to->e), compare);
	return 0;
}

void sonde_thp_sums_fini(struct sonde_thp_sums *s)
{
	free(s->e);
	*s = (struct sonde_thp_sums){};
}

struct sonde_thp_sum sonde_thp_sums_get(const struct sonde_thp_sums *s, uint32_t tgid,
					enum sonde_thp_what what, uint32_t arg)
{
	struct sonde_thp_key key = {tgid, (uint16_t)what, (uint16_t)arg};
	const struct sonde_thp_entry *e =
		s->n ? bsearch(&key, s->e, s->n, sizeof(*s->e), compare) : NULL;

	return e ? e->sum : (struct sonde_thp_sum){};
}

static struct sonde_thp_stall_row *stall_row(struct sonde_thp_stall_rows *rows, uint32_t tgid,
					     uint32_t series)
{
	struct sonde_thp_stall_row row = {.tgid = tgid, .series = series};

	for (size_t i = 0; i < rows->n; i++)
		if (rows->r[i].tgid == tgid && rows->r[i].series == series)
			return &rows->r[i];
	row.seen = calloc(SONDE_HIST_BUCKETS, sizeof(*row.seen));
	if (!row.seen || sonde_hist_init(&row.added) || SONDE_GROW(rows->r, rows->n, rows->cap)) {
		free(row.seen);
		sonde_hist_fini(&row.added);
		return NULL;
	}
	rows->r[rows->n] = row;
	return &rows->r[rows->n++];
}

int sonde_thp_stalls_read(int fd, struct sonde_thp_stall_rows *rows)
{
	struct sonde_thp_key key, *prev = NULL;

	for (size_t i = 0; i < rows->n; i++)
		sonde_hist_reset(&rows->r[i].added);
	while (!bpf_map_get_next_key(fd, prev, &key)) {
		struct sonde_thp_stall_row *row;
		uint64_t n;

		prev = &key;
		if (key.what >= SONDE_THP_STALL_SERIES || key.arg >= SONDE_HIST_BUCKETS ||
		    bpf_map_lookup_elem(fd, &key, &n))
			continue;
		row = stall_row(rows, key.tgid, key.what);
		if (!row)
			return -ENOMEM;
		if (n > row->seen[key.arg])
			sonde_hist_add_bucket(&row->added, key.arg, n - row->seen[key.arg]);
		row->seen[key.arg] = n;
	}
	return 0;
}

/* The key after one that was deleted would be the first again, so the next is asked for before. */
static void forget_keys(int fd, uint32_t tgid)
{
	struct sonde_thp_key key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (key.tgid == tgid)
			bpf_map_delete_elem(fd, &key);
	}
}

void sonde_thp_forget(int sums_fd, int hist_fd, struct sonde_thp_stall_rows *rows, uint32_t tgid)
{
	forget_keys(sums_fd, tgid);
	forget_keys(hist_fd, tgid);
	for (size_t i = rows->n; i-- > 0;) {
		if (rows->r[i].tgid != tgid)
			continue;
		free(rows->r[i].seen);
		sonde_hist_fini(&rows->r[i].added);
		rows->r[i] = rows->r[--rows->n];
	}
}

void sonde_thp_stalls_fini(struct sonde_thp_stall_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		free(rows->r[i].seen);
		sonde_hist_fini(&rows->r[i].added);
	}
	free(rows->r);
	*rows = (struct sonde_thp_stall_rows){};
}

/* "SCAN_EXCEED_NONE_PTE" without its prefix and in lower case, or "NAME_12". */
static void constant(const char *name, const char *prefix, const char *otherwise, uint32_t value,
		     char *buf, size_t size)
{
	char full[64];
	const char *s = full;

	if (sonde_btf_enum_name(name, (int)value, full, sizeof(full))) {
		snprintf(buf, size, "%s_%u", otherwise, value);
		return;
	}
	if (sonde_str_starts(full, prefix))
		s += strlen(prefix);
	snprintf(buf, size, "%s", s);
	for (char *c = buf; *c; c++)
		*c = (char)tolower((unsigned char)*c);
}

static const char *const who[] = {
	[SONDE_THP_KHUGEPAGED] = "khugepaged",
	[SONDE_THP_SELF] = "self",
	[SONDE_THP_OTHER] = "other",
	[3] = "unknown",
};

static const char *const kinds[] = {
	[SONDE_THP_ANON] = "",
	[SONDE_THP_FILE] = "file",
	[SONDE_THP_SHMEM] = "shmem",
	[3] = "unknown",
};

void sonde_thp_label_result(uint32_t arg, char *buf, size_t size)
{
	uint32_t by = SONDE_THP_BY_OF(arg), kind = SONDE_THP_KIND_OF(arg);
	char result[48];

	constant("scan_result", "SCAN_", "result", SONDE_THP_RESULT_OF(arg), result,
		 sizeof(result));
	snprintf(buf, size, "%s%s%s%s%s", by ? who[by] : "", by ? "." : "", kinds[kind],
		 kind ? "." : "", result);
}

void sonde_thp_label_by(uint32_t arg, char *buf, size_t size)
{
	uint32_t kind = SONDE_THP_KIND_OF(arg);

	snprintf(buf, size, "%s%s%s", who[SONDE_THP_BY_OF(arg)], kind ? "." : "", kinds[kind]);
}

void sonde_thp_label_purge(uint32_t arg, char *buf, size_t size)
{
	static const char *const names[] = {
#define NAME(id, sym, name) [id] = name,
		SONDE_THP_PURGES(NAME)
#undef NAME
	};

	snprintf(buf, size, "%s", arg < SONDE_ARRAY_SIZE(names) ? names[arg] : "unknown");
}

void sonde_thp_label_stall(uint32_t series, char *buf, size_t size)
{
	static const char *const names[] = {
#define NAME(id, sym, name) [id] = name,
		SONDE_THP_STALLS(NAME)
#undef NAME
	};
	uint32_t kind = series / 2;

	snprintf(buf, size, "%s%s", kind < SONDE_ARRAY_SIZE(names) ? names[kind] : "unknown",
		 series & 1 ? ".huge" : "");
}

void sonde_thp_label_reason(uint32_t arg, char *buf, size_t size)
{
	constant("migrate_reason", "MR_", "reason", arg, buf, size);
}
