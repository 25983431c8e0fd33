/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The experiments to do next, as plans to edit: what each would change, and what speaks for it. */
#ifndef SONDE_CLI_NEXT_PLANS_H
#define SONDE_CLI_NEXT_PLANS_H

#include "cli/compare_arms.h"

/* Every plan into --next-plans' directory, which is made where it is missing, a file each; what was
 * written is added to the document's next steps. 0 or -errno (logged): -EEXIST without --overwrite.
 */
int sonde_next_plans_write(struct compare_arms *a);

#endif
