// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exact mode slows the target by orders: say by how much, and ask. The price is that of the sites
 * which the plan has chosen for the functions that programs call, not that of the dearest one.
 */
#include <errno.h>

#include "core/err.h"
#include "core/mem.h"
#include "session/internal.h"
#include "sonde/alloc.h"

#define QUERY_ALLOCATIONS 1300 /* of a searchd query, measured */

/* A run of the lens's program, which calibration's empty one lacks: 2.20 us a malloc and free pair
 * measured where the three traps were calibrated at 1.72 us. */
#define PROGRAM_NS 160

/* Of the sites of a hook with this operation the first, since a lens lists the busiest first. 0:
 * none. */
static double price_in(const struct sonde_plan_item *item, const struct sonde_calibration *c,
		       enum sonde_alloc_op op)
{
	bool twice = item->kind == SONDE_LINK_UPROBE_SESSION || item->ret_program;

	for (size_t k = 0; k < item->hook->n_sites; k++) {
		const struct sonde_probe_site *s = &item->hook->sites[k];

		if (SONDE_ALLOC_COOKIE_OP(s->cookie) == op)
			return sonde_cost_of_site(c, item, s) + PROGRAM_NS * (twice ? 2 : 1);
	}
	return 0;
}

/* Of several hooks (allocators, targets) the dearest; where returns are probed by their own hook,
 * with such a return. */
static double price_of(const struct sonde_plan *plan, const struct sonde_calibration *c,
		       enum sonde_alloc_op op)
{
	double most = 0, take = 0, ret = 0;

	for (size_t i = 0; i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];
		double ns, *to = &most;

		if (item->alt < 0 || item->hook->lens != SONDE_LENS_ALLOC)
			continue;
		if (!strcmp(item->hook->name, "alloc.take"))
			to = &take;
		else if (!strcmp(item->hook->name, "alloc.ret"))
			to = &ret;
		ns = price_in(item, c, op);
		*to = ns > *to ? ns : *to;
	}
	take = take > 0 ? take + ret : 0;
	return take > most ? take : most;
}

static double pair(const struct sonde_plan *plan, const struct sonde_calibration *c,
		   enum sonde_alloc_op take, enum sonde_alloc_op give)
{
	double a = price_of(plan, c, take), b = price_of(plan, c, give);

	return a > 0 && b > 0 ? a + b : 0;
}

struct session_pairs session_pairs_of(const struct sonde_plan *plan,
				      const struct sonde_calibration *c)
{
	double sized = pair(plan, c, SONDE_ALLOC_NEW, SONDE_ALLOC_DELETE_SIZED);
	struct session_pairs p = {
		.malloc_ns = pair(plan, c, SONDE_ALLOC_MALLOC, SONDE_ALLOC_FREE),
		.new_ns = pair(plan, c, SONDE_ALLOC_NEW, SONDE_ALLOC_DELETE),
	};

	p.new_ns = sized > p.new_ns ? sized : p.new_ns;
	/* The allocator's own functions run inside operator new and delete. */
	if (p.new_ns > 0 && sonde_plan_find(plan, "alloc.wrapper"))
		p.new_ns += p.malloc_ns;
	return p;
}

static void price_text(const struct session_pairs *p, char *buf, size_t size)
{
	double a = p->malloc_ns > 0 ? p->malloc_ns : p->new_ns;
	double b = p->new_ns > 0 ? p->new_ns : a;

	if (p->malloc_ns > 0 && p->new_ns > 0)
		snprintf(buf, size,
			 "a malloc and free pair costs the target about %.1f us more, new and "
			 "delete %.1f us (calibrated now): a query of %d allocations takes about "
			 "%.1f to %.1f ms longer",
			 a / 1e3, b / 1e3, QUERY_ALLOCATIONS,
			 QUERY_ALLOCATIONS * (a < b ? a : b) / 1e6,
			 QUERY_ALLOCATIONS * (a < b ? b : a) / 1e6);
	else if (a > 0)
		snprintf(buf, size,
			 "a %s pair costs the target about %.1f us more (calibrated now): a query "
			 "of %d allocations takes about %.1f ms longer",
			 p->malloc_ns > 0 ? "malloc and free" : "new and delete", a / 1e3,
			 QUERY_ALLOCATIONS, QUERY_ALLOCATIONS * a / 1e6);
	else
		snprintf(buf, size, "what that costs could not be calibrated");
}

int session_ask_consent(struct session *s)
{
	struct session_pairs p = session_pairs_of(&s->plan, &s->calibration);
	char question[512], price[256];

	if (s->opts->alloc_mode != SONDE_ALLOC_MODE_EXACT || s->nothing_to_count)
		return 0;
	price_text(&p, price, sizeof(price));
	snprintf(question, sizeof(question),
		 "exact mode traps every allocation and every free: %s; attach%s for %.3g s?",
		 price,
		 s->opts->lens.sites ? " (and each walks its call stack: 0.1 to 0.2 us a frame)"
				     : "",
		 (double)s->opts->duration_ns / (double)SONDE_NS_PER_SEC);
	if (s->opts->consent && s->opts->consent(s->opts->consent_ctx, question))
		return 0;
	return sonde_err(ECANCELED, "not attached: exact mode was not agreed to (--yes agrees)");
}
