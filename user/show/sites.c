// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Call sites as text. A site is a whole call stack; the table names the function that called the
 * allocator, and under it its callers, until the thread begins or the table would grow too long.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/sites.h"
#include "show/sites_priv.h"

#define B(v) sonde_fmt_bytes((char[32]){0}, 32, (double)(v))
#define N(v) sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))

#define CALLERS_SHOWN  12
#define NAME_MAX_SHOWN 160

struct totals {
	uint64_t calls, bytes, live_bytes;
	uint64_t
		ends[SONDE_STACK_END__MAX + 1]; /* calls by where their stack ends; last: unnamed */
	double variance;
	bool has_live;
};

static unsigned end_of(const struct sonde_stack_row *row)
{
	return row->defined && row->end < SONDE_STACK_END__MAX ? row->end : SONDE_STACK_END__MAX;
}

static struct totals sum(const struct sonde_site_group *g, size_t n)
{
	struct totals t = {0};

	for (size_t i = 0; i < n; i++) {
		t.calls += g[i].calls;
		t.bytes += g[i].bytes;
		t.live_bytes += g[i].live_bytes;
		t.variance += g[i].live_variance;
		t.has_live |= g[i].has_live;
		t.ends[end_of(g[i].row)] += g[i].calls;
	}
	return t;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* "lv_leaf (stackwork.c:81)", "operator new(unsigned long) in libstdc++.so.6". */
static void print_frame(FILE *out, const struct sonde_frame *f, const char *lead)
{
	char name[1024];
	const char *slash = strrchr(f->module, '/');

	sonde_frame_text(name, sizeof(name), f);
	fprintf(out, "%*s%s%.*s", SONDE_SITES_INDENT, "", lead, NAME_MAX_SHOWN, SONDE_PLAIN(name));
	if (strlen(name) > NAME_MAX_SHOWN)
		fputs("...", out);
	if (*f->file && f->line)
		fprintf(out, " (%s:%u)", SONDE_PLAIN(f->file), f->line);
	else if (*f->function && *f->module)
		fprintf(out, " in %s", SONDE_PLAIN(slash ? slash + 1 : f->module));
	fputs(f->inlined ? ", inlined\n" : "\n", out);
}

void sonde_sites_print_stack(FILE *out, const struct sonde_stack_row *row)
{
	size_t shown = row->n > CALLERS_SHOWN + 1 ? CALLERS_SHOWN : row->n;

	for (size_t i = 0; i < shown; i++)
		print_frame(out, &row->frames[i], i ? "< " : "");
	if (shown < row->n)
		fprintf(out, "%*s< %zu more, outermost:\n", SONDE_SITES_INDENT, "", row->n - shown);
	if (shown < row->n)
		print_frame(out, &row->frames[row->n - 1], "< ");
	if (!row->defined)
		fprintf(out, "%*s(recorded without its names: the recording was cut short)\n",
			SONDE_SITES_INDENT, "");
	else if (row->end != SONDE_STACK_COMPLETE)
		fprintf(out, "%*s(%s)\n", SONDE_SITES_INDENT, "", sonde_stack_end_help(row->end));
}

/* How many of them, @what, have their whole stack, and why the others have not. */
static void print_ends(FILE *out, const struct totals *t, const char *what)
{
	fprintf(out, "%.*f %% of the %s have their whole stack\n",
		t->ends[SONDE_STACK_COMPLETE] == t->calls ? 0 : 2,
		percent(t->ends[SONDE_STACK_COMPLETE], t->calls), what);
	for (unsigned i = 0; i < SONDE_STACK_END__MAX; i++)
		if (i != SONDE_STACK_COMPLETE && t->ends[i])
			fprintf(out, "  %.2f %%: %s\n", percent(t->ends[i], t->calls),
				sonde_stack_end_help(i));
}

static void print_heading(FILE *out, size_t n, const struct totals *t)
{
	fprintf(out, "Call sites: %s different stacks asked for %s in %s calls; ", N(n),
		B(t->bytes), N(t->calls));
	print_ends(out, t, "calls");
	if (!t->has_live) {
		fputs("Live bytes by call site are not known: frees were not followed (in "
		      "windows, and with an allocator whose blocks are not all seen)\n",
		      out);
		return;
	}
	fprintf(out, "Live at the end, of what was allocated since attach: %s", B(t->live_bytes));
	if (t->variance > 0)
		fprintf(out, " +- %s (95 %%: a sample of the blocks was followed)",
			B(1.96 * sqrt(t->variance)));
	fputc('\n', out);
}

static void print_group(FILE *out, const struct sonde_site_group *g, const struct totals *t)
{
	fprintf(out, "%11s %6.2f %% %12s", B(g->bytes), percent(g->bytes, t->bytes), N(g->calls));
	if (g->has_live)
		fprintf(out, " %11s %10s", B(g->live_bytes), N(g->live_calls));
	else
		fprintf(out, " %11s %10s", "-", "-");
	if (g->live_variance > 0)
		fprintf(out, "  live +- %s", B(1.96 * sqrt(g->live_variance)));
	fputc('\n', out);
	sonde_sites_print_stack(out, g->row);
}

static void print_allocs(FILE *out, const struct sonde_site_group *g, size_t n, size_t rows)
{
	struct totals t = sum(g, n);

	print_heading(out, n, &t);
	fprintf(out, "%11s %8s %12s %11s %10s\n", "bytes", "of all", "calls", "live bytes",
		"blocks");
	for (size_t i = 0; i < n && i < rows; i++)
		print_group(out, &g[i], &t);
}

static void print_faults(FILE *out, const struct sonde_site_group *g, size_t n, size_t rows)
{
	struct totals t = sum(g, n);

	fprintf(out, "Page faults: %s different stacks took %s faults of %s in all; ", N(n),
		N(t.calls), NS(t.bytes));
	print_ends(out, &t, "faults");
	fprintf(out, "%11s %8s %12s %8s\n", "time", "of all", "faults", "of all");
	for (size_t i = 0; i < n && i < rows; i++) {
		fprintf(out, "%11s %6.2f %% %12s %6.2f %%\n", NS(g[i].bytes),
			percent(g[i].bytes, t.bytes), N(g[i].calls), percent(g[i].calls, t.calls));
		sonde_sites_print_stack(out, g[i].row);
	}
}

static const struct {
	enum sonde_lens_id lens;
	void (*print)(FILE *out, const struct sonde_site_group *g, size_t n, size_t rows);
} tables[] = {{SONDE_LENS_ALLOC, print_allocs}, {SONDE_LENS_FAULT, print_faults}};

int sonde_sites_print(FILE *out, const struct sonde_stack_table *table, size_t rows)
{
	bool any = false;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(tables); i++) {
		struct sonde_site_group *g = NULL;
		size_t n = 0;
		int err = sonde_site_groups(table, tables[i].lens, false, &g, &n);

		if (err)
			return err;
		if (n && any)
			fputc('\n', out);
		if (n)
			tables[i].print(out, g, n, rows);
		if (n > rows)
			fprintf(out, "%zu more; --sites=%zu shows them\n", n - rows, n);
		any |= n;
		sonde_site_groups_fini(g, n);
	}
	return any ? 0 : sonde_stack_table_empty(table, UINT32_MAX, "");
}
