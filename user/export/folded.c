// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Folded stacks, as flame graph tools read them: outermost function first, joined by ';', a blank
 * and the bytes asked for, or page faults. A stack that is not whole begins with where it ends in
 * brackets, so that it stands beside the whole ones and not among them.
 */
#include <errno.h>

#include "core/err.h"
#include "core/mem.h"
#include "export/export.h"
#include "model/stacks.h"

static int add_name(struct sonde_str *line, const char *name)
{
	sonde_autostr struct sonde_str clean = {0};
	int err = sonde_str_add_utf8(&clean, name, strlen(name));

	for (size_t i = 0; i < clean.len && !err; i++)
		err = sonde_str_addc(line, clean.s[i] == ';'	? ':'
					   : clean.s[i] == '\n' ? ' '
								: clean.s[i]);
	return err;
}

static int add_frame(struct sonde_str *line, const struct sonde_frame *f)
{
	char name[4096];
	int err = line->len ? sonde_str_addc(line, ';') : 0;

	return err ? err : add_name(line, sonde_frame_text(name, sizeof(name), f));
}

static int put_group(struct sonde_export *x, const struct sonde_site_group *g, uint64_t weight)
{
	sonde_autostr struct sonde_str line = {0};
	const struct sonde_stack_row *row = g->row;
	int err = 0;

	if (!row->defined)
		err = sonde_str_addf(&line, "[unnamed]");
	else if (row->end != SONDE_STACK_COMPLETE)
		err = sonde_str_addf(&line, "[%s]", sonde_stack_end_name(row->end));
	for (size_t i = row->n; i > 0 && !err; i--)
		err = add_frame(&line, &row->frames[i - 1]);
	err = err ? err : sonde_str_addf(&line, " %llu\n", (unsigned long long)weight);
	return err ? sonde_err(ENOMEM, "cannot export: out of memory") : sonde_export_put(x, &line);
}

static int folded_open(struct sonde_export *x)
{
	struct sonde_stack_table *t = calloc(1, sizeof(*t));

	if (!t)
		return sonde_err(ENOMEM, "cannot export: out of memory");
	sonde_stack_table_init(t);
	x->priv = t;
	sonde_export_take_stacks(x, t);
	return 0;
}

static int folded_close(struct sonde_export *x)
{
	struct sonde_stack_table *t = x->priv;
	struct sonde_site_group *g = NULL;
	size_t n = 0;
	enum sonde_lens_id lens = SONDE_LENS_ALLOC;
	int err = sonde_export_groups(x, &lens, &g, &n);

	for (size_t i = 0; i < n && !err; i++)
		err = put_group(x, &g[i], lens == SONDE_LENS_FAULT ? g[i].calls : g[i].bytes);
	sonde_site_groups_fini(g, n);
	sonde_stack_table_fini(t);
	free(t);
	return err;
}

const struct sonde_exporter sonde_export_folded = {
	.name = "folded",
	.summary = "call stacks with their bytes or page faults, a line each, as flame graph tools "
		   "read them",
	.suffix = ".folded",
	.takes = SONDE_TAKES_STACK,
	.open = folded_open,
	.close = folded_close,
};
