// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads the counters of a jemwork's threads (tests/harness/jemwork.c) as the alloc lens does and
 * compares each reading with what jemwork says of itself. Prints one line and exits 1 when a
 * reading is wrong:
 *
 *     tlscheck rest READINGS JEMWORK THREADS   at rest between random steps: to the byte
 *     tlscheck load READINGS JEMWORK THREADS   while threads run: between what they said just
 * before and just after; the width of that is the resolution tlscheck come READINGS JEMWORK THREADS
 * 50 threads come and go before each reading tlscheck wrong READINGS JEMWORK THREADS  every derived
 * number one word off must be refused by the scratch process
 *
 * JEMWORK's environment is this program's: LD_PRELOAD applies to it only by TLSCHECK_PRELOAD.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "attach/engine.h"
#include "core/clock.h"
#include "core/mem.h"
#include "lens/alloc_threads.h"
#include "target/heap/confirm.h"
#include "target/heap/heap.h"

#define SLOTS 128

extern const struct sonde_lens sonde_lens_alloc;

static struct {
	pid_t pid;
	FILE *to, *from;
	volatile uint64_t (*slots)[2];
	char file[64];
} work;

static struct {
	struct sonde_hook_list hooks;
	struct sonde_plan plan;
	struct sonde_engine *engine;
	struct bpf_object *obj;
	struct sonde_alloc_threads *threads;
	struct sonde_heap *heap;
} own;

static int by_arenas; /* readings of jemalloc's own statistics */

struct truth {
	uint64_t allocated, freed, live, stats;
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (work.pid > 0)
		kill(work.pid, SIGKILL);
	exit(1);
}

static struct truth get_truth(const char *command)
{
	struct truth t;
	char line[256];

	if (command) {
		fputs(command, work.to);
		fflush(work.to);
	}
	if (!fgets(line, sizeof(line), work.from) ||
	    sscanf(line, "truth %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &t.allocated,
		   &t.freed, &t.live, &t.stats) != 4)
		die("jemwork says nothing after %s", command ? command : "its start");
	return t;
}

static void start_work(char *program, char *threads)
{
	const char *preload = getenv("TLSCHECK_PRELOAD");
	int in[2], out[2], fd;

	snprintf(work.file, sizeof(work.file), "/tmp/tlscheck-%d", getpid());
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		die("no pipe");
	work.pid = fork();
	if (!work.pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		execl(program, program, threads, work.file, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	work.to = fdopen(in[1], "w");
	work.from = fdopen(out[0], "r");
	get_truth(NULL);
	fd = open(work.file, O_RDONLY | O_CLOEXEC);
	work.slots = mmap(NULL, SLOTS * sizeof(*work.slots), PROT_READ, MAP_SHARED, fd, 0);
	unlink(work.file);
	if (work.slots == MAP_FAILED)
		die("no slots");
}

static void attach(void)
{
	const struct sonde_lens_opts opts = {.alloc_counters = true};
	const struct sonde_lens_ctx ctx = {.lens = &sonde_lens_alloc, .opts = &opts};
	struct sonde_features features;
	struct sonde_plan_choice choice = {0};
	struct sonde_config config = {0};
	struct sonde_tls_place place;
	char why[256] = "";
	int64_t at[2];
	size_t size;
	const void *elf = sonde_lens_elf(&ctx, &size);

	sonde_features_probe(&features);
	if (sonde_alloc_threads_hooks(&own.hooks) ||
	    sonde_plan_make(&own.hooks, &features, &choice, &own.plan) ||
	    sonde_engine_new(&own.engine, &config, 0) ||
	    sonde_engine_open(own.engine, SONDE_LENS_ALLOC, "alloc", elf, size, &own.obj) ||
	    sonde_engine_load(own.engine, &own.plan, -1) ||
	    sonde_engine_attach(own.engine, &own.plan, -1, 0, 0, NULL))
		die("cannot attach");
	if (sonde_alloc_threads_new(&own.threads, own.obj, why, sizeof(why)))
		die("%s", why);
	if (sonde_alloc_threads_test(own.threads))
		die("the test on ourselves failed");
	if (sonde_heap_open(&own.heap, work.pid, why, sizeof(why)))
		die("%s", why);
	if (!sonde_heap_places(own.heap, at))
		die("no counters in threads");
	place = (struct sonde_tls_place){at[0], at[1]};
	if (sonde_alloc_threads_add(own.threads, work.pid, &place))
		die("cannot add");
}

static struct sonde_tls_sum reading(void)
{
	struct sonde_tls_sum sum;

	if (sonde_alloc_threads_read(own.threads, work.pid, &sum))
		die("no reading");
	return sum;
}

static void equal(const char *what, uint64_t ours, uint64_t theirs, int at)
{
	if (ours != theirs)
		die("reading %d: %s is %" PRIu64 " by its own account and %" PRIu64 " from outside",
		    at, what, theirs, ours);
}

/* stats.allocated as it is read from outside, where the library showed how; else what jemwork says.
 */
static uint64_t stats(const struct truth *t)
{
	const struct sonde_heap_budget budget = {.no_threads = true};
	struct sonde_heap_reading r;
	char why[256];

	if (sonde_heap_read(own.heap, &budget, &r, why, sizeof(why)))
		die("%s", why);
	if (!(r.present & 1u << SONDE_HEAP_LIVE))
		return t->stats;
	by_arenas++;
	return r.bytes[SONDE_HEAP_LIVE];
}

static void at_rest(int n, const char *command)
{
	double worst = 0, sum = 0;
	struct sonde_tls_sum s = {0};

	for (int i = 0; i < n; i++) {
		struct truth t = get_truth(command);
		double off;

		s = reading();
		equal("allocated", s.bytes.allocated, t.allocated, i);
		equal("freed", s.bytes.freed, t.freed, i);
		equal("live", s.bytes.allocated - s.bytes.freed, t.live, i);
		equal("stats.allocated", stats(&t), t.stats, i);
		off = fabs((double)t.stats - (double)t.live) / (double)t.stats;
		worst = off > worst ? off : worst;
		sum += off;
	}
	if (s.lost || s.flags & SONDE_TLS_F_EARLIER)
		die("%" PRIu64 " threads ended unread, flags %#x", s.lost, s.flags);
	printf("%d readings equal to the byte (%d of stats.allocated as well); %u threads, %" PRIu64
	       " ended; thread caches and own use, which stats.allocated includes: mean %.3f %%, "
	       "at "
	       "most %.3f %%\n",
	       n, by_arenas, s.threads, s.ended, 100 * sum / n, 100 * worst);
}

/* What all threads have said, in one go: again if this program was held up meanwhile. */
static void said(uint64_t sum[2])
{
	uint64_t began;

	do {
		began = sonde_mono_ns();
		sum[0] = sum[1] = 0;
		for (int k = 0; k < SLOTS; k++)
			for (int j = 0; j < 2; j++)
				sum[j] += work.slots[k][j];
	} while (sonde_mono_ns() - began > 5000);
}

/*
 * By how much the live bytes of a reading are off what the threads said before or after it,
 * whichever is nearer: this program may have been held up on either side, and the threads went on.
 */
static double off(const struct sonde_tls_sum *s, const uint64_t before[2], const uint64_t after[2])
{
	double live = (double)(s->bytes.allocated - s->bytes.freed);
	double first = (double)(before[0] - before[1]), last = (double)(after[0] - after[1]);

	return fmin(fabs(live - first) / first, fabs(live - last) / last);
}

static void under_load(int n)
{
	/* A thread may be one operation ahead of what it has said. */
	const uint64_t ahead = SLOTS * 300000ull;
	double worst = 0, sum = 0, skew = 0;
	int again = 0, held = 0;
	uint64_t outside = 0;

	for (int i = 0; i < 600; i++)
		get_truth("step\n"); /* until about as much is freed as is allocated */
	fputs("run\n", work.to);
	fflush(work.to);
	for (int i = 0; i < n; i++) {
		uint64_t before[2], after[2], began;
		struct sonde_tls_sum s;
		double d;

		/* Where this program was held up too long, the truth is not known to 1 %: once
		 * more. */
		do {
			said(before);
			began = sonde_mono_ns();
			s = reading();
			said(after);
		} while (sonde_mono_ns() - began > 1000000 && ++again < 20 * n);
		outside += s.bytes.allocated < before[0] || s.bytes.freed < before[1] ||
			   s.bytes.allocated > after[0] + ahead || s.bytes.freed > after[1] + ahead;
		d = off(&s, before, after);
		if (!sonde_alloc_threads_in_one_go(&s)) {
			held++; /* sonde says so as well */
			continue;
		}
		worst = d > worst ? d : worst;
		sum += d;
		skew += (double)s.skew_ns / n;
	}
	get_truth("stop\n");
	if (outside)
		die("%" PRIu64 " readings lie outside what the threads said before and after",
		    outside);
	printf("%d readings under load, each between what was said before and after it; live bytes "
	       "off by %.3f %% in the mean, at most %.3f %%; first to last thread %.0f us; %d made "
	       "again, %d held up\n",
	       n, 100 * sum / n, 100 * worst, skew / 1000, again, held);
	if (held > n / 20)
		die("too many were held up");
	if (worst > 0.01)
		die("more than 1 %%");
}

static void refuse_wrong(void)
{
	struct sonde_heap_layout right = *sonde_heap_layout(own.heap);
	struct sonde_modules mods = {0};
	unsigned refused = 0, tried = 0;
	char why[256];
	size_t m;

	if (sonde_modules_read(work.pid, &mods))
		die("no modules");
	for (m = 0; m < mods.n && !strstr(basename(mods.m[m].path), "jemalloc"); m++)
		;
	if (m == mods.n)
		die("no jemalloc among its modules");
	if (sonde_heap_confirm(&right, work.pid, &mods, m, why, sizeof(why)))
		die("the right layout is refused: %s", why);
	for (size_t i = 0; i < right.reader->n_slots; i++)
		for (int step = -1; step <= 1; step += 2) {
			struct sonde_heap_layout wrong = right;

			if (!right.reader->slots[i].step)
				continue;
			wrong.v[i] += step * right.reader->slots[i].step;
			tried++;
			if (sonde_heap_confirm(&wrong, work.pid, &mods, m, why, sizeof(why)))
				refused++;
			else
				printf("%s %+d words was believed\n", right.reader->slots[i].name,
				       step);
		}
	sonde_modules_fini(&mods);
	if (refused != tried)
		die("%u of %u wrong layouts were refused", refused, tried);
	printf("%u of %u wrong layouts were refused\n", refused, tried);
}

int main(int argc, char **argv)
{
	int n = argc == 5 ? atoi(argv[2]) : 0;

	if (n < 1)
		die("usage: tlscheck rest|load|come|wrong READINGS JEMWORK THREADS");
	start_work(argv[3], argv[4]);
	attach();
	if (!strcmp(argv[1], "rest"))
		at_rest(n, "step\n");
	else if (!strcmp(argv[1], "come"))
		at_rest(n, "come 50\n");
	else if (!strcmp(argv[1], "load"))
		under_load(n);
	else
		refuse_wrong();
	fputs("quit\n", work.to);
	fflush(work.to);
	waitpid(work.pid, NULL, 0);
	sonde_alloc_threads_free(&own.threads);
	sonde_heap_close(&own.heap);
	sonde_engine_free(&own.engine);
	sonde_plan_fini(&own.plan);
	sonde_hook_list_fini(&own.hooks);
	return 0;
}
