/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The summary's sections, each from a snapshot and each silent when its lens was not there. Every
 * figure has its unit; what cannot be told is said with the reason.
 */
#ifndef SONDE_SHOW_SUMMARY_H
#define SONDE_SHOW_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include "model/snapshot.h"

void sonde_summary_target(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns);
void sonde_summary_memory(FILE *out, const struct sonde_snapshot *s);
void sonde_summary_queries(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns);
/* Where the time of all queries went, in one line; nothing where that was not seen. */
void sonde_summary_parts(FILE *out, const struct sonde_snapshot *s);
/* @all: every thread, mapping and site, not only the most frequent. */
void sonde_summary_faults(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns,
			  bool all);
void sonde_summary_thp(FILE *out, const struct sonde_snapshot *s);
/* Would it say anything: was the THP lens there? */
bool sonde_summary_has_thp(const struct sonde_snapshot *s);
void sonde_summary_stall(FILE *out, const struct sonde_snapshot *s);
/* Who asks the allocator for statistics; nothing where nobody does. */
void sonde_summary_ask(FILE *out, const struct sonde_snapshot *s);
void sonde_summary_alloc(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns);
void sonde_summary_notes(FILE *out, const struct sonde_snapshot *s);
void sonde_summary_cost(FILE *out, const struct sonde_snapshot *s);
/* Only sonde's own part of it. */
void sonde_summary_own_cost(FILE *out, const struct sonde_snapshot *s);

/* A line each label of histogram @name, under @heading; nothing if it has none. @title says a label
 * in words. */
typedef const char *sonde_summary_title(const char *label, char *buf, size_t size);
void sonde_summary_labels(FILE *out, const struct sonde_snapshot *s, const char *name,
			  const char *heading, sonde_summary_title *title);

/* What a fault of that series did, in words. */
sonde_summary_title sonde_fault_title;

/* What windows of probes saw of allocation; nothing where there were none. */
void sonde_summary_windows(FILE *out, const struct sonde_snapshot *s);
/* What the allocator itself says of its heap; nothing where that was not read. */
void sonde_summary_heap(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns);
/* Does the function behind this label of alloc.calls hand out memory, rather than take it back? */
bool sonde_summary_allocates(const char *label);

/* Share of the target's CPU that observing added, from cost.probe_time and proc.cpu_*; < 0:
 * unknown. */
double sonde_summary_cost_ratio(const struct sonde_snapshot *s);

#endif
