/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The THP lens's maps, read whole, and what their keys are called. The sums are taken as they
 * stand; of the histograms a reading yields what was added since the one before.
 */
#ifndef SONDE_LENS_THP_READ_H
#define SONDE_LENS_THP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "model/hist.h"
#include "sonde/thp.h"

struct sonde_thp_entry {
	struct sonde_thp_key key;
	struct sonde_thp_sum sum;
};

struct sonde_thp_sums {
	struct sonde_thp_entry *e; /* sorted by key */
	size_t n, cap;
};

/* Read per-CPU map @fd into @to, sorted. 0 or -errno, nothing logged. */
int sonde_thp_sums_read(int fd, int n_cpus, struct sonde_thp_sums *to);
void sonde_thp_sums_fini(struct sonde_thp_sums *s);
/* 0 and 0 where there is no entry. */
struct sonde_thp_sum sonde_thp_sums_get(const struct sonde_thp_sums *s, uint32_t tgid,
					enum sonde_thp_what what, uint32_t arg);

/* One series of stalls of one process. */
struct sonde_thp_stall_row {
	uint32_t tgid, series;
	uint64_t *seen; /* what the map held at the last reading, a number a bucket            */
	struct sonde_hist added; /* since then */
	uint64_t ns; /* of the sums, already in pushed histograms                           */
};

struct sonde_thp_stall_rows {
	struct sonde_thp_stall_row *r;
	size_t n, cap;
};

/* Read map @fd: afterwards each row's `added` holds what was added since the last call. */
int sonde_thp_stalls_read(int fd, struct sonde_thp_stall_rows *rows);
/* Forget process @tgid, which has ended: its entries in both maps, its rows. Frees room for others.
 */
void sonde_thp_forget(int sums_fd, int hist_fd, struct sonde_thp_stall_rows *rows, uint32_t tgid);
void sonde_thp_stalls_fini(struct sonde_thp_stall_rows *rows);

/*
 * What a key is called: "succeed", "self.exceed_none_pte", "shmem", "dontneed", "reclaim.huge",
 * "compaction". Results and reasons have this kernel's names, or their number where it does not
 * tell.
 */
void sonde_thp_label_result(uint32_t arg, char *buf, size_t size);
void sonde_thp_label_by(uint32_t arg, char *buf, size_t size);
void sonde_thp_label_purge(uint32_t arg, char *buf, size_t size);
void sonde_thp_label_stall(uint32_t series, char *buf, size_t size);
void sonde_thp_label_reason(uint32_t arg, char *buf, size_t size);

#endif
