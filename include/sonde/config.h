/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What user space tells the BPF side. `struct sonde_config` is fixed at load (the verifier deletes the
 * code it switches off); `struct sonde_control` may change while programs run.
 */
#ifndef SONDE_CONFIG_H
#define SONDE_CONFIG_H

#include "limits.h"

#ifdef __bpf__
typedef __u16 sonde_u16;
typedef __u32 sonde_u32;
typedef __u64 sonde_u64;
#else
#include <stdint.h>
typedef uint16_t sonde_u16;
typedef uint32_t sonde_u32;
typedef uint64_t sonde_u64;
#endif

/* Lives in section `.rodata.sonde_cfg` of every object, set with bpf_map__set_initial_value(). */
struct sonde_config {
	sonde_u32 text_bytes;	 /* request bytes to capture per query, <= SONDE_TEXT_BYTES        */
	sonde_u32 span_events;	 /* 1: send one ring record per query; 0: histograms only          */
	sonde_u32 per_query;	 /* 1: charge allocation and faults to the thread's open query     */
	sonde_u32 windows;	 /* 1: probes are attached in windows: queries are told apart by them */
	sonde_u32 query_source;	 /* enum sonde_query_source                                        */
	sonde_u32 handlers;	 /* 1: a recipe's handlers are probed                              */
	sonde_u32 anatomy;	 /* 1: a query's time is divided into parts                        */
	sonde_u32 pad;
	sonde_u64 slower_than_ns; /* send only spans at least this long (0: all)                   */
};

/* The one element of map `control`. A program returns at once unless ready is 1. */
struct sonde_control {
	sonde_u32 ready;
	sonde_u32 only_tid;  /* 0: every thread                                                    */
	sonde_u32 only_comm; /* 1: compare comm below                                              */
	sonde_u32 follow_children; /* 1: a forked child of a target becomes a target               */
	char comm[SONDE_COMM_BYTES];
};

/*
 * Value of map `guards`, one for each lens: the process that holds its dear probes. It lets go of them one
 * after the other, which takes up to a second; so that a free is not missed whose malloc was counted, all
 * of the lens's programs stop counting at the moment that the process begins to exit.
 */
struct sonde_guard_slot {
	sonde_u32 tgid; /* 0: none                                                                 */
	sonde_u32 pad;
	sonde_u64 lost_ns; /* CLOCK_MONOTONIC; 0: it lives                                         */
};

/* Value of map `targets`, keyed by tgid. */
struct sonde_target_slot {
	sonde_u32 index; /* the target's number in the session                                     */
	sonde_u32 flags;
};

#endif
