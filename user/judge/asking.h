/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is asking the allocator for its statistics what makes the program slow? Who asks what, in order
 * of the CPU time it takes, from what the ask lens yielded. Shares are of the target's CPU time
 * while calls were counted; 0 where a function's calls were not timed.
 */
#ifndef SONDE_JUDGE_ASKING_H
#define SONDE_JUDGE_ASKING_H

#include "model/snapshot.h"

#define SONDE_ASKING_FUNCS   4
#define SONDE_ASKING_CALLERS 4

/* Below this share nobody need care, nor where it is next to nothing of one CPU: an idle program
 * does little else. */
#define SONDE_ASKING_MATTERS 0.02
#define SONDE_ASKING_CPUS    0.01

/* Labels are the snapshot's. */
struct sonde_asking_caller {
	const char *name; /* "handle_query+0x1c (searchd)" */
	double calls, share;
};

struct sonde_asking_func {
	const char *name;
	double calls, share;
	double rate;	/* calls a second; NAN: not known                  */
	double each_ns; /* a call, waits included; NAN: they were not timed */
	struct sonde_asking_caller caller[SONDE_ASKING_CALLERS];
	size_t n_callers;
};

struct sonde_asking {
	double share, calls; /* of all */
	double cpus; /* that asking takes, 1 is all of one; NAN: not known (older recordings) */
	struct sonde_asking_func func[SONDE_ASKING_FUNCS];
	size_t n;
};

/* False: the lens was not there, or its time was too short for a share. */
bool sonde_asking_of(const struct sonde_snapshot *s, struct sonde_asking *out);
bool sonde_asking_matters(const struct sonde_asking *a);
/* "24 % of the target's CPU (0.03 % of a CPU)" */
void sonde_asking_share(const struct sonde_asking *a, char *buf, size_t size);
/* What the diagnosis says: the share, the functions that make it up, and their callers. */
void sonde_asking_text(const struct sonde_asking *a, char *buf, size_t size);

#endif
