/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call stack, named, and what a lens counted for it. The two come apart: counts at every
 * interval, the stack itself once, when its names are known, which may be later than its first
 * counts but is before the end. Strings are borrowed for the duration of the call that passes them.
 */
#ifndef SONDE_MODEL_STACK_H
#define SONDE_MODEL_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sonde/drop.h"
#include "sonde/stack.h"

struct sonde_frame {
	const char *function; /* demangled; "": not known                                        */
	const char *module;   /* the file's path as the target sees it; "": in no file            */
	const char *file;     /* of the source; "": not known                                    */
	uint32_t line;	      /* 0: not known                                                    */
	uint64_t offset; /* address within the module's file (p_vaddr); in no file: the address */
	bool inlined;	 /* into the next frame, which has the same offset                  */
};

struct sonde_stack {
	uint64_t id; /* within the recording */
	uint32_t target;
	enum sonde_stack_end end;
	const struct sonde_frame *frames; /* innermost first; the caller of the function counted */
	size_t n;
};

/* Cumulative since attach, but for what is live. Sums over all stacks are those of the lens. */
struct sonde_stack_count {
	uint64_t ts_ns; /* CLOCK_MONOTONIC */
	enum sonde_lens_id lens;
	uint64_t stack;
	uint32_t target;
	uint64_t calls, bytes; /* of SONDE_LENS_FAULT: page faults, and their ns */
	bool has_live;	       /* blocks are followed from their allocation to their free */
	uint64_t live_calls, live_bytes; /* of what was allocated since attach */
	uint64_t live_error; /* bytes: standard error of live_bytes, 0 where every block is followed
			      */
};

/* "complete", "cut", ...; "?" for an unknown number. */
const char *sonde_stack_end_name(unsigned end);
const char *sonde_stack_end_help(unsigned end);

#endif
