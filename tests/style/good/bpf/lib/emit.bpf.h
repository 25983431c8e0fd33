/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "lib/span.bpf.h"
static __always_inline int emit(__u64 at)
{
	return at != 0;
}
