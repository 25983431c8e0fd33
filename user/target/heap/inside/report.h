/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the program inside a scratch process writes at each state of its heap, before it waits, at
 * rest, for a byte. No library is assumed on its side.
 */
#ifndef SONDE_TARGET_HEAP_INSIDE_REPORT_H
#define SONDE_TARGET_HEAP_INSIDE_REPORT_H

#include <stdint.h>

#define SONDE_REPORT_MAGIC  0x70616568u
#define SONDE_REPORT_FIELDS 16

/* The program's argument: whose statistics it reports. */
#define SONDE_INSIDE_GLIBC    'g'
#define SONDE_INSIDE_TCMALLOC 't'
#define SONDE_INSIDE_JEMALLOC 'j'
#define SONDE_INSIDE_ARENAS   'J' /* jemalloc: states that show where its arenas' statistics lie */

/*
 * SONDE_INSIDE_ARENAS. States and what they tell: 0: how many arenas there are; 1: two more, their numbers
 * N and N + 1; 2: in arena N each small class J (of v[0]) has had BINS + J + GONE blocks, of which GONE were
 * given back; 3: the same of the first LARGE_TRIED large classes L (of v[0]), with LARGE + L.
 */
#define SONDE_ARENAS_BINS	 60
#define SONDE_ARENAS_LARGE	 40
#define SONDE_ARENAS_LARGE_TRIED 8
#define SONDE_ARENAS_GONE	 17

struct sonde_report {
	uint32_t magic;
	uint32_t state;	 /* counts from 0 */
	uint32_t states; /* how many there are */
	uint32_t n;	 /* fields */
	uint32_t known;	 /* mask of fields that hold a value in this state */
	uint32_t narrow; /* mask of fields of which only the low 32 bits are known */
	uint64_t v[SONDE_REPORT_FIELDS];
};

#endif
