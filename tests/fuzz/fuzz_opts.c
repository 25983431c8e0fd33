// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Command lines made by mutating good ones: parsing must end, and what it accepts must lie within
 * the bounds of the option's row.  fuzz_opts [ITERATIONS] [SEED]
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/opts.h"
#include "core/log.h"
#include "core/mem.h"

#define MAX_WORDS 12
#define WORD_SIZE 48

static const char *const seeds[] = {
	"-p",
	"812",
	"1,22,333",
	"--pid=1",
	"-n",
	"searchd",
	"--unit=x.service",
	"--children",
	"--tid",
	"4194304",
	"--comm",
	"worker",
	"-a",
	"-d",
	"30s",
	"-d0",
	"--interval=250ms",
	"--lens",
	"rss,query",
	"--lens=alloc",
	"--alloc-mode",
	"exact",
	"--budget",
	"1,0.5",
	"--yes",
	"--harm-limit=2.5",
	"--ring-size",
	"64K",
	"--slower-than=1.5ms",
	"--spans",
	"slowest=1000/h",
	"--spans=none",
	"--max-size=1G",
	"--slowest=10",
	"--since",
	"-1h",
	"-vv",
	"-q",
	"-h",
	"--",
	"-",
	"",
	"--=",
	"-=",
	"--json=1",
	"18446744073709551616",
	"0x10",
	"1e400",
	"nan",
	"--duration=1e19d",
	"-dp",
};

static uint64_t rng = 1;

static uint64_t next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static void mutate(char *word)
{
	size_t len = strlen(word);

	for (uint64_t n = next() % 3; n; n--) {
		size_t at = len ? next() % (len + 1) : 0;

		if (next() % 2 && len) {
			at = at == len ? at - 1 : at;
			word[at] = (char)(1 + next() % 255);
		} else if (len + 2 < WORD_SIZE) {
			memmove(word + at + 1, word + at, len - at + 1);
			word[at] = "-=,/.0123456789abdhpmsx"[next() % 23];
			len++;
		}
	}
}

/* What was accepted is within the bounds that its row promises. */
static void check(const struct sonde_args *a, uint64_t seen)
{
	for (size_t i = 0; i < sonde_options.n; i++) {
		const struct sonde_opt *o = &sonde_options.rows[i];
		const char *member = (const char *)a + o->offset;
		uint64_t v = 0;
		bool number = o->type == SONDE_OPT_NUMBER || o->type == SONDE_OPT_BYTES ||
			      o->type == SONDE_OPT_DURATION;

		if (!(seen & SONDE_OPT_BIT(i)) || !number)
			continue;
		memcpy(&v, member, o->size);
		assert(v >= o->min && (!o->max || v <= o->max));
	}
	assert(!(seen & SONDE_O(HARM_LIMIT)) || (a->harm_limit >= 1 && a->harm_limit <= 1000));
	assert(!(seen & SONDE_O(PID)) || a->pids.n > 0);
	for (size_t i = 0; i < a->pids.n; i++)
		assert(a->pids.pid[i] > 0);
	assert(!(seen & SONDE_O(LENS)) || (a->lens_mask && !(a->lens_mask >> SONDE_LENS__MAX)));
}

static void one(void)
{
	char words[MAX_WORDS][WORD_SIZE];
	const char *argv[MAX_WORDS + 1] = {0};
	struct sonde_opt_result r;
	struct sonde_args args = {0};
	int argc = (int)(next() % (MAX_WORDS + 1)), err;

	for (int i = 0; i < argc; i++) {
		snprintf(words[i], WORD_SIZE, "%s", seeds[next() % SONDE_ARRAY_SIZE(seeds)]);
		mutate(words[i]);
		argv[i] = words[i];
	}
	err = sonde_opts_init(&sonde_options, &args);
	assert(!err);
	err = sonde_opts_parse(&sonde_options, UINT64_MAX, true, argc, argv, &args, &r);
	assert(err == 0 || err == -EINVAL);
	assert(r.n_words <= (size_t)argc && r.n_before_dashes <= r.n_words && !r.words[r.n_words]);
	check(&args, r.seen);
	args.parsed = r;
	sonde_args_fini(&args);
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;

	if (argc > 2)
		rng = strtoull(argv[2], NULL, 10) | 1;
	sonde_log_set_level(SONDE_LOG_NONE);
	while (n--)
		one();
	return 0;
}
