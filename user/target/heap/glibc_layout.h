/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where glibc's malloc keeps its figures. Offsets are those of struct malloc_state, malloc_par and
 * of the per-thread cache; addresses are the file's own. Inside target/heap only.
 */
#ifndef SONDE_TARGET_HEAP_GLIBC_LAYOUT_H
#define SONDE_TARGET_HEAP_GLIBC_LAYOUT_H

#include "target/heap/heap.h"

/* Slots of the layout. */
enum sonde_glibc_slot {
	GLIBC_MAIN_ARENA = 0, /* address of the first arena                                  */
	GLIBC_NEXT,	      /* in an arena: the next, in a ring                            */
	GLIBC_SYSTEM_MEM,     /* bytes it took from the system                               */
	GLIBC_FAST,	      /* fast bins, an array of singly linked lists up to TOP        */
	GLIBC_TOP,	      /* the top chunk; 16 bytes a bin from here on                  */
	GLIBC_N_MMAPS,	      /* address: number of chunks that are mappings (32 bits)       */
	GLIBC_MMAPPED_MEM,    /* address: their bytes                                        */
	GLIBC_SAFE_LINK,      /* 1: links of fast bins are mangled by their own address      */
	GLIBC_TCACHE_SLOT,    /* address of a word: offset from the thread pointer; 0: none  */
	GLIBC_TCACHE_TP,      /* that offset itself, in a static program; 0: none            */
	GLIBC_TCACHE_COUNTS,  /* in a thread's cache: the number of chunks by size           */
	GLIBC_TCACHE_WIDTH,   /* bytes of such a number                                      */
	GLIBC_SLOTS,
};

/* Numbers that malloc.c fixes for x86-64 and no field tells. */
#define GLIBC_BINS	  127 /* numbered from 1 */
#define GLIBC_TCACHE_BINS 64
#define GLIBC_CHUNK_MIN	  32u
#define GLIBC_CHUNK_STEP  16u

extern const struct sonde_heap_slot sonde_glibc_slots[GLIBC_SLOTS];
int sonde_glibc_derive(struct sonde_elf *elf, struct sonde_heap_layout *out);

#endif
