// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Write a corpus of documents as tab-separated lines, the form that indexer's tsvpipe source reads:
 * id, title, body, gid (0..999), price (float), day (timestamp). The words of a document follow a
 * Zipf distribution, as text does. Invariant: the same arguments give the same bytes.
 */
#include <getopt.h>
#include <stdbool.h>

#include "harness/words.h"

#define CORPUS_EPOCH 1700000000u

struct corpus {
	uint64_t docs;
	uint64_t seed;
	uint64_t count;
	const char *file;
};

static void put_words(const struct words *w, struct rng *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (i)
			putchar_unlocked(' ');
		fputs_unlocked(words_draw(w, r, 0), stdout);
	}
}

static void put_doc(const struct words *w, struct rng *r, uint64_t id)
{
	printf("%llu\t", (unsigned long long)id);
	put_words(w, r, 2 + rng_below(r, 5));
	putchar_unlocked('\t');
	put_words(w, r, 15 + rng_below(r, 26));
	printf("\t%u\t%u.%02u\t%u\n", rng_below(r, 1000), rng_below(r, 5000), rng_below(r, 100),
	       CORPUS_EPOCH + rng_below(r, 365) * 86400u);
}

static bool number(const char *s, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	return !errno && end != s && !*end && *s != '-';
}

static int usage(void)
{
	fprintf(stderr, "usage: mkcorpus [--docs N] [--seed N] [--words FILE] [--vocabulary N]\n");
	return 2;
}

static int parse(struct corpus *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"docs", required_argument, NULL, 'd'},
		{"seed", required_argument, NULL, 's'},
		{"words", required_argument, NULL, 'w'},
		{"vocabulary", required_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	bool good = true;
	int o;

	while (good && (o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'd')
			good = number(optarg, &c->docs);
		else if (o == 's')
			good = number(optarg, &c->seed);
		else if (o == 'v')
			good = number(optarg, &c->count);
		else if (o == 'w')
			c->file = optarg;
		else
			good = false;
	}
	return good && optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct corpus c = {200000, 1, WORDS_DEFAULT_COUNT, WORDS_DEFAULT_FILE};
	struct words w;
	struct rng r;
	int err;

	if (parse(&c, argc, argv))
		return usage();
	err = words_load(&w, c.file, c.count);
	if (err) {
		fprintf(stderr, "mkcorpus: cannot use %s: %s; install wamerican\n", c.file,
			strerror(-err));
		return 1;
	}
	r.state = c.seed;
	for (uint64_t id = 1; id <= c.docs; id++)
		put_doc(&w, &r, id);
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
