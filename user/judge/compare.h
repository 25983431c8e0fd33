/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two recordings side by side. An arm is a visitor that gathers one of them; compare turns two arms
 * into rows: a figure each, its value in both, how much they differ. It knows metrics by their
 * names' first word and by kind and unit only, so that a new lens is compared before anybody writes
 * code for it. Nothing here judges: one run an arm has no spread to judge by.
 */
#ifndef SONDE_JUDGE_COMPARE_H
#define SONDE_JUDGE_COMPARE_H

#include "model/snapshot.h"

/* Values of one gauge of one target over time; value NAN: it went. */
struct sonde_arm_series {
	const struct sonde_metric_desc *desc;
	char *label;
	uint32_t target;
	struct sonde_arm_point {
		uint64_t ts_ns;
		double value;
	} * p;
	size_t n, cap;
};

struct sonde_arm {
	const char *name;	    /* borrowed: the recording's path */
	struct sonde_snapshot snap; /* totals, histograms, notes, meta */
	struct sonde_arm_series *gauges;
	size_t n_gauges, cap_gauges;
	uint64_t first_ns, last_ns; /* monotonic of that host: what the values cover */
	uint64_t hist_first_ns;	    /* and when its histograms begin, 0: has none */
	struct sonde_visitor own, visitor;
	struct sonde_fanout fanout;
};

void sonde_arm_init(struct sonde_arm *arm, const char *name);
void sonde_arm_fini(struct sonde_arm *arm);
/* Feed this with one recording. It points into @arm, which must not move. */
const struct sonde_visitor *sonde_arm_visitor(struct sonde_arm *arm);
/* Monotonic begin of what was observed, and how long that was; 0 where nothing was. */
uint64_t sonde_arm_begin_ns(const struct sonde_arm *arm);
uint64_t sonde_arm_covered_ns(const struct sonde_arm *arm);

enum sonde_compare_section {
	SONDE_COMPARE_FAULTS = 0,
	SONDE_COMPARE_STALLS,
	SONDE_COMPARE_THP,
	SONDE_COMPARE_MEMORY,
	SONDE_COMPARE_QUERIES,
	SONDE_COMPARE_OTHER,
	SONDE_COMPARE_SHARED, /* of its cgroup and the whole system, not of the target */
	SONDE_COMPARE__MAX
};
/* "Page faults" */
const char *sonde_compare_section_title(enum sonde_compare_section section);

enum sonde_compare_unit {
	SONDE_COMPARE_BYTES,
	SONDE_COMPARE_BYTES_PER_S,
	SONDE_COMPARE_NS,
	SONDE_COMPARE_NS_PER_QUERY,
	SONDE_COMPARE_NS_PER_S, /* time spent in a second                        */
	SONDE_COMPARE_PER_S,
	SONDE_COMPARE_PER_QUERY,
	SONDE_COMPARE_COUNT,
	SONDE_COMPARE_RATIO,
};

struct sonde_compare_row {
	enum sonde_compare_section section;
	const char *name, *label; /* of the metric; owned by the arm; label "": all of it     */
	const char *figure;	  /* "per s", "per query", "level", "mean", "p99"              */
	enum sonde_compare_unit unit;
	bool has[2];
	double v[2];
	const char *absent[2]; /* why not, or NULL; owned by the arm                     */
	bool tiny;	       /* both are too small for their ratio to mean anything     */
	const char *unranked;  /* why it is not among what differs most, NULL: it may be    */
	double change;	       /* (b - a) / a; NAN where a is 0 or either is missing      */
	double weight;	       /* by how much they differ, for order: |ln| of the guarded ratio */
};

/* A setting that is not the same, NULL where the recording does not say. Owned by the arms, but for
 * what sonde_compare made itself. */
struct sonde_compare_difference {
	const char *what, *a, *b;
};

struct sonde_compare {
	struct sonde_compare_difference *diffs;
	size_t n_diffs, cap_diffs;
	struct sonde_compare_row *rows; /* in each section what differs most comes first */
	size_t n_rows, cap_rows;
	char **cautions; /* sentences: what makes the comparison weaker */
	size_t n_cautions, cap_cautions;
	uint64_t uptime_ns;   /* age at which memory is compared                               */
	bool by_process_age;  /* of the process; otherwise since the recording began           */
	char *load[2];	      /* "211 queries/s", where it differs                              */
	const char *names[2]; /* what cautions call the arms; NULL: "A", "B"                    */
};

/* What to say of each arm: "A", "B". */
extern const char *const sonde_compare_arm_names[2];

/* 0, -ENODATA (logged: which has nothing, or nothing in common) or -ENOMEM. Borrows the arms. */
int sonde_compare_make(const struct sonde_arm *a, const struct sonde_arm *b,
		       struct sonde_compare *out);
void sonde_compare_fini(struct sonde_compare *c);

/* compare_config.c: differences and cautions into @c. 0 or -ENOMEM. */
int sonde_compare_config(const struct sonde_arm *a, const struct sonde_arm *b,
			 struct sonde_compare *c);
/* compare_rank.c: is this metric of more than the target: its cgroup, the system? */
bool sonde_compare_is_shared(const char *name);
/* Says of each row why it may not be ranked. Gauges are read at @at_ns of each arm. 0 or -ENOMEM.
 */
int sonde_compare_rank(const struct sonde_arm *a, const struct sonde_arm *b,
		       const uint64_t at_ns[2], struct sonde_compare *c);
/* A meta row of the target that serves, NULL if there is none. */
const char *sonde_arm_target_meta(const struct sonde_arm *arm, const char *what);
int sonde_compare_caution(struct sonde_compare *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
