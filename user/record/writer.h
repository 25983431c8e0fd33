/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a recording: a visitor that puts everything it is given into one SQLite file, one
 * transaction per tick. Whatever was committed survives kill -9 and a full disk; `complete` becomes
 * 1 only in the last transaction. docs/recording.md describes the file.
 */
#ifndef SONDE_RECORD_WRITER_H
#define SONDE_RECORD_WRITER_H

#include "core/clock.h"
#include "model/visitor.h"

/* Which spans are kept. Histograms are complete whatever is chosen. */
enum sonde_spans_mode {
	SONDE_SPANS_ALL = 0,
	SONDE_SPANS_SLOWEST = 1, /* the slowest_n longest of each UTC hour */
	SONDE_SPANS_NONE = 2,
};

struct sonde_spans_choice {
	enum sonde_spans_mode mode;
	uint32_t slowest_n;
};

/* "all", "none", "slowest=100/h". 0 or -EINVAL, nothing logged. */
int sonde_parse_spans(const char *s, struct sonde_spans_choice *out);

struct sonde_writer_opts {
	struct sonde_spans_choice spans;
	uint64_t max_bytes;	 /* keep no more spans once the file is this big; 0: no bound */
	uint64_t slower_than_ns; /* what the spans were filtered by before they came here; 0: not */
	bool overwrite; /* replace an existing file                                               */
	/* The session's clocks, by which times become UTC. All 0: from begin's meta
	 * (sonde_meta_clock), else read at open. */
	struct sonde_clockpair clock;
};

struct sonde_writer;

/* Create @path. 0 or -errno (logged): -EEXIST where there is a file already, -EBUSY where another
 * writer is at it. Free with close. */
int sonde_writer_open(struct sonde_writer **out, const char *path,
		      const struct sonde_writer_opts *opts);
/* Owned by @w. A hook fails with -ENOSPC where the disk is full, -EIO where it fails, -ESTALE where
 * the file was taken away (logged once). */
const struct sonde_visitor *sonde_writer_visitor(struct sonde_writer *w);
/*
 * Finish and free. After `end` the recording is complete and one plain file; without it, it stays
 * marked as cut. 0 or -errno (logged). @w may point to NULL.
 */
int sonde_writer_close(struct sonde_writer **w);

struct sonde_writer_stats {
	uint64_t spans_seen, spans_stored;
	uint64_t file_bytes; /* at the last tick */
};
void sonde_writer_stats(const struct sonde_writer *w, struct sonde_writer_stats *out);

/* What a recording will be like, for its projected size. */
struct sonde_writer_forecast {
	double spans_per_s;
	double text_bytes_per_span; /* 0 unless query text is kept */
	uint32_t metric_series, hist_series;
	uint64_t interval_ns, duration_ns;
};
/* Bytes, never more than about max_bytes with its reserve; within a factor of 2 of the truth. */
uint64_t sonde_writer_projected_bytes(const struct sonde_writer_opts *opts,
				      const struct sonde_writer_forecast *f);

#endif
