/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sites.c and growth.c share. */
#ifndef SONDE_SHOW_SITES_PRIV_H
#define SONDE_SHOW_SITES_PRIV_H

#include "show/sites.h"

#define SONDE_SITES_INDENT 4

/* The functions, innermost first, a line each, and why they end where they do. */
void sonde_sites_print_stack(FILE *out, const struct sonde_stack_row *row);

#endif
