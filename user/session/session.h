/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The running observation, on one epoll loop: standby -> prepared -> armed -> recording -> draining
 * -> done. It owns targets, engine, lenses and snapshot, drains the ring every 10 ms, ticks the
 * lenses each interval, and hands everything to the visitors it was given. It prints nothing but
 * messages.
 */
#ifndef SONDE_SESSION_SESSION_H
#define SONDE_SESSION_SESSION_H

#include "session/abort.h"
#include "attach/cost.h"
#include "attach/feature.h"
#include "attach/plan.h"
#include "lens/lens.h"
#include "model/snapshot.h"
#include "target/target.h"

/* Auto: counters where they can be read, and why not where not. */
enum sonde_alloc_mode {
	SONDE_ALLOC_MODE_OFF = 0,
	SONDE_ALLOC_MODE_EXACT,
	SONDE_ALLOC_MODE_COUNTERS,
	SONDE_ALLOC_MODE_AUTO,
	SONDE_ALLOC_MODE_WINDOWS,
};

/* How a command is started; all zero: as it is, and ended with the session. */
struct sonde_session_start {
	void *ctx;
	/* In the child, before it execs: 0, or -errno (logged) and the session does not begin. */
	int (*prepare)(void *ctx);
	/* After an exec, asked again and again: is @pid what was meant to be started? 0: it is.
	 * -EAGAIN: cannot be told yet. -ESRCH: it has ended. Else the session ends (logged). */
	int (*verify)(void *ctx, pid_t pid);
	int (*describe)(void *ctx, struct sonde_meta *meta); /* rows for the recording            */
	bool keep; /* leave it running when the session ends                                      */
};

struct sonde_session_opts {
	struct sonde_target_query target;
	const char *const
		*command; /* `stat -- CMD`: start it, observe from its exec; NULL-terminated  */
	struct sonde_session_start start;
	uint32_t lens_mask; /* bit per enum sonde_lens_id; 0: the default set                  */
	struct sonde_lens_opts lens;
	enum sonde_alloc_mode alloc_mode;
	uint64_t duration_ns; /* 0 with instant set: one snapshot; UINT64_MAX: until stopped */
	bool instant;
	uint64_t interval_ns;
	/* What the targets have allocated: as a metric each interval (want_consumption), and as a page at
	 * this path (sonde/consumption.h), a new value each consumption_interval_ns. */
	bool want_consumption;
	const char *publish;
	uint64_t consumption_interval_ns;
	bool follow; /* wait for a target that went and observe its successor                 */
	bool children;
	uint32_t only_tid;
	const char *only_comm;
	double harm_limit; /* detach when query p50 exceeds this many times its baseline; 0: default
			    */
	struct sonde_abort_rules abort_if; /* let go when one of them holds */
	uint32_t ring_bytes; /* 0: default */
	const char *argv;    /* the command line, for the recording    */
	/* Asked before anything that slows the target is attached, with the expected cost in words.
	 * NULL or false: refused, -ECANCELED. */
	bool (*consent)(void *ctx, const char *question);
	void *consent_ctx;
	/* Where values go, besides the snapshot. */
	const struct sonde_visitor *const *sinks;
	size_t n_sinks;
	/* Everything is attached and counting begins; not where one reading is all. */
	void (*on_observing)(void *ctx, const struct sonde_target_list *targets,
			     uint64_t attach_ns);
	void *on_observing_ctx;
	/* After each interval; a non-zero return ends the session cleanly. */
	int (*on_tick)(void *ctx, const struct sonde_snapshot *snap);
	void *on_tick_ctx;
};

/* How a session ended, and what it cost. Strings are static. */
struct sonde_session_result {
	/* "duration", "signal", "target exited", "harm", "abort-if", "probes lost", "sink", "tick" */
	const char *ended;
	bool degraded; /* any degraded note was made                                           */
	uint64_t observed_ns; /* from activate to pause */
	uint64_t attach_ns, detach_ns;
	int exit_status; /* of a started command, -1 otherwise, and while it runs on            */
};

/*
 * Run to the end. @snap must be initialised; it holds the totals afterwards. 0 or -errno (logged).
 * SIGINT and SIGTERM end it cleanly.
 */
int sonde_session_run(const struct sonde_session_opts *opts, struct sonde_snapshot *snap,
		      struct sonde_session_result *result);

/* What would be done, with nothing attached: for doctor and --dry-run. Free with the fini. */
struct sonde_session_plan {
	struct sonde_features features;
	struct sonde_target_list targets;
	struct sonde_hook_list hooks;
	struct sonde_plan plan;
	struct sonde_calibration calibration;
	bool calibrated;
};
/* Is the alloc lens part of it? */
bool sonde_session_wants_alloc(const struct sonde_session_opts *opts);
/* Is @lens attached only because another lens needs what its programs see? Its figures are not shown. */
bool sonde_session_helps(const struct sonde_session_opts *opts, int lens);
int sonde_session_plan(const struct sonde_session_opts *opts, bool calibrate,
		       struct sonde_session_plan *out);
void sonde_session_plan_fini(struct sonde_session_plan *p);

#endif
