/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a function of an allocator do its own work, or hand the operation over to another entry that
 * is counted already? The answer is in its code and differs between builds of one library, so the
 * code is asked: its control flow, with a call or jump to a counted entry as the end of a path.
 */
#ifndef SONDE_TARGET_WRAPPER_H
#define SONDE_TARGET_WRAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/site.h"

#define SONDE_MAX_SPLIT 4

enum sonde_wrap {
	SONDE_WRAP_NEVER = 0, /* no path hands over */
	SONDE_WRAP_ALWAYS,    /* every path hands over, or returns without having done anything */
	SONDE_WRAP_SOMETIMES, /* some paths do the work here */
};

struct sonde_wrapper {
	enum sonde_wrap wrap;
	/*
	 * SOMETIMES: places such that a call that is not handed over passes exactly one of them,
	 * and one that is handed over none. 0: there are no such places. Offsets are from the
	 * entry.
	 */
	struct sonde_site split[SONDE_MAX_SPLIT];
	size_t n_split;
};

/*
 * @code: the @size bytes of the function. @counted tells whether a jump or call to this place
 * (bytes from the function's entry, outside of it) is to a counted entry. @args: registers that the
 * probe reads. 0, -EINVAL for code that cannot be decoded, -ENOMEM.
 */
int sonde_wrapper_analyse(const uint8_t *code, size_t size, unsigned args,
			  bool (*counted)(void *ctx, int64_t target), void *ctx,
			  struct sonde_wrapper *out);

#endif
