// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An external merge sort, see sorter.h. Records lie in one block of memory behind each other; when
 * it is full they are sorted by an index and written out as a run. In the end the runs are read
 * side by side through a heap of their first records. The file has no name from the start, so that
 * it vanishes with the process: it may hold query texts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/sorter.h"

#define RUN_BUFFER (64u << 10)
#define ALIGN(n)   (((n) + 7) & ~(size_t)7)

struct record {
	struct sonde_sort_key key;
	uint64_t serial; /* order of arrival, the last part of the key */
	uint64_t len;
	/* data follows, padded to 8 bytes */
};

struct run {
	off_t at, end; /* in the file: what was not read yet */
	char *buf;
	size_t pos, have, cap;
	const struct record *head; /* in buf; NULL: used up */
};

struct sonde_sorter {
	char *block;
	size_t used, cap, memory;
	const struct record **index; /* while records are in memory and sorted */
	size_t n, at;
	uint64_t serial;
	int fd;
	off_t file_end;
	struct run *runs;
	size_t n_runs, cap_runs;
	size_t *heap; /* numbers of runs; the least head first */
	size_t n_heap;
	bool reading, advance;
};

int sonde_sorter_new(struct sonde_sorter **out, size_t memory)
{
	struct sonde_sorter *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->memory = memory;
	s->fd = -1;
	*out = s;
	return 0;
}

void sonde_sorter_free(struct sonde_sorter **sp)
{
	struct sonde_sorter *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	for (size_t i = 0; i < s->n_runs; i++)
		free(s->runs[i].buf);
	if (s->fd >= 0)
		close(s->fd);
	free(s->runs);
	free(s->heap);
	free(s->index);
	free(s->block);
	free(s);
}

static int before(const struct record *a, const struct record *b)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(a->key.k); i++)
		if (a->key.k[i] != b->key.k[i])
			return a->key.k[i] < b->key.k[i] ? -1 : 1;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

static int by_key(const void *a, const void *b)
{
	return before(*(const struct record *const *)a, *(const struct record *const *)b);
}

static size_t record_size(const struct record *r)
{
	return sizeof(*r) + ALIGN(r->len);
}

static int sort_block(struct sonde_sorter *s)
{
	size_t i = 0;

	free(s->index);
	s->index = reallocarray(NULL, s->n ? s->n : 1, sizeof(*s->index));
	if (!s->index)
		return -ENOMEM;
	for (size_t pos = 0; pos < s->used; i++) {
		s->index[i] = (const struct record *)(s->block + pos);
		pos += record_size(s->index[i]);
	}
	qsort(s->index, s->n, sizeof(*s->index), by_key);
	return 0;
}

static const char *temp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

static int file_error(int err)
{
	return sonde_err(
		err,
		"cannot sort in a temporary file in %s: %s; set TMPDIR to a directory with "
		"more room",
		temp_dir(), strerror(err));
}

static int open_file(struct sonde_sorter *s)
{
	char path[4096];

	if (s->fd >= 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/sonde-XXXXXX", temp_dir()) >= (int)sizeof(path))
		return file_error(ENAMETOOLONG);
	s->fd = mkostemp(path, O_CLOEXEC);
	if (s->fd < 0)
		return file_error(errno);
	unlink(path);
	return 0;
}

static int write_all(struct sonde_sorter *s, const char *p, size_t n)
{
	while (n) {
		ssize_t done = pwrite(s->fd, p, n, s->file_end);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return file_error(done ? errno : EIO);
		p += done;
		n -= (size_t)done;
		s->file_end += done;
	}
	return 0;
}

/* Sort what is in memory into the file; memory is free again. */
static int spill(struct sonde_sorter *s)
{
	struct run run = {.at = s->file_end};
	sonde_autofree char *out = malloc(RUN_BUFFER);
	size_t have = 0;
	int err = out ? sort_block(s) : -ENOMEM;

	if (!err)
		err = open_file(s);
	for (size_t i = 0; i < s->n && !err; i++) {
		size_t size = record_size(s->index[i]);

		if (have && have + size > RUN_BUFFER) {
			err = write_all(s, out, have);
			have = 0;
		}
		if (err)
			break;
		if (size > RUN_BUFFER) {
			err = write_all(s, (const char *)s->index[i], size);
		} else {
			memcpy(out + have, s->index[i], size);
			have += size;
		}
	}
	err = err ? err : write_all(s, out, have);
	run.end = s->file_end;
	if (!err)
		err = SONDE_GROW(s->runs, s->n_runs, s->cap_runs);
	if (err)
		return err;
	s->runs[s->n_runs++] = run;
	s->used = s->n = 0;
	return 0;
}

static int reserve(struct sonde_sorter *s, size_t more)
{
	size_t cap = s->cap ? s->cap : 64u << 10;
	char *p;

	while (cap < s->used + more)
		cap *= 2;
	if (cap == s->cap)
		return 0;
	p = realloc(s->block, cap);
	if (!p)
		return -ENOMEM;
	s->block = p;
	s->cap = cap;
	return 0;
}

int sonde_sorter_add(struct sonde_sorter *s, const struct sonde_sort_key *key, const void *data,
		     size_t len)
{
	struct record r = {.key = *key, .serial = s->serial, .len = len};
	/* The index of pointers counts as memory too. */
	size_t size = record_size(&r), index = (s->n + 1) * sizeof(*s->index);
	int err = 0;

	if (s->n && s->used + size + index > s->memory)
		err = spill(s);
	if (!err)
		err = reserve(s, size);
	if (err)
		return err;
	memcpy(s->block + s->used, &r, sizeof(r));
	if (len)
		memcpy(s->block + s->used + sizeof(r), data, len);
	memset(s->block + s->used + sizeof(r) + len, 0, size - sizeof(r) - len);
	s->used += size;
	s->n++;
	s->serial++;
	return 0;
}

/* At least @need bytes from pos on in the buffer. */
static int fill(struct sonde_sorter *s, struct run *r, size_t need)
{
	if (r->have - r->pos >= need)
		return 0;
	if (need > r->cap) {
		size_t cap = need > RUN_BUFFER ? need : RUN_BUFFER;
		char *p = malloc(cap);

		if (!p)
			return -ENOMEM;
		if (r->buf)
			memcpy(p, r->buf + r->pos, r->have - r->pos);
		free(r->buf);
		r->buf = p;
		r->cap = cap;
	} else {
		memmove(r->buf, r->buf + r->pos, r->have - r->pos);
	}
	r->have -= r->pos;
	r->pos = 0;
	while (r->have < need) {
		size_t want = r->cap - r->have, left = (size_t)(r->end - r->at);
		ssize_t n = pread(s->fd, r->buf + r->have, want < left ? want : left, r->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return file_error(n ? errno : EIO);
		r->have += (size_t)n;
		r->at += n;
	}
	return 0;
}

/* The run's next record becomes its head. */
static int step(struct sonde_sorter *s, struct run *r)
{
	const struct record *head;
	int err;

	if (r->head)
		r->pos += record_size(r->head);
	r->head = NULL;
	if (r->pos == r->have && r->at == r->end)
		return 0;
	err = fill(s, r, sizeof(*head));
	if (err)
		return err;
	head = (const struct record *)(r->buf + r->pos);
	err = fill(s, r, record_size(head));
	if (err)
		return err;
	r->head = (const struct record *)(r->buf + r->pos);
	return 0;
}

static bool heap_less(const struct sonde_sorter *s, size_t a, size_t b)
{
	return before(s->runs[s->heap[a]].head, s->runs[s->heap[b]].head) < 0;
}

static void sift_down(struct sonde_sorter *s, size_t i)
{
	for (;;) {
		size_t least = i, child = 2 * i + 1, other;

		for (size_t c = child; c < child + 2 && c < s->n_heap; c++)
			if (heap_less(s, c, least))
				least = c;
		if (least == i)
			return;
		other = s->heap[least];
		s->heap[least] = s->heap[i];
		s->heap[i] = other;
		i = least;
	}
}

static int begin_merge(struct sonde_sorter *s)
{
	int err = s->n ? spill(s) : 0;

	free(SONDE_TAKE(s->block));
	free(SONDE_TAKE(s->index));
	s->cap = 0;
	s->heap = err ? NULL : reallocarray(NULL, s->n_runs, sizeof(*s->heap));
	if (!s->heap)
		return err ? err : -ENOMEM;
	for (size_t i = 0; i < s->n_runs && !err; i++) {
		err = step(s, &s->runs[i]);
		if (!err && s->runs[i].head)
			s->heap[s->n_heap++] = i;
	}
	for (size_t i = s->n_heap; i-- > 0 && !err;)
		sift_down(s, i);
	return err;
}

static int begin_reading(struct sonde_sorter *s)
{
	s->reading = true;
	return s->n_runs ? begin_merge(s) : sort_block(s);
}

static int next_merged(struct sonde_sorter *s, const struct record **out)
{
	struct run *r;
	int err;

	if (s->advance) {
		r = &s->runs[s->heap[0]];
		err = step(s, r);
		if (err)
			return err;
		if (!r->head)
			s->heap[0] = s->heap[--s->n_heap];
		sift_down(s, 0);
	}
	s->advance = s->n_heap > 0;
	*out = s->n_heap ? s->runs[s->heap[0]].head : NULL;
	return 0;
}

int sonde_sorter_next(struct sonde_sorter *s, struct sonde_sort_record *out)
{
	const struct record *r = NULL;
	int err = s->reading ? 0 : begin_reading(s);

	if (!err && s->n_runs)
		err = next_merged(s, &r);
	else if (!err && s->at < s->n)
		r = s->index[s->at++];
	if (err)
		return err;
	if (!r)
		return 0;
	*out = (struct sonde_sort_record){r->key, r + 1, r->len};
	return 1;
}

size_t sonde_sorter_runs(const struct sonde_sorter *s)
{
	return s->n_runs;
}
