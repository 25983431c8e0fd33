/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The page that heapwork shares with who compares readings of its heap with what its allocator
 * says. */
#ifndef SONDE_TESTS_HEAPWORK_H
#define SONDE_TESTS_HEAPWORK_H

#include <stdint.h>

struct heapwork_page {
	uint32_t ask, answer; /* raise the first; the rest holds when the second has followed */
	uint32_t churn;	      /* 0: the threads rest (they do when `resting` equals `threads`) */
	uint32_t threads, resting;
	uint64_t live; /* bytes in use, by the allocator's own statistics */
	uint64_t ops;  /* mallocs and frees so far */
};

#endif
