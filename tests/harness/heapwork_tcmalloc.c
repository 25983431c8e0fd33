// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * heapwork with gperftools' allocator linked in, as a server that brings its own would be.
 *
 * LIBS: -l:libtcmalloc_minimal.a -lstdc++
 */
#include "heapwork.c"
