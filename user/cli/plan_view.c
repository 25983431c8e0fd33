// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plan for people. `doctor` and `--dry-run` print from here, so they cannot promise different
 * things.
 */
#include <string.h>

#include "attach/link.h"
#include "cli/plan_view.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "lens/query_source.h"

#define LABEL "%-14s "

static bool probes(const struct sonde_plan_item *item)
{
	return item->alt >= 0 && sonde_link_is_uprobe(item->kind);
}

static bool same_page(const struct sonde_probe_site *a, const struct sonde_probe_site *b)
{
	return a->pid == b->pid && a->dev == b->dev && a->inode == b->inode &&
	       a->site.offset / 4096 == b->site.offset / 4096;
}

/* Was a site of this page counted before item @i, site @k? Plans are small: a plain search will do.
 */
static bool page_seen(const struct sonde_plan *plan, size_t i, size_t k)
{
	const struct sonde_probe_site *site = &plan->items[i].hook->sites[k];

	for (size_t a = 0; a <= i; a++) {
		const struct sonde_hook *hook = plan->items[a].hook;

		for (size_t b = 0; probes(&plan->items[a]) && b < (a == i ? k : hook->n_sites); b++)
			if (same_page(&hook->sites[b], site))
				return true;
	}
	return false;
}

struct sonde_plan_writes sonde_plan_writes(const struct sonde_session_plan *p)
{
	struct sonde_plan_writes w = {0};

	for (size_t i = 0; i < p->plan.n; i++) {
		if (!probes(&p->plan.items[i]))
			continue;
		for (size_t k = 0; k < p->plan.items[i].hook->n_sites; k++) {
			w.sites++;
			w.pages += !page_seen(&p->plan, i, k);
		}
	}
	return w;
}

bool sonde_plan_uses_lens(const struct sonde_session_opts *opts, const struct sonde_lens *lens)
{
	if (lens->id == SONDE_LENS_ALLOC)
		return sonde_session_wants_alloc(opts);
	return lens->id == SONDE_LENS_PROC || opts->lens_mask & 1u << lens->id ||
	       sonde_session_helps(opts, lens->id) || (!opts->lens_mask && !lens->on_request);
}

static void print_item(FILE *out, const struct sonde_plan_item *item)
{
	const struct sonde_hook *hook = item->hook;

	fprintf(out, LABEL "  %s: ", "", hook->purpose ? hook->purpose : hook->name);
	if (item->alt < 0) {
		fprintf(out, "%s\n", item->reason);
		return;
	}
	fprintf(out, "%s", sonde_link_kind_name(item->kind));
	if (hook->alts[item->alt].event)
		fprintf(out, " %s", hook->alts[item->alt].event);
	if (probes(item))
		fprintf(out, " at %zu site%s", hook->n_sites, hook->n_sites == 1 ? "" : "s");
	fputc('\n', out);
	if (item->alt > 0 || item->degraded)
		fprintf(out, LABEL "    %s%s\n", "", item->degraded ? "DEGRADED: " : "",
			item->reason);
}

void sonde_plan_print_lenses(FILE *out, const struct sonde_session_opts *opts,
			     const struct sonde_session_plan *p)
{
	char source[400];

	for (size_t l = 0; l < sonde_lens_count; l++) {
		const struct sonde_lens *lens = sonde_lenses[l];

		if (!sonde_plan_uses_lens(opts, lens)) {
			fprintf(out, LABEL "off%s\n", lens->name,
				lens->id == SONDE_LENS_ALLOC ? " (--alloc-mode)" : " (--lens)");
			continue;
		}
		fprintf(out, LABEL "%s\n", lens->name, lens->summary);
		if (lens->id == SONDE_LENS_QUERY)
			fprintf(out, LABEL "  queries from %s\n", "",
				sonde_query_source_text(&p->plan, &opts->lens, source,
							sizeof(source)));
		for (size_t i = 0; i < p->plan.n; i++)
			if (p->plan.items[i].hook->lens == (int)lens->id)
				print_item(out, &p->plan.items[i]);
	}
}

/* What sets the price of a hit: the link, and for a uprobe the instruction and whether the return
 * is trapped by a program of its own. A session's return is part of it. */
struct price {
	enum sonde_link_kind kind;
	enum sonde_insn_kind insn;
	bool ret;
};

static struct price price_of(const struct sonde_plan_item *item,
			     const struct sonde_probe_site *site)
{
	bool uprobe = site && probes(item);

	return (struct price){
		.kind = item->kind,
		.insn = uprobe ? site->site.kind : SONDE_INSN_STEPPED,
		.ret = uprobe && item->ret_program && site->want_return,
	};
}

static void print_price(FILE *out, const struct sonde_plan_item *item, const struct price *p,
			double ns)
{
	char text[32];

	fprintf(out, "%s", sonde_link_kind_name(p->kind));
	if (probes(item))
		fprintf(out, " (%s%s)",
			p->insn == SONDE_INSN_EMULATED ? "emulated" : "single-stepped",
			p->ret ? ", with its return" : "");
	fprintf(out, " %s", sonde_fmt_ns(text, sizeof(text), ns));
}

void sonde_plan_print_costs(FILE *out, const struct sonde_session_plan *p)
{
	bool told[SONDE_LINK__MAX][2][2] = {0}, first = true;

	for (size_t i = 0; p->calibrated && i < p->plan.n; i++) {
		const struct sonde_plan_item *item = &p->plan.items[i];
		size_t n = probes(item) ? item->hook->n_sites : 1;

		for (size_t k = 0; k < n && item->alt >= 0; k++) {
			const struct sonde_probe_site *site =
				probes(item) ? &item->hook->sites[k] : NULL;
			struct price pr = price_of(item, site);
			double ns = sonde_cost_of_site(&p->calibration, item, site);

			if (ns <= 0 || told[pr.kind][pr.insn][pr.ret])
				continue;
			told[pr.kind][pr.insn][pr.ret] = true;
			if (first)
				fprintf(out, LABEL, "costs a hit");
			fprintf(out, "%s", first ? "" : ", ");
			print_price(out, item, &pr, ns);
			first = false;
		}
	}
	if (!first)
		fprintf(out, " (calibrated here, now)\n");
}

void sonde_plan_print_sites(FILE *out, const struct sonde_session_plan *p)
{
	const char *label = "probes";

	for (size_t i = 0; i < p->plan.n; i++) {
		const struct sonde_hook *hook = p->plan.items[i].hook;

		for (size_t k = 0; probes(&p->plan.items[i]) && k < hook->n_sites; k++) {
			const struct sonde_probe_site *s = &hook->sites[k];

			char whose[32] = "every process of it";

			if (s->pid)
				snprintf(whose, sizeof(whose), "pid %d", s->pid);
			fprintf(out, LABEL "%s+%u at 0x%llx of %s, %s: %s, %s%s\n", label,
				SONDE_PLAIN(s->symbol ? s->symbol : "?"), s->site.slide,
				(unsigned long long)s->site.offset,
				SONDE_PLAIN(s->shown ? s->shown : "?"), whose, s->site.insn,
				s->site.kind == SONDE_INSN_EMULATED ? "emulated (one trap)"
								    : "single-stepped (dear)",
				s->want_return ? ", and its return" : "");
			label = "";
		}
	}
}

void sonde_plan_print_touch(FILE *out, const struct sonde_session_opts *opts,
			    const struct sonde_session_plan *p)
{
	const struct sonde_lens *query = sonde_lens_find("query");
	struct sonde_plan_writes w = sonde_plan_writes(p);

	if (w.sites)
		fprintf(out,
			LABEL
			"%zu breakpoint byte%s into private copies of %zu text page%s, and one "
			"page mapped as [uprobes]; nothing into its data\n",
			"writes", w.sites, w.sites == 1 ? "" : "s", w.pages,
			w.pages == 1 ? "" : "s");
	else
		fprintf(out, LABEL "nothing into the target\n", "writes");
	fprintf(out,
		LABEL "/proc, the target's ELF files and configuration (of which a hash is kept)",
		"reads");
	if (query && sonde_plan_uses_lens(opts, query))
		fprintf(out, "; requests as they pass its sockets (%s)",
			opts->lens.query_text ? "text is kept: --query-text"
					      : "kept with literals replaced");
	fputc('\n', out);
}

void sonde_plan_print_blind_spots(FILE *out, const struct sonde_session_opts *opts)
{
	bool first = true;

	for (size_t l = 0; l < sonde_lens_count; l++) {
		const struct sonde_lens *lens = sonde_lenses[l];

		if (!lens->blind_spots || !*lens->blind_spots || !sonde_plan_uses_lens(opts, lens))
			continue;
		fprintf(out, LABEL "%s: %s\n", first ? "NOT visible" : "", lens->name,
			lens->blind_spots);
		first = false;
	}
}
