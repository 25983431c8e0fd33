// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The `ret` instructions at which a call of a function can end. The invariant: all or none. A tail
 * jump is followed to where it leads, through the linkage table too if the file itself defines the
 * name; one that leads nobody knows where refuses the function.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "target/elf.h"
#include "target/returns.h"

#define MAX_FUNCTIONS 64
#define MAX_RETURNS   512

struct search {
	struct sonde_elf *elf;
	bool (*counted)(void *ctx, uint64_t function);
	void *ctx;
	uint64_t functions[MAX_FUNCTIONS], size; /* size: of the first, 0 unknown */
	size_t n_functions;
	uint64_t *out;
	size_t n, cap;
	char *why;
	size_t why_size;
};

static int refuse(const struct search *s, uint64_t at, const char *what)
{
	snprintf(s->why, s->why_size, "%s at file offset 0x%lx", what, (unsigned long)at);
	return -EOPNOTSUPP;
}

static int add_return(struct search *s, uint64_t offset)
{
	int err;

	for (size_t i = 0; i < s->n; i++)
		if (s->out[i] == offset)
			return 0;
	if (s->n == MAX_RETURNS)
		return refuse(s, s->functions[0], "too many returns of the function");
	err = SONDE_GROW(s->out, s->n, s->cap);
	if (!err)
		s->out[s->n++] = offset;
	return err;
}

/* A tail jump, or a part of the linkage table, at @from leads to the function at @to. */
static int add_function(struct search *s, uint64_t from, uint64_t to)
{
	uint64_t start, size;

	for (size_t i = 0; i < s->n_functions; i++)
		if (s->functions[i] == to)
			return 0;
	if (s->counted(s->ctx, to))
		return 0;
	if (s->n_functions == MAX_FUNCTIONS)
		return refuse(s, from, "too many functions behind a tail jump");
	if (sonde_elf_function_at(s->elf, to, &start, &size) || start != to)
		return refuse(s, from, "a tail jump into the middle of a function");
	s->functions[s->n_functions++] = to;
	return 0;
}

/* Through the linkage table, at @slot the jump by its word. */
static int add_linked(struct search *s, uint64_t from, uint64_t slot)
{
	const char *symbol;
	struct sonde_sym sym;

	if (sonde_elf_plt_symbol(s->elf, slot, &symbol))
		return refuse(s, from, "an indirect tail jump");
	if (sonde_elf_find(s->elf, symbol, &sym))
		return refuse(s, from, "a tail jump to another file");
	return add_function(s, from, sym.offset);
}

static int add_way(struct search *s, const struct sonde_way *way)
{
	const char *symbol;

	if (way->flow == SONDE_FLOW_RET)
		return add_return(s, way->offset);
	if (way->flow == SONDE_FLOW_JMP_SLOT)
		return add_linked(s, way->offset, way->offset);
	if (!sonde_elf_plt_symbol(s->elf, way->target, &symbol))
		return add_linked(s, way->offset, way->target);
	return add_function(s, way->offset, way->target);
}

static int search_function(struct search *s, size_t i)
{
	sonde_autofree struct sonde_way *ways = NULL;
	size_t n = 0;
	int err = sonde_site_ways(s->elf, s->functions[i], i ? 0 : s->size, &ways, &n);

	if (err == -ENOMEM)
		return err;
	if (err)
		return refuse(s, s->functions[i],
			      err == -EOPNOTSUPP ? "an indirect tail jump in the function"
						 : "code that cannot be read");
	for (size_t k = 0; !err && k < n; k++)
		err = add_way(s, &ways[k]);
	return err;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int sonde_site_returns(struct sonde_elf *elf, uint64_t function, uint64_t size,
		       bool (*counted)(void *ctx, uint64_t function), void *ctx, uint64_t **out,
		       size_t *n, char *why, size_t why_size)
{
	struct search s = {.elf = elf,
			   .counted = counted,
			   .ctx = ctx,
			   .functions = {function},
			   .size = size,
			   .n_functions = 1,
			   .why = why,
			   .why_size = why_size};
	int err = 0;

	for (size_t i = 0; !err && i < s.n_functions; i++)
		err = search_function(&s, i);
	if (err) {
		free(s.out);
		return err;
	}
	if (s.n)
		qsort(s.out, s.n, sizeof(*s.out), by_value);
	*out = s.out;
	*n = s.n;
	return 0;
}
