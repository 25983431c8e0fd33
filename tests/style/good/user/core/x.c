// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

#include "core/x.h"
#include "sonde/limits.h"

static __thread int depth;
_Static_assert(sizeof(int) == 4, "numbers");

unsigned long __attribute__((noinline)) sonde_x(const char *s)
{
	depth++; /* a comment may go on a little longer than the code it stands beside, as it does here */

	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;
	depth++;

	return strtoul(s, NULL, 10);
}
