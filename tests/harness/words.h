/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words that the corpus is made of and that queries ask for: a word list in a fixed random
 * order, drawn by rank from a Zipf-Mandelbrot distribution. Invariant: the same list, count and
 * seed give the same words on every machine, so that a corpus and a load fit each other without
 * being kept together.
 */
#ifndef HARNESS_WORDS_H
#define HARNESS_WORDS_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_DEFAULT_FILE  "/usr/share/dict/american-english"
#define WORDS_DEFAULT_COUNT 40000
/* Rank r is drawn with weight 1 / (r + shift): the shift keeps the commonest word below 3 %. */
#define WORDS_SHIFT	 2.7
#define WORDS_ORDER_SEED 0x736f6e6465ull

struct rng {
	uint64_t state;
};

/* splitmix64: one multiply-xor chain a number, any seed is a good seed. */
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A whole number in 0..n-1. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

static inline double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) / 9007199254740992.0;
}

struct words {
	char **word;
	size_t n, cap;
	double *cum; /* cum[i]: probability of rank <= i */
};

/* Only plain lower-case words of 3..12 letters: the same token for every tokenizer. */
static inline int words_plain(const char *s, size_t len)
{
	if (len < 3 || len > 12)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (s[i] < 'a' || s[i] > 'z')
			return 0;
	return 1;
}

static inline int words_read(struct words *w, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		size_t len = strcspn(line, "\r\n");

		line[len] = '\0';
		if (!words_plain(line, len))
			continue;
		if (w->n == w->cap) {
			w->cap = w->cap ? w->cap * 2 : 4096;
			w->word = realloc(w->word, w->cap * sizeof(*w->word));
			if (!w->word)
				abort();
		}
		w->word[w->n] = strdup(line);
		if (!w->word[w->n++])
			abort();
	}
	fclose(f);
	return 0;
}

/* Load at most @count words from @path. 0 or -errno; -ENODATA when the file has fewer than 1000. */
static inline int words_load(struct words *w, const char *path, size_t count)
{
	struct rng order = {WORDS_ORDER_SEED};
	double sum = 0;
	int err;

	memset(w, 0, sizeof(*w));
	err = words_read(w, path);
	if (err)
		return err;
	if (w->n < 1000)
		return -ENODATA;
	for (size_t i = w->n - 1; i > 0; i--) {
		size_t j = rng_below(&order, (uint32_t)i + 1);
		char *t = w->word[i];

		w->word[i] = w->word[j];
		w->word[j] = t;
	}
	if (w->n > count)
		w->n = count;
	w->cum = malloc(w->n * sizeof(*w->cum));
	if (!w->cum)
		abort();
	for (size_t i = 0; i < w->n; i++)
		w->cum[i] = sum += 1.0 / ((double)i + 1 + WORDS_SHIFT);
	for (size_t i = 0; i < w->n; i++)
		w->cum[i] /= sum;
	return 0;
}

/* The word of a rank drawn by the distribution, from the ranks >= @skip. */
static inline const char *words_draw(const struct words *w, struct rng *r, size_t skip)
{
	double low = skip ? w->cum[skip - 1] : 0;
	double u = low + rng_unit(r) * (1 - low);
	size_t lo = skip, hi = w->n - 1;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->cum[mid] < u)
			lo = mid + 1;
		else
			hi = mid;
	}
	return w->word[lo];
}

#endif
