// SPDX-License-Identifier: GPL-2.0-or-later
/* Plans of the next experiments; see next_plans.h. Servers, roles and margins are those judged now.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "cli/next_plans.h"
#include "cli/pairs.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"

#define LEAST_DAYS  14
#define MOST_DAYS   90
#define LEAST_SHARE 0.5 /* points of percent that are worth a word */
#define MAX_PARTS   4

/* @parts speak for it where they grew: 0 ends the list, for nothing is done about queueing. */
static const struct plan {
	const char *name, *question, *change, *expect;
	unsigned int parts[MAX_PARTS];
} plans[] = {
	{"background_thread",
	 "Does jemalloc's background thread take the giving back of memory off the queries?",
	 "MALLOC_CONF=background_thread:true",
	 "madvise and munmap leave the queries' time; RSS as it is",
	 {SONDE_PART_SYS_MADVISE, SONDE_PART_SYS_MUNMAP}},
	{"dirty_decay_ms",
	 "Is memory given back too early, only to be faulted in again?",
	 "MALLOC_CONF=dirty_decay_ms:60000,muzzy_decay_ms:60000",
	 "fewer base page faults and less madvise; RSS somewhat higher",
	 {SONDE_PART_FAULT_BASE, SONDE_PART_SYS_MADVISE}},
	{"thp-never",
	 "Are huge pages under the allocator's memory worth what they cost?",
	 "MALLOC_CONF=thp:never",
	 "no huge page faults, no compaction; perhaps more user CPU (TLB)",
	 {SONDE_PART_FAULT_PMD, SONDE_PART_COMPACTION, SONDE_PART_RECLAIM,
	  SONDE_PART_OFF_MMAP_LOCK}},
	{"max_ptes_none",
	 "Does khugepaged fill memory that was given back?",
	 "echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
	 "RSS and its growth fall where khugepaged had filled holes; fewer huge pages",
	 {0}},
};

/* ---- what speaks for a plan ---- */

/* Points of percent of the mean that its parts grew by, in the arm where they grew most. */
static double speaks_for(const struct sonde_why *why, const struct plan *p, const char **arm)
{
	double most = 0;

	for (size_t i = 0; i < why->n; i++) {
		const struct sonde_why_row *row = &why->rows[i];
		double sum = 0;

		for (size_t k = 0; k < MAX_PARTS && p->parts[k]; k++)
			sum += row->points[p->parts[k]];
		if (row->tail || sum <= most)
			continue;
		most = sum;
		*arm = row->arm;
	}
	return most;
}

/* ---- a plan as text ---- */

/* TOML's basic strings: quotes and backslashes are escaped; control characters there are none. */
static int add_quoted(struct sonde_str *out, const char *text)
{
	int err = sonde_str_addc(out, '"');

	for (const char *p = SONDE_PLAIN(text); *p && !err; p++) {
		if (*p == '"' || *p == '\\')
			err = sonde_str_addc(out, '\\');
		err = err ? err : sonde_str_addc(out, *p);
	}
	return err ? err : sonde_str_addc(out, '"');
}

static int add_key(struct sonde_str *out, const char *key, const char *text)
{
	int err = sonde_str_addf(out, "%s = ", key);

	err = err ? err : add_quoted(out, text);
	return err ? err : sonde_str_addc(out, '\n');
}

/* The longest that a primary row asked for, within reason. */
static unsigned int days_after(const struct sonde_trial_result *r)
{
	double days = LEAST_DAYS;

	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i].primary && isfinite(r->rows[i].days_needed))
			days = fmax(days, ceil(r->rows[i].days_needed));
	return (unsigned int)fmin(days, MOST_DAYS);
}

/* All pairs that were treated differently are now one arm's, so that restarts repeat. */
static int add_pairs(const struct compare_arms *a, const struct plan *p, struct sonde_str *out)
{
	const struct sonde_trial *t = &a->trial;
	int err = 0;

	for (size_t i = 0; i < t->n_arms; i++) {
		for (size_t k = 0; k < t->arms[i].n_pairs && !err; k++) {
			const struct sonde_trial_pair *pair = &t->arms[i].pairs[k];

			err = sonde_str_addf(out, "\n[[pair]]\n");
			err = err ? err
				  : add_key(out, "arm",
					    t->arms[i].control ? t->arms[i].name : p->name);
			if (!err && t->arms[i].control)
				err = sonde_str_addf(out, "control = true\n");
			err = err ? err : add_key(out, "treated", t->servers[pair->treated]);
			err = err ? err : add_key(out, "reference", t->servers[pair->reference]);
		}
	}
	return err;
}

static int add_margins(const struct compare_arms *a, struct sonde_str *out)
{
	const struct sonde_text_list *list = &a->args->margins;
	int err = list->n ? sonde_str_addf(out, "\n[margin]\n") : 0;

	for (size_t i = 0; i < list->n && !err; i++) {
		struct sonde_margin_text m;

		err = sonde_margin_split(list->text[i], &m);
		err = err ? err : add_quoted(out, m.metric);
		err = err ? err : sonde_str_addf(out, " = \"%g%%\"\n", 100 * m.margin);
	}
	return err;
}

static int make_text(const struct compare_arms *a, const struct plan *p, struct sonde_str *out)
{
	int err = sonde_str_addf(out, "# %s\n# Expected: %s.\n", p->question, p->expect);

	err = err ? err : add_key(out, "name", p->name);
	err = err ? err : add_key(out, "mode", "observe");
	err = err ? err : add_key(out, "change", p->change);
	err = err ? err
		  : sonde_str_addf(out, "# When it was done; write it down, in UTC:\n"
					"# changed = \"2026-01-31T12:00:00Z\"\n");
	err = err ? err
		  : sonde_str_addf(out, "days_before = 7\ndays_after = %u\n",
				   days_after(&a->result));
	err = err ? err : add_pairs(a, p, out);
	return err ? err : add_margins(a, out);
}

/* ---- files ---- */

static int write_plan(const struct compare_arms *a, const struct plan *p, const char *path)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (a->args->overwrite ? O_TRUNC : O_EXCL);
	sonde_autostr struct sonde_str text = {0};
	sonde_autoclose int fd = -1;
	int err = make_text(a, p, &text);

	if (err)
		return err;
	fd = open(path, flags, 0644);
	if (fd < 0)
		return sonde_err(errno, "cannot write %s: %s%s", path, strerror(errno),
				 errno == EEXIST ? "; --overwrite replaces it" : "");
	if (write(fd, text.s, text.len) != (ssize_t)text.len)
		return sonde_err(EIO, "cannot write all of %s; is the disk full?", path);
	return 0;
}

int sonde_next_plans_write(struct compare_arms *a)
{
	const char *dir = a->args->next_plans;
	int err = 0;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return sonde_err(errno, "cannot make the directory %s: %s", dir, strerror(errno));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(plans) && !err; i++) {
		const char *arm = NULL;
		double points = speaks_for(&a->why, &plans[i], &arm);
		char path[512];

		snprintf(path, sizeof(path), "%s/%s.toml", dir, plans[i].name);
		err = write_plan(a, &plans[i], path);
		if (!err && points >= LEAST_SHARE)
			err = sonde_compare_add_next(a, "%s   %s (%.1f points of the mean of %s)",
						     path, plans[i].question, points, arm);
		else if (!err)
			err = sonde_compare_add_next(a, "%s   %s", path, plans[i].question);
	}
	return err;
}
