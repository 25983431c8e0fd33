// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts by call stack over generations: a new one counts from 0 again, the series goes on. What is
 * live starts anew, since the free of an older block is no longer seen as one.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "session/internal.h"

/* An address-space of its own for each target keeps stacks of different programs apart. */
static struct stack_row **slot_of(struct stack_rebase *r, const struct sonde_stack_count *c)
{
	size_t i = ((c->stack ^ c->lens) * 0x9e3779b97f4a7c15ull >> 40) % STACK_REBASE_SLOTS;
	struct stack_row **at = &r->slot[i];

	while (*at && ((*at)->stack != c->stack || (*at)->lens != c->lens))
		at = &(*at)->next;
	return at;
}

static struct stack_row *row_of(struct stack_rebase *r, const struct sonde_stack_count *c)
{
	struct stack_row **at = slot_of(r, c);

	if (*at)
		return *at;
	*at = calloc(1, sizeof(**at));
	if (*at) {
		(*at)->stack = c->stack;
		(*at)->lens = c->lens;
	}
	return *at;
}

int gate_stack_count(void *ctx, const struct sonde_stack_count *c)
{
	struct session *s = ctx;
	struct sonde_stack_count copy = *c;
	struct stack_row *row;

	if (s->baseline)
		return 0;
	row = row_of(&s->stack_rebase, c);
	if (!row)
		return -ENOMEM;
	row->calls = c->calls;
	row->bytes = c->bytes;
	copy.calls += row->base_calls;
	copy.bytes += row->base_bytes;
	return sonde_visit(&s->out, stack_count, &copy);
}

void stack_rebase_generation(struct stack_rebase *r)
{
	for (size_t i = 0; i < STACK_REBASE_SLOTS; i++) {
		for (struct stack_row *row = r->slot[i]; row; row = row->next) {
			row->base_calls += row->calls;
			row->base_bytes += row->bytes;
			row->calls = row->bytes = 0;
		}
	}
}

void stack_rebase_fini(struct stack_rebase *r)
{
	for (size_t i = 0; i < STACK_REBASE_SLOTS; i++) {
		while (r->slot[i]) {
			struct stack_row *next = r->slot[i]->next;

			free(r->slot[i]);
			r->slot[i] = next;
		}
	}
}
