/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a recording, finished, cut short or still being written, and drives a visitor with it as a
 * session would have. It never writes to the recording, and it trusts nothing in the file.
 */
#ifndef SONDE_RECORD_READER_H
#define SONDE_RECORD_READER_H

#include <stdbool.h>

#include "core/clock.h"
#include "model/visitor.h"

struct sonde_reader;

/*
 * 0 or -errno (logged: one sentence with cause and remedy): -ENOENT, -EACCES, -EBADMSG (not a
 * recording, or damaged), -EPROTO (of a newer schema). Free with sonde_reader_free.
 */
int sonde_reader_open(struct sonde_reader **out, const char *path);
void sonde_reader_free(struct sonde_reader **r);

/* All owned by @r. */
const char *sonde_reader_path(const struct sonde_reader *r);
/*
 * What begin gave, and the writer's own keys: "complete" ("0" or "1"), "recording.start_ns",
 * "recording.end_ns" (UTC; of a cut one: its last tick), "recording.spans" (all, none,
 * slowest=N/h), "recording.spans_seen", "recording.spans_stored", "recording.path".
 */
const struct sonde_meta *sonde_reader_meta(const struct sonde_reader *r);
/* False: cut short, or still being written. */
bool sonde_reader_complete(const struct sonde_reader *r);
/* UTC ns of the first and the last tick (begin, where there was none). A cut one was cut after end.
 */
uint64_t sonde_reader_start_ns(const struct sonde_reader *r);
uint64_t sonde_reader_end_ns(const struct sonde_reader *r);
#define sonde_reader_cut_ns(r) sonde_reader_end_ns(r)
/* Turns UTC into the monotonic times that visitors are given, and back. */
const struct sonde_clockpair *sonde_reader_clock(const struct sonde_reader *r);

/* A fingerprint's text into @buf; "" if there is none. Returns @buf. */
const char *sonde_reader_fingerprint(const struct sonde_reader *r, uint64_t id, char *buf,
				     size_t size);

enum sonde_hist_wanted {
	SONDE_HIST_WHOLE,
	SONDE_HIST_SUMS, /* count, sum, min and max; its buckets are empty */
	SONDE_HIST_SKIP,
};

struct sonde_reader_filter {
	uint64_t since_ns, until_ns; /* UTC ns, [since, until); 0: no bound. Of histograms, the UTC
				      * minutes that overlap; of spans, those that ended inside; of
				      * notes also earlier ones that weaken figures */
	uint32_t slowest; /* only the N longest spans, longest first; 0: all                   */
	/* How much of each histogram is wanted; NULL: all of all. What is skipped costs next to
	 * nothing. */
	enum sonde_hist_wanted (*hists)(void *ctx, const char *name, const char *label);
	void *hists_ctx;
	bool rebase; /* counters count from since, not from attach (drops always do); the bounds
		      * move outwards to ticks, and the first tick carries counters of 0 */
};

/*
 * A point in time as typed: "-1h" (before the recording's end) or RFC 3339
 * ("2026-11-30T17:28:47Z", "…+02:00"). 0 or -EINVAL (logged).
 */
int sonde_reader_parse_time(const struct sonde_reader *r, const char *s, uint64_t *out_ns);

/*
 * Push everything into @v in time order, as of now: begin, values, a tick per interval, end. Hooks
 * that are NULL cost nothing. With f->slowest the spans come together, after the last tick. Times
 * are monotonic (sonde_meta_clock of begin's meta turns them into UTC). @f may be NULL. 0, -errno
 * of a hook as is, or -EBADMSG (logged) where the file is damaged: what came before is sound.
 * Descriptors of metrics and histograms stay valid until the next visit or free.
 */
int sonde_reader_visit(struct sonde_reader *r, const struct sonde_reader_filter *f,
		       const struct sonde_visitor *v);

#endif
