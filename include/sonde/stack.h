/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/lib/stack.bpf.h and user space agree on: rows of the unwind tables, the mappings of each
 * process, and a call stack as the kernel side keeps it. A row says how to come from any address up
 * to the next row's to the caller: where the frame begins (the canonical frame address, CFA: the
 * stack pointer before the call), where rbp was saved; the return address is always at CFA - 8.
 */
#ifndef SONDE_STACK_H
#define SONDE_STACK_H

#include "config.h"

#define SONDE_STACK_FRAMES 64	 /* a deeper stack is cut, and counted as cut                  */
#define SONDE_STACKS_MAX   16384 /* different stacks; what comes beyond is counted in one sum    */
#define SONDE_UNWIND_ROWS  (1u << 20) /* of all files together: 8 MiB                           */
#define SONDE_UNWIND_MAPS  256 /* executable mappings of one process                           */

/* How the frame's begin is found. */
enum sonde_unwind_kind {
	SONDE_UNWIND_NONE = 0, /* no table says anything of this address                        */
	SONDE_UNWIND_RSP,      /* rsp + cfa                                                      */
	SONDE_UNWIND_RBP,      /* rbp + cfa                                                      */
	SONDE_UNWIND_PLT,      /* the linkage table's stub: rsp + 8, or + 16 after its push      */
	SONDE_UNWIND_DEREF,  /* the word at rbp - cfa; rbp itself is saved at rbp (realigned stacks)
			      */
	SONDE_UNWIND_SIGNAL, /* the kernel's frame of a signal: all registers are in it        */
	SONDE_UNWIND_END,    /* nobody called this: the first function of a thread             */
	SONDE_UNWIND_HARD,   /* a rule that these rows cannot express                          */
};

/*
 * rule: kind in bits 0-3; where rbp was saved, in 8 bytes below the CFA, in bits 4-11 (0: it was
 * not); cfa in 8 bytes in bits 12-31.
 */
struct sonde_unwind_row {
	sonde_u32 pc; /* an address of the file (p_vaddr), not of the process                    */
	sonde_u32 rule;
};
#define SONDE_UNWIND_KIND(rule)		    ((rule)&15u)
#define SONDE_UNWIND_SAVED(rule)	    (((rule) >> 4 & 255u) * 8)
#define SONDE_UNWIND_CFA(rule)		    (((rule) >> 12) * 8)
#define SONDE_UNWIND_RULE(kind, cfa, saved) ((sonde_u32)(kind) | (saved) / 8 << 4 | (cfa) / 8 << 12)
#define SONDE_UNWIND_CFA_MAX		    (((1u << 20) - 1) * 8)
#define SONDE_UNWIND_SAVED_MAX		    (255u * 8)

/* An executable mapping: its file's addresses are the process's less bias. */
struct sonde_unwind_map {
	sonde_u64 start, end, bias;
	sonde_u32 first, n; /* its file's rows; n 0: it has none */
};

/* The mappings of a process are kept twice, so that they can be renewed under running programs. */
struct sonde_unwind_process {
	sonde_u32 current; /* 0 or 1: which of the two is in use */
	sonde_u32 n[2];
	sonde_u32 pad;
};

static inline __attribute__((always_inline)) sonde_u32
sonde_unwind_map_index(sonde_u32 target, sonde_u32 copy, sonde_u32 i)
{
	return (target * 2 + copy) * SONDE_UNWIND_MAPS + i;
}

/*
 * Rules by full address, found before: one word holds the rule (24 bits, so a cfa below 32 KiB) and
 * what of the address the slot's number does not tell, so that neither can be of another address
 * and no lock is needed. An odd factor makes the map from (address, target) to the word one-to-one.
 */
#define SONDE_UNWIND_CACHE_BITS	   14
#define SONDE_UNWIND_CACHE_TARGETS 128
#define SONDE_UNWIND_CACHE_KEY(pc, target)                                                         \
	((((sonde_u64)(pc) & ((1ull << 47) - 1)) | (sonde_u64)(target) << 47) *                    \
		 0x9e3779b97f4a7c15ull &                                                           \
	 ((1ull << 54) - 1))
#define SONDE_UNWIND_CACHE_SLOT(key) ((sonde_u32)((key) >> 40))
#define SONDE_UNWIND_CACHE_TAG(key)  ((key) << 24)

/* Why a stack ends where it does. Stored in recordings: append, never renumber. */
#define SONDE_STACK_ENDS(X)                                                                        \
	X(0, COMPLETE, "complete", "up to the thread's first function")                            \
	X(1, CUT, "cut", "deeper than 64 frames: the outermost are missing")                       \
	X(2, NO_MAP, "no_map", "a return address lies in no file's code (generated code)")         \
	X(3, NO_TABLE, "no_table", "the code has neither unwind table nor frame pointers")         \
	X(4, HARD, "hard", "the unwind rule is an expression that cannot be followed here")        \
	X(5, FAULT, "fault", "the stack's memory could not be read")                               \
	X(6, ODD, "odd", "the next frame would not lie above the last one")                        \
	X(7, LOST, "lost", "the table of stacks was full: only the sum is known")

enum sonde_stack_end {
#define SONDE_STACK_ENUM(id, sym, name, help) SONDE_STACK_##sym = (id),
	SONDE_STACK_ENDS(SONDE_STACK_ENUM)
#undef SONDE_STACK_ENUM
		SONDE_STACK_END__MAX
};

/* A stack and what was counted for it. The key is a hash of lens, target, end and addresses, never
 * 0; LOST's key is of lens and target, and no hash is one (its top bit is set). */
struct sonde_stack_value {
	sonde_u64 calls, bytes;		  /* of page faults: faults and their ns                  */
	sonde_u64 live_calls, live_bytes; /* of the blocks in the sample                          */
	sonde_u64 live_squares;		  /* sum of (bytes / 16)^2, for the error of the sample   */
	sonde_u32 target, end, n, pad;
	sonde_u64 pcs[SONDE_STACK_FRAMES]; /* innermost first: return addresses */
};
#define SONDE_STACK_LOST_KEY(lens, target) ((sonde_u64)(lens) << 32 | ((target) + 1))
#define SONDE_STACK_HASHED		   (1ull << 63)

/* Live blocks, by address and target. */
struct sonde_live_block {
	sonde_u64 stack, bytes;
};
#define SONDE_LIVE_KEY(address, target) ((address) | (sonde_u64)(target) << 48)
#define SONDE_LIVE_MAX			(512u << 10)

/*
 * Is the block in a sample of one in 2^shift? Allocation and free give the same answer. Addresses
 * of one site lie at equal steps, and one multiplication would keep steps of its own in them: the
 * finalizer of MurmurHash3 (Appleby, public domain) leaves none.
 */
static inline __attribute__((always_inline)) int sonde_live_sampled(sonde_u64 address,
								    sonde_u32 shift)
{
	sonde_u64 h = address;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
	return !((h ^ h >> 33) & ((1ull << shift) - 1));
}

/* The one element of map `site_control`. */
struct sonde_site_control {
	sonde_u32 shift;  /* one live block in 2^shift is followed; only ever grows               */
	sonde_u32 purged; /* the shift that user space has thinned the live blocks out to         */
};

#endif
