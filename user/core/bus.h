/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Surviving that a mapped file is cut off by somebody else. The kernel's answer to a touch of a
 * page that has gone is SIGBUS, whose default is death without a word.
 */
#ifndef SONDE_CORE_BUS_H
#define SONDE_CORE_BUS_H

/* From now on such a page becomes one of zeros that nobody else sees. May be called again. */
void sonde_bus_survive(void);
/* How often that was so: who maps a file compares it and looks whether the file is still whole. */
unsigned int sonde_bus_count(void);

#endif
