// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * heapwork with glibc's malloc linked in: its data has names in .symtab, and no library could be
 * loaded by another process.
 *
 * LIBS: -static
 */
#include "heapwork.c"
