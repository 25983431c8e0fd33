// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan for people (doctor, --dry-run) and for recordings. Every probe, byte and file is named.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "attach/link.h"
#include "attach/plan.h"
#include "core/mem.h"
#include "core/str.h"

static const char *or_dash(const char *s)
{
	return s ? s : "-";
}

static const char *insn_word(enum sonde_insn_kind kind)
{
	return kind == SONDE_INSN_EMULATED ? "emulated" : "single-stepped";
}

static const struct sonde_alternative *alt_of(const struct sonde_plan_item *item)
{
	return item->alt >= 0 ? &item->hook->alts[item->alt] : NULL;
}

/* Bytes of the target on their way to a terminal. */
static int add_bytes(struct sonde_str *out, const char *bytes)
{
	return sonde_str_add_utf8(out, or_dash(bytes), strlen(or_dash(bytes)));
}

static int site_text(const struct sonde_probe_site *s, struct sonde_str *out)
{
	int err = sonde_str_addf(out, "    ");

	if (!err)
		err = add_bytes(out, s->symbol);
	if (!err)
		err = sonde_str_addf(out, "+%u in ", s->site.slide);
	if (!err)
		err = add_bytes(out, s->shown);
	if (!err)
		err = sonde_str_addf(out, " at offset 0x%lx, pid %d: %s (%s)%s\n",
				     (unsigned long)s->site.offset, s->pid, s->site.insn,
				     insn_word(s->site.kind),
				     s->want_return ? ", and its return" : "");
	return err;
}

static int item_text(const struct sonde_plan_item *item, struct sonde_str *out)
{
	const struct sonde_alternative *alt = alt_of(item);
	int err = sonde_str_addf(out, "%-20s %-15s %-28s %s%s\n", item->hook->name,
				 alt ? sonde_link_kind_name(item->kind) : "-",
				 alt && alt->event ? alt->event : or_dash(item->hook->purpose),
				 item->degraded ? "degraded: " : "", item->reason);

	if (!alt || !sonde_link_is_uprobe(item->kind))
		return err;
	for (size_t i = 0; !err && i < item->hook->n_sites; i++)
		err = site_text(&item->hook->sites[i], out);
	return err;
}

int sonde_plan_text(const struct sonde_plan *plan, struct sonde_str *out)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->n; i++)
		err = item_text(&plan->items[i], out);
	return err;
}

/* Names and paths of the target are bytes, JSON strings are not. */
static json_t *bytes_json(const char *bytes)
{
	sonde_autostr struct sonde_str text = {};

	if (!bytes || sonde_str_add_utf8(&text, bytes, strlen(bytes)))
		return json_null();
	return json_string(sonde_str_get(&text));
}

static json_t *site_json(const struct sonde_probe_site *s)
{
	return json_pack("{s:o, s:o, s:I, s:I, s:i, s:i, s:o, s:s, s:b, s:o}", "symbol",
			 bytes_json(s->symbol), "file", bytes_json(s->shown), "function",
			 (json_int_t)s->site.function, "offset", (json_int_t)s->site.offset,
			 "slide", (int)s->site.slide, "pid", (int)s->pid, "insn",
			 bytes_json(s->site.insn), "insn_kind", insn_word(s->site.kind),
			 "want_return", (int)s->want_return, "cookie",
			 json_sprintf("0x%llx", (unsigned long long)s->cookie));
}

static json_t *item_json(const struct sonde_plan_item *item)
{
	const struct sonde_alternative *alt = alt_of(item);
	json_t *sites = json_array(), *obj;

	for (size_t i = 0; alt && sonde_link_is_uprobe(item->kind) && i < item->hook->n_sites; i++)
		json_array_append_new(sites, site_json(&item->hook->sites[i]));
	obj = json_pack("{s:s, s:i, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:b, s:s, s:o}", "hook",
			item->hook->name, "lens", item->hook->lens, "link",
			alt ? sonde_link_kind_name(item->kind) : NULL, "program",
			alt ? item->program : NULL, "return_program",
			alt ? item->ret_program : NULL, "event", alt ? alt->event : NULL, "purpose",
			item->hook->purpose, "guarded", (int)item->hook->guarded, "degraded",
			(int)item->degraded, "reason", item->reason, "sites", sites);
	return obj;
}

int sonde_plan_json(const struct sonde_plan *plan, struct sonde_str *out)
{
	json_t *items = json_array(), *root;
	char *text;
	int err;

	for (size_t i = 0; i < plan->n; i++)
		json_array_append_new(items, item_json(&plan->items[i]));
	root = json_pack("{s:b, s:b, s:I, s:o}", "degraded", (int)plan->degraded, "has_uprobes",
			 (int)plan->has_uprobes, "n_sites", (json_int_t)plan->n_sites, "items",
			 items);
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	if (!text)
		return -ENOMEM;
	err = sonde_str_addf(out, "%s", text);
	free(text);
	return err;
}
