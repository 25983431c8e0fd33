// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Damages a recording at random (bytes, runs, cuts, swapped pages, and its log) and reads what is
 * left: the reader must answer 0 or an error, and never crash, hang or hand on what is out of
 * range. fuzz_recording [ITERATIONS [SEED]]
 */
#include <errno.h>

#include "core/file.h"
#include "unit/record/fixture.h"

static uint64_t rng_state;

/* xorshift64 (Marsaglia 2003): repeatable, that is all it need be. */
static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void put(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		abort();
}

static void flip_bytes(char *b, size_t n)
{
	for (uint64_t k = rng() % 16 + 1; k; k--)
		b[rng() % n] = (char)rng();
}

static void flip_bits(char *b, size_t n)
{
	for (uint64_t k = rng() % 64 + 1; k; k--)
		b[rng() % n] ^= (char)(1 << rng() % 8);
}

static void fill_run(char *b, size_t n)
{
	size_t at = rng() % n, len = rng() % 512;

	memset(b + at, (int)(rng() % 2 ? rng() : 0), len < n - at ? len : n - at);
}

static void swap_pages(char *b, size_t n)
{
	char page[4096];
	size_t pages = n / 4096, x, y;

	if (pages < 2)
		return;
	x = rng() % pages * 4096;
	y = rng() % pages * 4096;
	memcpy(page, b + x, 4096);
	memcpy(b + x, b + y, 4096);
	memcpy(b + y, page, 4096);
}

/* Page headers and cell pointers, where damage goes deepest. */
static void hit_page_heads(char *b, size_t n)
{
	for (uint64_t k = rng() % 8 + 1; k; k--) {
		size_t at = rng() % (n / 4096 + 1) * 4096 + rng() % 40;

		if (at >= 100 && at < n)
			b[at] = (char)rng();
	}
}

static void (*const mutations[])(char *b, size_t n) = {flip_bytes, flip_bits, fill_run, swap_pages,
						       hit_page_heads};

static int check_span(void *ctx, const struct sonde_span *s)
{
	uint64_t *seen = ctx;

	*seen += strlen(s->client) + strlen(s->command) + strlen(s->fingerprint) + strlen(s->index);
	return 0;
}

static int check_metric(void *ctx, const struct sonde_metric *m)
{
	uint64_t *seen = ctx;

	*seen += strlen(m->desc->name) + strlen(m->label) + (m->absent ? strlen(m->absent) : 0);
	return 0;
}

static int check_hist(void *ctx, const struct sonde_histrow *h)
{
	uint64_t *seen = ctx;

	*seen += sonde_hist_quantile(h->hist, 0.99);
	return 0;
}

static int check_drop(void *ctx, const struct sonde_drops *d)
{
	(void)ctx;
	if ((unsigned)d->lens >= SONDE_LENS__MAX || (unsigned)d->cause >= SONDE_DROP__MAX)
		abort();
	return 0;
}

/* 1 if it was read to its end. */
static int read_it(const char *path)
{
	struct sonde_reader_filter slowest = {.slowest = 3, .since_ns = FIX_REAL};
	uint64_t seen = 0;
	const struct sonde_visitor v = {.ctx = &seen,
					.span = check_span,
					.metric = check_metric,
					.hist = check_hist,
					.drop = check_drop};
	struct sonde_reader *r = NULL;
	int err = sonde_reader_open(&r, path);

	if (!err)
		err = sonde_reader_visit(r, NULL, &v);
	if (r)
		sonde_reader_visit(r, &slowest, &v);
	sonde_reader_free(&r);
	return !err;
}

struct seed {
	char *bytes;
	size_t n;
};

static void load(struct seed *s, const char *path)
{
	if (sonde_read_file(path, &s->bytes, &s->n))
		abort();
}

/* A finished recording, and one that was cut while its log was in use. */
static void make_seeds(struct seed *whole, struct seed *main_file, struct seed *wal)
{
	static const struct sonde_writer_opts opts;
	struct sonde_writer *w = NULL;
	const char *path = fix_path("seed");
	char log[300];

	if (fix_record(path, NULL, 20, true))
		abort();
	load(whole, path);
	fix_remove(path);
	if (sonde_writer_open(&w, path, &opts) || fix_push(sonde_writer_visitor(w), 5, false))
		abort();
	load(main_file, path);
	snprintf(log, sizeof(log), "%s-wal", path);
	load(wal, log);
	sonde_writer_close(&w);
	fix_remove(path);
}

static struct seed mutated(const struct seed *s)
{
	struct seed m = {malloc(s->n), s->n};

	if (!m.bytes)
		abort();
	memcpy(m.bytes, s->bytes, s->n);
	for (uint64_t k = rng() % 3 + 1; k; k--)
		mutations[rng() % SONDE_ARRAY_SIZE(mutations)](m.bytes, m.n);
	if (rng() % 8 == 0)
		m.n = rng() % m.n;
	return m;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 2000, read_whole = 0;
	struct seed whole, main_file, wal;
	const char *path;
	char log[300];

	rng_state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 88172645463325252ull;
	make_seeds(&whole, &main_file, &wal);
	/* Thousands of sentences, all alike; a sanitizer has its own way to stderr. */
	if (!getenv("FUZZ_VERBOSE"))
		stderr = fopen("/dev/null", "w");
	path = fix_path("fuzz");
	snprintf(log, sizeof(log), "%s-wal", path);
	for (long i = 0; i < n; i++) {
		bool cut = rng() % 3 == 0;
		struct seed m = mutated(cut ? &wal : &whole);

		fix_remove(path);
		put(path, cut ? main_file.bytes : m.bytes, cut ? main_file.n : m.n);
		if (cut)
			put(log, m.bytes, m.n);
		read_whole += read_it(path);
		free(m.bytes);
	}
	fix_remove(path);
	printf("%ld damaged recordings: %ld read to their end, %ld refused\n", n, read_whole,
	       n - read_whole);
	free(whole.bytes);
	free(main_file.bytes);
	free(wal.bytes);
	return 0;
}
