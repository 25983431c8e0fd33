// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The diagnosis of known cases, with figures as they were reported: github.com issues of jemalloc,
 * Go, ClickHouse, Manticore and others, named at each case. The right answer is what the thread
 * found.
 */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "judge/diagnose.h"

#define MB  1e6
#define GB  1e9
#define KIB 1024.0
#define MIB 1048576.0
#define H   3600.0

static struct sonde_memory_figures base(double rss, double anon)
{
	struct sonde_memory_figures f;

	sonde_memory_figures_init(&f);
	f.rss = rss;
	f.anon = f.allocator = anon;
	f.file = rss - anon;
	f.shmem = 0;
	f.lazyfree = f.anon_huge = 0;
	f.rss_first = rss;
	f.anon_first = anon;
	f.target = "-p 812";
	return f;
}

static const struct sonde_finding *find(const struct sonde_diagnosis *d, enum sonde_cause cause)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->f[i].cause == cause)
			return &d->f[i];
	return NULL;
}

static void says(const struct sonde_memory_figures *f, enum sonde_cause cause,
		 enum sonde_finding_answer answer, const char *words)
{
	const struct sonde_finding *found;
	struct sonde_diagnosis d;

	sonde_diagnose(f, &d);
	for (size_t i = 0; i < d.n; i++)
		assert_null(strstr(d.f[i].text, "nan"));
	found = find(&d, cause);
	if (!found)
		fail_msg("nothing is said of %s", sonde_cause_name(cause));
	if (found->answer != answer || !strstr(found->text, words))
		fail_msg("%s: %s, '%s' (wanted %s, '%s')", sonde_cause_name(cause),
			 sonde_finding_answer_name(found->answer), found->text,
			 sonde_finding_answer_name(answer), words);
}

static void says_nothing_of(const struct sonde_memory_figures *f, enum sonde_cause cause)
{
	struct sonde_diagnosis d;

	sonde_diagnose(f, &d);
	assert_null(find(&d, cause));
}

static void live(struct sonde_memory_figures *f, double first, double now, double max)
{
	f->live_first = first;
	f->live = now;
	f->live_max = max;
}

/* The sample of the docs: a search daemon whose index is most of it, 30 s observed. */
static void test_index_dominates(void **state)
{
	struct sonde_memory_figures f = base(60 * GB, 28.8 * GB);
	struct sonde_diagnosis d;

	(void)state;
	f.search_daemon = true;
	f.shmem = 21.4 * GB;
	f.file = 9.8 * GB;
	f.allocator = 28.2 * GB;
	f.lazyfree = 1.2 * GB;
	live(&f, 17.9 * GB, 17.9 * GB, 17.9 * GB);
	f.heap = 27 * GB;
	f.observed_s = 30;
	f.file_parts = "(.spd 6.1 GiB)";
	says(&f, SONDE_CAUSE_INDEX, SONDE_FOUND_YES, "52 % of RSS");
	says(&f, SONDE_CAUSE_INDEX, SONDE_FOUND_YES, "(.spd 6.1 GiB)");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most 8.48 GiB (15 %)");
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "cannot tell from 30 s");
	/* Programs and libraries are no index. */
	f.file_data = 9.2 * GB;
	says(&f, SONDE_CAUSE_INDEX, SONDE_FOUND_YES, "51 % of RSS");
	f.file_data = 0;
	says(&f, SONDE_CAUSE_INDEX, SONDE_FOUND_NO, "36 % of RSS");
	sonde_diagnose(&f, &d);
	assert_string_equal(d.f[0].question, "Index?");
	assert_string_equal(find(&d, SONDE_CAUSE_LEAK)->next, "sonde record -p 812 -d 6h");
	says_nothing_of(&f, SONDE_CAUSE_LAZYFREE);
	says_nothing_of(&f, SONDE_CAUSE_OUTSIDE);
}

/* Without counters nothing is known of what is in use, and that is what is said. */
static void test_no_counters(void **state)
{
	struct sonde_memory_figures f = base(10 * GB, 9 * GB);

	(void)state;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "cannot be told");
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "one reading");
	f.anon_first = 8 * GB;
	f.observed_s = 6 * H;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "no allocator counters");
	f.anon_first = 8.9 * GB;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "no sign in 6.0 h");
	f.anon_first = NAN;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "cannot tell");
}

/* manticoresearch#767: 8.2 GB anonymous in searchd, a docstore cache that was never emptied. */
static void test_real_leak(void **state)
{
	struct sonde_memory_figures f = base(8.4 * GB, 8.2 * GB);

	(void)state;
	f.rss_first = f.anon_first = 2 * GB;
	live(&f, 1.7 * GB, 7.8 * GB, 7.8 * GB);
	f.heap = 8 * GB;
	f.observed_s = 24 * H;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_YES, "live memory grew with RSS");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most");
	f.observed_s = 60; /* too early to say */
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "cannot tell");
}

/* ergo-node-rust v0.4.2: RSS 6.8 GB and +300 MB/h, allocated flat at 1.6 GB, 5.95 of 7.24 GB huge.
 */
static void test_huge_not_leak(void **state)
{
	struct sonde_memory_figures f = base(7.3 * GB, 7.24 * GB);

	(void)state;
	f.rss_first = 5.5 * GB;
	f.anon_first = 5.44 * GB;
	f.anon_huge = 5.95 * GB;
	live(&f, 1.6 * GB, 1.61 * GB, 1.65 * GB);
	f.observed_s = 6 * H;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "no: live memory");
	says(&f, SONDE_CAUSE_HUGE, SONDE_FOUND_YES, "huge pages over free memory");
	says(&f, SONDE_CAUSE_BLOAT, SONDE_FOUND_CANNOT_TELL, "it was not observed");
}

/* DigitalOcean's Redis, jemalloc#46 (retain on OpenShift): khugepaged refills what was purged. */
static void test_khugepaged(void **state)
{
	struct sonde_memory_figures f = base(4 * GB, 3.9 * GB);

	(void)state;
	f.rss_first = 2 * GB;
	f.anon_first = 1.9 * GB;
	f.anon_huge = 3.6 * GB;
	f.bloat = 1.9 * GB;
	live(&f, 0.5 * GB, 0.5 * GB, 0.6 * GB);
	f.observed_s = 2 * H;
	says(&f, SONDE_CAUSE_BLOAT, SONDE_FOUND_YES, "that is what made it grow");
	says(&f, SONDE_CAUSE_BLOAT, SONDE_FOUND_YES, "earlier bloat cannot be split");
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "no: live memory");
	/* golang/go#64332: bloat alone is seen, no counters. */
	f.live = f.live_first = f.live_max = NAN;
	says(&f, SONDE_CAUSE_BLOAT, SONDE_FOUND_YES, "1.77 GiB (48 %)");
	f.bloat = 0;
	says_nothing_of(&f, SONDE_CAUSE_BLOAT);
}

/* jemalloc#1674, #524: many arenas under THP always, before anything was attached. */
static void test_huge_before_attach(void **state)
{
	struct sonde_memory_figures f = base(240 * MB, 230 * MB);

	(void)state;
	f.anon_huge = 210 * MB;
	says(&f, SONDE_CAUSE_BLOAT, SONDE_FOUND_CANNOT_TELL, "cannot tell, because");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "at most");
	live(&f, 14 * MB, 14 * MB, 14 * MB);
	f.bloat = 0;
	says(&f, SONDE_CAUSE_HUGE, SONDE_FOUND_YES, "bloat from before attach cannot be split");
}

/* ClickHouse#98473: anonymous memory of 2 GB far above what jemalloc allocated, most of it huge. */
static void test_sparse_slabs(void **state)
{
	struct sonde_memory_figures f = base(2.2 * GB, 2 * GB);

	(void)state;
	f.anon_huge = 1.7 * GB;
	live(&f, 0.35 * GB, 0.35 * GB, 0.4 * GB);
	says(&f, SONDE_CAUSE_HUGE, SONDE_FOUND_YES, "huge pages over free memory");
}

/* rag-rat#906: 745 MiB after a heavy pass, nothing open: arenas keep what was freed. */
static void test_retention(void **state)
{
	struct sonde_memory_figures f = base(745 * MB, 720 * MB);

	(void)state;
	live(&f, 60 * MB, 60 * MB, 60 * MB);
	says(&f, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES, "keeps freed memory");
	/* It was more while watched: that is said. */
	live(&f, 60 * MB, 400 * MB, 700 * MB);
	says(&f, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES, ", which was 668 MiB");
}

/* jemalloc#1127's shape without huge pages: RSS half above what is live, live at its highest. */
static void test_fragmentation(void **state)
{
	struct sonde_memory_figures f = base(3.2 * GB, 3.1 * GB);

	(void)state;
	live(&f, 2 * GB, 2.05 * GB, 2.1 * GB);
	says(&f, SONDE_CAUSE_FRAGMENTATION, SONDE_FOUND_YES, "fragmentation or caches");
}

/* golang/go#33376, #28466: RSS does not fall after a collection; MADV_FREE is counted until taken.
 */
static void test_lazyfree(void **state)
{
	struct sonde_memory_figures f = base(5 * GB, 4.9 * GB);

	(void)state;
	f.lazyfree = 3 * GB;
	live(&f, 1.7 * GB, 1.7 * GB, 1.7 * GB);
	f.heap = 4.9 * GB;
	f.heap_back = 3 * GB;
	says(&f, SONDE_CAUSE_LAZYFREE, SONDE_FOUND_YES, "without it RSS is 1.86 GiB");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most");
}

/* jemalloc#1950: partial purges split huge pages; RSS falls, the kernel holds on. */
static void test_outside(void **state)
{
	struct sonde_memory_figures f = base(1 * GB, 0.9 * GB);

	(void)state;
	f.held_own = 0.6 * GB;
	says(&f, SONDE_CAUSE_OUTSIDE, SONDE_FOUND_YES, "572 MiB more is held than RSS shows");
	f.held_own = 0;
	f.held_system = 0.6 * GB; /* somebody else's: its own is known to be none */
	says_nothing_of(&f, SONDE_CAUSE_OUTSIDE);
	f.held_own = NAN;
	says(&f, SONDE_CAUSE_OUTSIDE, SONDE_FOUND_AT_MOST, "system-wide");
	f.held_system = 10 * MB;
	says_nothing_of(&f, SONDE_CAUSE_OUTSIDE);
}

/* What the heap has free is what bounds it: live memory may never have been touched. */
static void test_live_untouched(void **state)
{
	struct sonde_memory_figures f = base(42 * MIB, 41 * MIB);

	(void)state;
	/* 40 MiB of blocks, 7 of 8 given back, and then 100 MiB that nobody touched. */
	live(&f, 105 * MIB, 105 * MIB, 105 * MIB);
	f.heap = 140 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "at most 35.0 MiB (83 %)");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "cannot be told");
	/* The untouched chunk is known to be a mapping of its own: */
	f.own = 40 * MIB;
	f.own_big = 0;
	f.heap_big = 100 * MIB;
	says(&f, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES,
	     "35.0 MiB (83 %) resident beyond the 5.00 MiB live, big chunks left out");
	/* All of it touched, and none free. */
	f.heap = 105 * MIB;
	f.own = 105 * MIB;
	f.own_big = 100 * MIB;
	f.rss = f.anon = f.allocator = 106 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most 0 B (0 %)");
	/* Arenas that are in use to a half, in which some live memory was not touched either. */
	f.heap = 300 * MIB;
	f.own = 185 * MIB;
	f.rss = f.anon = f.allocator = 186 * MIB;
	live(&f, 200 * MIB, 200 * MIB, 200 * MIB);
	f.heap_big = 150 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "at most 100 MiB (54 %)");
	/* Most of what was resident when the mappings were read has gone since. */
	f.allocator = 120 * MIB;
	live(&f, 190 * MIB, 190 * MIB, 190 * MIB);
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "at most 110 MiB");
	f.allocator = 186 * MIB;
	live(&f, 195 * MIB, 195 * MIB, 195 * MIB);
	says(&f, SONDE_CAUSE_FRAGMENTATION, SONDE_FOUND_YES,
	     "about 40.0 MiB (22 %) resident beyond the 45.0 MiB live");
}

/* The allocator has not what the program mapped itself. */
static void test_program_maps(void **state)
{
	struct sonde_memory_figures f = base(110 * MIB, 71 * MIB);

	(void)state;
	/* mariadbd: 44.4 MiB live of 45.8 MiB from the system; 25 MiB of its own mappings. */
	live(&f, 44.4 * MIB, 44.4 * MIB, 44.4 * MIB);
	f.heap = 45.8 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most 1.40 MiB (1 %)");
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO,
	     "; at least 25.2 MiB is mapped by the program itself");
	/* Some big chunks are in mappings that could not be told from the program's. */
	f.own = 14 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO,
	     "live; at least 25.2 MiB is mapped by the program itself");
	/* 32 MiB of its own in huge pages, all in use, beside a heap of 132 KiB. */
	f = base(34 * MIB, 32.5 * MIB);
	live(&f, 4.66 * KIB, 4.66 * KIB, 4.66 * KIB);
	f.anon_huge = 32 * MIB;
	f.heap = 132 * KIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most 127 KiB (0 %)");
	says_nothing_of(&f, SONDE_CAUSE_HUGE);
	/* A heap that keeps 40 of 50 MiB, under which 24 MiB of huge pages are at least, or 42. */
	f = base(90 * MIB, 88 * MIB);
	f.anon_huge = 62 * MIB;
	f.heap = f.own = 50 * MIB;
	f.heap_big = f.own_big = 0;
	live(&f, 10 * MIB, 10 * MIB, 10 * MIB);
	says(&f, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES, "40.0 MiB (44 %)");
	f.anon_huge = 80 * MIB;
	says(&f, SONDE_CAUSE_HUGE, SONDE_FOUND_YES, "40.0 MiB (44 %)");
	/* Live not known, as where the free lists were not walked to the end. */
	f.live = NAN;
	f.live_why = "its free memory was not walked";
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST,
	     "at most 50.0 MiB (56 %): what of it is in use cannot be told, its free memory");
}

/* An allocator that does not say what it has free: nothing bounds it from above. */
static void test_heap_unknown(void **state)
{
	struct sonde_memory_figures f = base(110 * MIB, 100 * MIB);

	(void)state;
	/* An idle redis: no more can be wasted than there is. */
	live(&f, 9 * MIB, 9 * MIB, 9 * MIB);
	f.allocator = 10 * MIB;
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, "at most 10.0 MiB (9 %)");
	f.allocator = 100 * MIB;
	live(&f, 95 * MIB, 95 * MIB, 95 * MIB);
	says(&f, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_CANNOT_TELL, "cannot tell");
	live(&f, 20 * MIB, 20 * MIB, 20 * MIB);
	says(&f, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES,
	     "80.0 MiB (73 %) resident beyond the 20.0 MiB live, if the program maps no memory");
}

/* The command to type next is one that can be typed. */
static void test_next(void **state)
{
	struct sonde_memory_figures f = base(10 * GB, 9 * GB);
	struct sonde_diagnosis d;

	(void)state;
	f.live_change = 0;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "cannot tell from one reading");
	sonde_diagnose(&f, &d);
	assert_null(strstr(find(&d, SONDE_CAUSE_LEAK)->text, "attach"));
	f.observed_s = 5;
	says(&f, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "from 5 s; live +0 B since attach");
	f.target = "-n searchd";
	sonde_diagnose(&f, &d);
	assert_string_equal(find(&d, SONDE_CAUSE_LEAK)->next, "sonde record -n searchd -d 6h");
	f.target = "";
	sonde_diagnose(&f, &d);
	assert_string_equal(find(&d, SONDE_CAUSE_LEAK)->next, "sonde run -d 6h -- COMMAND");
}

/* Nothing is known: nothing is said. And no figure that is not known reads as 0. */
static void test_nothing_known(void **state)
{
	struct sonde_memory_figures f;
	struct sonde_diagnosis d = {.n = 3};

	(void)state;
	sonde_memory_figures_init(&f);
	sonde_diagnose(&f, &d);
	assert_int_equal(d.n, 0);
	f.rss = 1 * GB;
	sonde_diagnose(&f, &d);
	assert_int_equal(d.n, 1); /* a leak cannot be told from one reading */
	assert_int_equal(d.f[0].cause, SONDE_CAUSE_LEAK);
	assert_int_equal(d.f[0].answer, SONDE_FOUND_CANNOT_TELL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index_dominates), cmocka_unit_test(test_no_counters),
		cmocka_unit_test(test_real_leak),	cmocka_unit_test(test_huge_not_leak),
		cmocka_unit_test(test_khugepaged),	cmocka_unit_test(test_huge_before_attach),
		cmocka_unit_test(test_sparse_slabs),	cmocka_unit_test(test_retention),
		cmocka_unit_test(test_fragmentation),	cmocka_unit_test(test_lazyfree),
		cmocka_unit_test(test_outside),		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_live_untouched),	cmocka_unit_test(test_program_maps),
		cmocka_unit_test(test_heap_unknown),	cmocka_unit_test(test_next),
	};

	return cmocka_run_group_tests_name("diagnose", tests, NULL, NULL);
}
