/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What observing costs the target. The kernel's own BPF run time leaves out the trap and is 30 to 70
 * times too small for a uprobe, so the trap is calibrated on this machine: a child of sonde calls a
 * function of its own in a loop, with and without an empty program of the same link kind on the same
 * kind of instruction, interleaved; the difference of the minima is the cost of one hit.
 */
#ifndef SONDE_ATTACH_COST_H
#define SONDE_ATTACH_COST_H

#include "attach/hook.h"

struct sonde_calibration {
	/*
	 * ns a hit, by link kind and instruction kind (kernel kinds: the same twice); 0: not calibrated,
	 * since the kind is not available. A return side is what it adds to its entry side.
	 */
	double hit_ns[SONDE_LINK__MAX][2];
	uint64_t took_ns;
};

/*
 * Calibrate the link kinds that @plan uses (all available ones for NULL). Measures about 20 ms a kind;
 * taking the probes off again takes the kernel as long or longer. 0; a kind that could not be measured is
 * warned of and stays 0.
 */
struct sonde_plan;
int sonde_calibrate(const struct sonde_plan *plan, struct sonde_calibration *out);

/* ns of one operation at @site of @item, entry and return together; @site NULL: a kernel hook's. */
struct sonde_plan_item;
double sonde_cost_of_site(const struct sonde_calibration *c, const struct sonde_plan_item *item,
			  const struct sonde_probe_site *site);
/* The same at its first site: a lens lists the site that is hit most often first. */
double sonde_cost_per_hit(const struct sonde_calibration *c, const struct sonde_plan_item *item);

#endif
