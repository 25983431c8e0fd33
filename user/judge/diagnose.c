// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The diagnosis; see diagnose.h. The thresholds are where a figure begins to matter to somebody who
 * asks why a daemon is big: below 5 % of RSS nothing is worth a line of its own.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/num.h"
#include "judge/diagnose.h"

#define B(v) sonde_fmt_bytes((char[32]){0}, 32, (v))

#define MIB		1048576.0
#define MATTERS		0.05 /* of RSS                                                        */
#define DOMINATES	0.5  /* of RSS                                                        */
#define WASTE		0.2  /* of RSS, between resident and live                             */
#define SMALLEST	(32 * MIB) /* of what is held outside RSS: charges ahead stay below    */
#define GROWTH_SMALLEST (16 * MIB)
#define TREND_S		3600 /* an index that warms up grows for minutes                      */
#define LIVE_TREND_S	600  /* live memory says more                                         */

void sonde_memory_figures_init(struct sonde_memory_figures *f)
{
	*f = (struct sonde_memory_figures){
		.rss = NAN,
		.anon = NAN,
		.file = NAN,
		.shmem = NAN,
		.file_data = NAN,
		.allocator = NAN,
		.own = NAN,
		.own_big = NAN,
		.heap = NAN,
		.heap_back = NAN,
		.heap_big = NAN,
		.lazyfree = NAN,
		.anon_huge = NAN,
		.live = NAN,
		.live_max = NAN,
		.live_change = NAN,
		.bloat = NAN,
		.held_own = NAN,
		.held_system = NAN,
		.rss_first = NAN,
		.anon_first = NAN,
		.live_first = NAN,
		.asking = "",
		.allocator_name = "",
		.file_parts = "",
		.live_why = "no allocator counters",
		.target = "-p PID",
	};
}

const char *sonde_cause_name(enum sonde_cause cause)
{
	static const char *const names[] = {
		[SONDE_CAUSE_INDEX] = "index",
		[SONDE_CAUSE_ALLOCATOR] = "allocator",
		[SONDE_CAUSE_RETENTION] = "retention",
		[SONDE_CAUSE_FRAGMENTATION] = "fragmentation",
		[SONDE_CAUSE_HUGE] = "huge_pages",
		[SONDE_CAUSE_LEAK] = "leak",
		[SONDE_CAUSE_BLOAT] = "khugepaged_bloat",
		[SONDE_CAUSE_LAZYFREE] = "lazyfree",
		[SONDE_CAUSE_ASKING] = "asking",
		[SONDE_CAUSE_OUTSIDE] = "held_outside_rss",
	};

	return names[cause];
}

const char *sonde_finding_answer_name(enum sonde_finding_answer answer)
{
	static const char *const names[] = {
		[SONDE_FOUND_NO] = "no",
		[SONDE_FOUND_YES] = "yes",
		[SONDE_FOUND_AT_MOST] = "at_most",
		[SONDE_FOUND_CANNOT_TELL] = "cannot_tell",
	};

	return names[answer];
}

static bool known(double v)
{
	return !isnan(v);
}

static double or0(double v)
{
	return isnan(v) ? 0 : v;
}

static double percent(const struct sonde_memory_figures *f, double v)
{
	return f->rss > 0 ? 100 * v / f->rss : 0;
}

/* "+1.20 GiB" */
static const char *change(char *buf, size_t size, double v)
{
	snprintf(buf, size, "%s%s", v < 0 ? "-" : "+", B(fabs(v)));
	return buf;
}
#define D(v) change((char[40]){0}, 40, (v))

/* "30 s", "12 min", "6.0 h" */
static const char *duration(char *buf, size_t size, double s)
{
	if (s < 120)
		snprintf(buf, size, "%.0f s", s);
	else if (s < 7200)
		snprintf(buf, size, "%.0f min", s / 60);
	else
		snprintf(buf, size, "%.1f h", s / 3600);
	return buf;
}
#define T(s) duration((char[32]){0}, 32, (s))

__attribute__((format(printf, 5, 6))) static struct sonde_finding *
add(struct sonde_diagnosis *d, enum sonde_cause cause, enum sonde_finding_answer answer,
    const char *question, const char *fmt, ...)
{
	struct sonde_finding *f = &d->f[d->n < SONDE_FINDINGS_MAX ? d->n++ : d->n - 1];
	va_list ap;

	*f = (struct sonde_finding){.cause = cause, .answer = answer, .question = question};
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

static void next(struct sonde_finding *f, const struct sonde_memory_figures *in, const char *verb,
		 const char *options)
{
	if (*in->target)
		snprintf(f->next, sizeof(f->next), "sonde %s %s %s", verb, in->target, options);
	else /* both verbs' options are run's too */
		snprintf(f->next, sizeof(f->next), "sonde run %s -- COMMAND", options);
}

/* The index of a search daemon; files and shared memory of any other. */
static void ask_index(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	double files = known(f->file_data) ? f->file_data : f->file, share = files + f->shmem;
	const char *q = f->search_daemon ? "Index?" : "Files, shared?";

	if (!known(share))
		return;
	add(d, SONDE_CAUSE_INDEX,
	    percent(f, share) >= 100 * DOMINATES ? SONDE_FOUND_YES : SONDE_FOUND_NO, q,
	    "%.0f %% of RSS: shared memory %s, files %s%s%s", percent(f, share), B(f->shmem),
	    B(files), known(f->file_data) ? *f->file_parts ? " " : "" : ", programs included",
	    f->file_parts);
}

/*
 * How much of what is resident is free memory of the allocator. Resident less live tells neither
 * way alone: live memory may never have been touched, and what is resident may be the program's own
 * mapping. So what the heap itself has free is the upper bound. The lower one is what is resident
 * in arenas and more than is live there; big chunks are all live and touched or not, so they stay
 * out.
 */
struct waste {
	double most;	       /* where what is free is not known: all that may be its */
	double least;	       /* where !sure: if the program mapped nothing itself */
	double own;	       /* resident, the allocator's                         */
	double resident, used; /* from which least comes                            */
	bool sure;	       /* own is told from what the program mapped itself   */
	bool about;	       /* big chunks may be merged with arenas              */
};

static double heap_held(const struct sonde_memory_figures *f)
{
	return f->heap - or0(f->heap_back);
}

static struct waste bound_waste(const struct sonde_memory_figures *f)
{
	double aside = or0(f->lazyfree) + or0(f->bloat);
	struct waste w = {.most = f->allocator - aside, .sure = known(f->own)};

	/* Mappings may have been read some time ago: what is resident now caps them. */
	w.own = w.sure ? fmin(f->own, f->allocator) : f->allocator;
	if (known(f->heap)) {
		w.own = fmin(w.own, heap_held(f));
		w.most = fmin(w.most, heap_held(f) - f->live);
	}
	w.most = fmax(w.most, 0);
	w.resident = w.own;
	w.used = f->live;
	if (w.sure && known(f->heap_big)) {
		w.resident = fmin(w.own - or0(f->own_big), heap_held(f) - f->heap_big);
		w.about = f->heap_big - or0(f->own_big) >= MATTERS * f->rss;
		w.used -= f->heap_big;
	}
	w.least = fmin(fmax(w.resident - w.used - aside, 0), w.most);
	return w;
}

/* "; at least 26.0 MiB is mapped by the program itself", where that matters: what is resident
 * beyond all that the allocator has. The row of other mappings may be more, but holds big chunks
 * too that the kernel merged with their neighbours. */
static const char *by_program(const struct sonde_memory_figures *f, char *buf, size_t size)
{
	double v = f->allocator - heap_held(f);

	buf[0] = '\0';
	if (known(v) && v >= MATTERS * f->rss)
		snprintf(buf, size, "; at least %s is mapped by the program itself", B(v));
	return buf;
}
#define PROGRAM(f) by_program((f), (char[80]){0}, 80)

/* "at least 5.60 GiB (77 %) resident beyond the 1.61 GiB live" */
static const char *beyond(const struct sonde_memory_figures *f, const struct waste *w, char *buf,
			  size_t size)
{
	snprintf(buf, size, "%s%s (%.0f %%) resident beyond the %s live%s%s",
		 w->about						 ? "about "
		 : w->sure && known(f->heap) && w->most > 1.1 * w->least ? "at least "
									 : "",
		 B(w->least), percent(f, w->least), B(w->used),
		 w->used < f->live ? ", big chunks left out" : "",
		 w->sure ? "" : ", if the program maps no memory itself");
	return buf;
}
#define BEYOND(f, w) beyond((f), (w), (char[200]){0}, 200)

static void name_waste(const struct sonde_memory_figures *f, const struct waste *w,
		       struct sonde_diagnosis *d)
{
	/* What is in huge pages and need not be outside the heap. */
	double huge = or0(f->anon_huge) - (f->anon - w->own);
	bool fell = known(f->live_max) && f->live_max > 1.5 * f->live;
	const char *q = "Allocator/THP?", *program = PROGRAM(f);

	if (huge >= DOMINATES * w->own)
		add(d, SONDE_CAUSE_HUGE, SONDE_FOUND_YES, q,
		    "huge pages over free memory: %s; %s of %s is in huge pages; bloat from before "
		    "attach cannot be split%s",
		    BEYOND(f, w), B(f->anon_huge), B(f->anon), program);
	else if (w->used < DOMINATES * w->resident || fell)
		add(d, SONDE_CAUSE_RETENTION, SONDE_FOUND_YES, q,
		    "the allocator keeps freed memory: %s%s%s; not in huge pages, not LazyFree%s",
		    BEYOND(f, w), fell ? ", which was " : "", fell ? B(f->live_max) : "", program);
	else
		add(d, SONDE_CAUSE_FRAGMENTATION, SONDE_FOUND_YES, q,
		    "fragmentation or caches: %s, which is near its highest (%s)%s", BEYOND(f, w),
		    B(known(f->live_max) ? f->live_max : f->live), program);
}

/* Live is known: what the allocator has free and resident has a cause that can be narrowed. */
static void judge_waste(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	struct waste w = bound_waste(f);
	const char *q = "Allocator/THP?";

	if (w.most < WASTE * f->rss && !known(f->heap))
		add(d, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, q,
		    "at most %s (%.0f %%): so much is resident that may be the allocator's, of %s "
		    "live",
		    B(w.most), percent(f, w.most), B(f->live));
	else if (w.most < WASTE * f->rss)
		add(d, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_NO, q,
		    "at most %s (%.0f %%): so much is free of the %s that the allocator has from "
		    "the system, %s live%s",
		    B(w.most), percent(f, w.most), B(heap_held(f)), B(f->live), PROGRAM(f));
	else if (w.least >= WASTE * f->rss)
		name_waste(f, &w, d);
	else if (known(f->heap))
		add(d, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, q,
		    "at most %s (%.0f %%): so much is free of the %s that the allocator has from "
		    "the system, %s live; how much of it is resident cannot be told%s",
		    B(w.most), percent(f, w.most), B(heap_held(f)), B(f->live), PROGRAM(f));
	else
		add(d, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_CANNOT_TELL, q,
		    "cannot tell: what the allocator has free is not known, and of the %s live an "
		    "unknown part was never touched; %s that may be the allocator's is resident%s",
		    B(f->live), B(w.own), PROGRAM(f));
}

static void ask_allocator(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	double most;

	if (!known(f->allocator))
		return;
	if (known(f->live)) {
		judge_waste(f, d);
		return;
	}
	/* Bloat is part of the question where live is not known. */
	most = fmax(f->allocator - or0(f->lazyfree), 0);
	if (known(f->heap))
		most = fmin(most, heap_held(f));
	add(d, SONDE_CAUSE_ALLOCATOR, SONDE_FOUND_AT_MOST, "Allocator/THP?",
	    "at most %s (%.0f %%): what of it is in use cannot be told, %s%s", B(most),
	    percent(f, most), f->live_why, PROGRAM(f));
}

/* Live memory over time tells growth of what is held from growth of what is wasted. */
static void judge_live_trend(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	double live = f->live - f->live_first, rss = f->rss - f->rss_first;
	bool grows = live >= MATTERS * f->live_first && live >= GROWTH_SMALLEST;

	if (grows && live >= DOMINATES * rss)
		add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_YES, "Leak?",
		    "live memory grew with RSS: %s of %s in %s, a leak or a cache that fills",
		    D(live), D(rss), T(f->observed_s));
	else if (rss >= MATTERS * f->rss_first && rss >= GROWTH_SMALLEST)
		add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "Leak?",
		    "no: live memory %s in %s while RSS %s", D(live), T(f->observed_s), D(rss));
	else
		add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "Leak?",
		    "no sign in %s: live memory %s, RSS %s", T(f->observed_s), D(live), D(rss));
}

static void ask_leak(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	bool live = known(f->live) && known(f->live_first);
	double grown = f->anon - f->anon_first;
	struct sonde_finding *found;

	if (live && f->observed_s >= LIVE_TREND_S) {
		judge_live_trend(f, d);
		return;
	}
	if (f->observed_s < TREND_S || !known(grown)) {
		char extra[96] = "";

		if (known(f->live_change) && f->observed_s > 0)
			snprintf(extra, sizeof(extra), "; live %s since attach", D(f->live_change));
		found = add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "Leak?",
			    "cannot tell from %s%s",
			    f->observed_s > 0 ? T(f->observed_s) : "one reading", extra);
		next(found, f, "record", "-d 6h");
		return;
	}
	if (grown < MATTERS * f->anon_first || grown < GROWTH_SMALLEST) {
		add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_NO, "Leak?",
		    "no sign in %s: private anonymous memory %s", T(f->observed_s), D(grown));
		return;
	}
	found = add(d, SONDE_CAUSE_LEAK, SONDE_FOUND_CANNOT_TELL, "Leak?",
		    "cannot tell whether it is in use, %s: private anonymous memory %s in %s (%s "
		    "an hour)",
		    f->live_why, D(grown), T(f->observed_s), D(grown * 3600 / f->observed_s));
	next(found, f, "stat", "--alloc-mode exact -d 10s");
}

static void ask_bloat(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	double grown = f->anon - f->anon_first;
	bool of_growth = known(f->bloat) && known(grown) && grown >= MATTERS * f->rss &&
			 f->bloat >= DOMINATES * grown;
	struct sonde_finding *found;

	if (known(f->bloat)) {
		if (f->bloat < MATTERS * f->rss && !of_growth)
			return;
		found = add(d, SONDE_CAUSE_BLOAT, SONDE_FOUND_YES, "khugepaged?",
			    "added %s (%.0f %%) since attach without a fault of the process%s; "
			    "earlier bloat cannot be split",
			    B(f->bloat), percent(f, f->bloat),
			    of_growth ? ": that is what made it grow" : "");
		return;
	}
	if (!known(f->anon_huge) || !known(f->anon) || f->anon_huge < DOMINATES * f->anon)
		return;
	found = add(d, SONDE_CAUSE_BLOAT, SONDE_FOUND_CANNOT_TELL, "khugepaged?",
		    "cannot tell, because it was not observed: %s of %s private anonymous memory "
		    "is in huge pages",
		    B(f->anon_huge), B(f->anon));
	next(found, f, "record", "-d 10m");
}

static void ask_lazyfree(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	if (!known(f->lazyfree) || f->lazyfree < MATTERS * f->rss)
		return;
	add(d, SONDE_CAUSE_LAZYFREE, SONDE_FOUND_YES, "LazyFree?",
	    "%s (%.0f %%) was given back with MADV_FREE and is counted until the kernel needs it: "
	    "without it RSS is %s",
	    B(f->lazyfree), percent(f, f->lazyfree), B(f->rss - f->lazyfree));
}

static void ask_outside(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	double least = fmax(MATTERS * f->rss, SMALLEST);

	if (known(f->held_own)) {
		if (f->held_own >= least)
			add(d, SONDE_CAUSE_OUTSIDE, SONDE_FOUND_YES, "Outside RSS?",
			    "%s more is held than RSS shows: huge pages of which parts were given "
			    "back",
			    B(f->held_own));
		return;
	}
	if (known(f->held_system) && f->held_system >= least)
		add(d, SONDE_CAUSE_OUTSIDE, SONDE_FOUND_AT_MOST, "Outside RSS?",
		    "at most %s: that much is in huge pages mapped in part, system-wide; whose "
		    "they are is not known",
		    B(f->held_system));
}

static void ask_asking(const struct sonde_memory_figures *f, struct sonde_diagnosis *d)
{
	if (*f->asking)
		add(d, SONDE_CAUSE_ASKING, SONDE_FOUND_YES, "Asking?", "%s", f->asking);
}

void sonde_diagnose(const struct sonde_memory_figures *f, struct sonde_diagnosis *out)
{
	out->n = 0;
	ask_asking(f, out);
	if (!known(f->rss) || f->rss <= 0)
		return;
	ask_index(f, out);
	ask_allocator(f, out);
	ask_leak(f, out);
	ask_bloat(f, out);
	ask_lazyfree(f, out);
	ask_outside(f, out);
}
