// SPDX-License-Identifier: GPL-2.0-or-later
/* What the alloc lens yields, in each of its modes. */
#include "lens/alloc_metrics.h"

const struct sonde_metric_desc sonde_alloc_metrics[M__MAX] = {
	[M_CALLS] = {"alloc.calls", "count", SONDE_COUNTER, "calls since attach, by function"},
	[M_REQUESTED] = {"alloc.requested", "bytes", SONDE_COUNTER,
			 "bytes asked for since attach, by function"},
	[M_FAILED] = {"alloc.failed", "count", SONDE_COUNTER,
		      "calls that returned no memory, by function"},
	[M_HANDED_OUT] = {"alloc.handed_out", "bytes", SONDE_COUNTER,
			  "bytes of the blocks handed out: their size class, or chunk with header"},
	[M_GIVEN_BACK] = {"alloc.given_back", "bytes", SONDE_COUNTER,
			  "bytes of the blocks given back: their size class, or chunk with header"},
	[M_LIVE] = {"alloc.live", "bytes", SONDE_GAUGE,
		    "change of live bytes since attach: handed out less given back; below 0 when "
		    "memory from before attach was given back"},
	[M_STACKS] = {"alloc.stacks", "count", SONDE_COUNTER,
		      "calls by where their call stack ends (--sites)"},
	[M_CALLS_PER_QUERY] = {"alloc.calls_per_query", "count", SONDE_GAUGE,
			       "windows: allocations of a query by its thread, mean; low and high "
			       "bound it with 95 %"},
	[M_BYTES_PER_QUERY] = {"alloc.bytes_per_query", "bytes", SONDE_GAUGE,
			       "windows: likewise, bytes asked for"},
	[M_MEAN_SIZE] =
		{"alloc.mean_size", "bytes", SONDE_GAUGE,
		 "windows: bytes asked for in a call, mean; low and high bound it with 95 %"},
	[M_SHARE] = {"alloc.share", "ratio", SONDE_GAUGE,
		     "windows: share of the calls seen, by function"},
	[M_RATE] = {"alloc.rate", "count", SONDE_GAUGE,
		    "windows: allocations a second for queries: calls of a query times queries a "
		    "second outside windows"},
	[M_SLOWDOWN] = {"alloc.slowdown", "ratio", SONDE_GAUGE,
			"how many times slower the target is in windows: by queries, else by CPU"},
	[M_WINDOWS] = {"alloc.windows", "count", SONDE_COUNTER,
		       "windows so far; cut: whose allowance was used up before their time"},
	[M_DISTURBED] =
		{"alloc.disturbed_ratio", "ratio", SONDE_GAUGE,
		 "share of the time that windows disturbed, links made and removed included"},
	[M_TRAP_SHARE] = {"alloc.trap_ratio", "ratio", SONDE_GAUGE,
			  "traps' CPU time in windows, by the target's own"},
	[M_ALLOCATED] = {"alloc.allocated", "bytes", SONDE_GAUGE,
			 "live: held by the program by the allocator's own account, what threads "
			 "have in their caches left out"},
	[M_AT_MOST] = {"alloc.at_most", "bytes", SONDE_GAUGE,
		       "upper bound of what is live: free memory in lists is not subtracted where "
		       "it was not walked now"},
	[M_AGE] = {"alloc.age", "ns", SONDE_GAUGE,
		   "age of the oldest part of alloc.allocated: above 0 it is an estimate"},
	[M_HEAP] = {"alloc.heap", "bytes", SONDE_GAUGE,
		    "address space that the allocator has from the system"},
	[M_HEAP_MAPPED] = {"alloc.heap_mapped", "bytes", SONDE_GAUGE,
			   "of it chunks that are mappings of their own, all of them live (glibc)"},
	[M_FREE] = {"alloc.free", "bytes", SONDE_GAUGE, "of it free, by where it is kept"},
	[M_UNMAPPED] = {"alloc.unmapped", "bytes", SONDE_GAUGE,
			"of it given back to the system, address space kept"},
	[M_METADATA] = {"alloc.metadata", "bytes", SONDE_GAUGE,
			"the allocator's own memory, beside its heap"},
	[M_THREADS] = {"alloc.threads", "count", SONDE_GAUGE,
		       "threads whose own counters were read"},
	[M_ENDS_LOST] =
		{"alloc.ends_lost", "count", SONDE_COUNTER,
		 "threads that ended unread: what each did since its last reading is missing"},
	[M_LATE] =
		{"alloc.counted_from", "ns", SONDE_GAUGE,
		 "time observed before counting began: what was handed out and given back then is "
		 "missing, of threads that ended by then if the program began under observation"},
	[M_READ_TIME] = {"alloc.read_time", "ns", SONDE_GAUGE,
			 "time that the latest reading of the heap took"},
	[M_NOT_CLEAN] = {"alloc.not_clean", "count", SONDE_COUNTER,
			 "readings in which a check failed: the heap was changing, or is damaged"},
	[M_LONGEST] = {"alloc.longest_window", "ns", SONDE_GAUGE,
		       "the longest time that a window disturbed the target"},
};
