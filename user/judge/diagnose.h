/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why is RSS what it is? A pure function from figures to sentences: each with the figures that led
 * to it, or with the reason why it cannot be told and the command that would tell. A figure that is
 * not known is NAN, never 0, and no sentence is made from it.
 */
#ifndef SONDE_JUDGE_DIAGNOSE_H
#define SONDE_JUDGE_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes, of all targets together; NAN: not known. */
struct sonde_memory_figures {
	double rss, anon, file, shmem;
	double file_data; /* of file: neither programs nor libraries                         */
	double allocator; /* private anonymous memory that may be the allocator's            */
	double own;	/* of it surely the allocator's, at least: glibc's are told apart        */
	double own_big; /* of own: chunks that are mappings of their own                       */
	double heap;	/* address space that the allocator has from the system                */
	double heap_back; /* of it given back                                                    */
	double heap_big;  /* of it chunks that are mappings of their own, all of them live       */
	double lazyfree, anon_huge;
	double live;	    /* handed out by the allocator and not yet given back: all of it   */
	double live_max;    /* its highest while observed                                      */
	double live_change; /* since attach; known in exact mode, where live is not            */
	double bloat;	    /* added by khugepaged since attach                                */
	double held_own;    /* outside RSS, charged to a cgroup that is the process's own      */
	double held_system; /* system-wide: huge pages mapped in part                          */
	double rss_first, anon_first, live_first; /* when observation began                    */
	double observed_s;  /* between the first and the last reading; 0: one reading          */
	bool search_daemon; /* its files and shared memory are an index                        */
	const char *allocator_name; /* "glibc", or "" */
	const char *file_parts;	    /* "(.spd 6.10 GiB, .spp 3.00 GiB)", or "" */
	const char *asking; /* the sentence on asking the allocator for statistics; "": it does not
			     * matter, or is not known */
	const char *live_why; /* why live is not known */
	const char *target; /* "-p 812": for the command to type next; "": the target has gone, and
			     * sonde had started it                                             */
};

enum sonde_cause {
	SONDE_CAUSE_INDEX,	   /* files and shared memory                                   */
	SONDE_CAUSE_ALLOCATOR,	   /* somewhere between allocator and huge pages: not split     */
	SONDE_CAUSE_RETENTION,	   /* freed, and never returned to the kernel                   */
	SONDE_CAUSE_FRAGMENTATION, /* in use, but spread                                        */
	SONDE_CAUSE_HUGE,	   /* huge pages over memory that is free                       */
	SONDE_CAUSE_LEAK,
	SONDE_CAUSE_BLOAT, /* khugepaged's refill                                       */
	SONDE_CAUSE_LAZYFREE,
	SONDE_CAUSE_ASKING,  /* why it is slow, not why it is big                         */
	SONDE_CAUSE_OUTSIDE, /* held, but not in RSS                                      */
};

enum sonde_finding_answer {
	SONDE_FOUND_NO,
	SONDE_FOUND_YES,
	SONDE_FOUND_AT_MOST,
	SONDE_FOUND_CANNOT_TELL,
};

struct sonde_finding {
	enum sonde_cause cause;
	enum sonde_finding_answer answer;
	const char *question; /* "Index?" */
	char text[640];	      /* the answer and its figures */
	char next[160];	      /* the command that would tell, or "" */
};

#define SONDE_FINDINGS_MAX 8

struct sonde_diagnosis {
	struct sonde_finding f[SONDE_FINDINGS_MAX];
	size_t n;
};

/* Nothing but @f goes in. Nothing is said of memory where RSS itself is not known. */
void sonde_diagnose(const struct sonde_memory_figures *f, struct sonde_diagnosis *out);

const char *sonde_cause_name(enum sonde_cause cause);
const char *sonde_finding_answer_name(enum sonde_finding_answer answer);

/* Figures that are all NAN, strings "". */
void sonde_memory_figures_init(struct sonde_memory_figures *f);

#endif
