// SPDX-License-Identifier: GPL-2.0-or-later
/* doctor for programs: features, targets, plan, cost of a hit, what is written, what is not
 * visible. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/doctor_json.h"
#include "cli/facts.h"
#include "cli/plan_view.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/query_source.h"
#include "target/heap/heap.h"

const char *sonde_doctor_missing(const struct sonde_features *f)
{
	static const enum sonde_feature needed[] = {SONDE_FEAT_HOST_PIDS, SONDE_FEAT_BPF,
						    SONDE_FEAT_BTF};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(needed); i++)
		if (f->have[needed[i]] == SONDE_NO)
			return sonde_feature_name(needed[i]);
	return NULL;
}

static json_t *features_json(const struct sonde_features *f)
{
	json_t *o = json_object();

	for (int i = 0; i < SONDE_FEAT__MAX; i++) {
		enum sonde_feature feat = (enum sonde_feature)i;

		json_object_set_new(o, sonde_feature_name(feat),
				    json_pack("{s:s, s:s, s:s, s:s}", "answer",
					      sonde_answer_name(f->have[i]), "what",
					      sonde_feature_what(feat), "since",
					      sonde_feature_since(feat), "remedy",
					      sonde_features_advice(f, feat)));
	}
	return o;
}

static json_t *target_json(const struct sonde_session_opts *opts, const struct sonde_target *t)
{
	struct sonde_facts f;
	json_t *o;

	if (sonde_facts_read(t, &f))
		return json_null();
	sonde_facts_use_recipe(&f, opts->lens.recipe);
	o = json_pack("{s:i, s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:I}", "pid",
		      (int)t->pid, "name", f.name, "exe", t->exe ? SONDE_PLAIN(t->exe) : NULL,
		      "build_id", t->build_id, "daemon", f.daemon, "allocator",
		      *f.allocator ? f.allocator : NULL, "thp", *f.thp ? f.thp : NULL, "listens",
		      f.n_listens ? sonde_str_get(&f.listens) : NULL, "recipe",
		      *f.recipe ? f.recipe : NULL, "speaks", f.speaks, "rss_bytes",
		      (json_int_t)f.rss_bytes);
	sonde_facts_fini(&f);
	return o;
}

/* "heap": by what its counters are trusted; or "heap_refused": why they are not read. */
static void add_heap(json_t *o, const struct sonde_session_opts *opts, const struct sonde_target *t)
{
	struct sonde_heap *heap;
	char why[256] = "--passive does not read the target's memory";

	if (!json_is_object(o) || !opts->lens.alloc_counters || !sonde_session_wants_alloc(opts))
		return;
	if (opts->lens.passive || sonde_heap_open(&heap, t->pid, why, sizeof(why))) {
		json_object_set_new(o, "heap_refused", json_string(SONDE_PLAIN(why)));
		return;
	}
	json_object_set_new(o, "heap", json_string(sonde_heap_describe(heap)));
	sonde_heap_close(&heap);
}

static json_t *costs_json(const struct sonde_session_plan *p)
{
	json_t *o = json_object();

	for (size_t i = 0; i < p->plan.n; i++) {
		const struct sonde_plan_item *item = &p->plan.items[i];

		if (item->alt >= 0)
			json_object_set_new(o, item->hook->name,
					    json_real(sonde_cost_per_hit(&p->calibration, item)));
	}
	return o;
}

static json_t *blind_json(const struct sonde_session_opts *opts)
{
	json_t *o = json_object();

	for (size_t l = 0; l < sonde_lens_count; l++)
		if (sonde_plan_uses_lens(opts, sonde_lenses[l]) && sonde_lenses[l]->blind_spots)
			json_object_set_new(o, sonde_lenses[l]->name,
					    json_string(sonde_lenses[l]->blind_spots));
	return o;
}

static int add_plan(json_t *root, const struct sonde_session_opts *opts,
		    const struct sonde_session_plan *p)
{
	struct sonde_str text sonde_autostr = {0};
	struct sonde_plan_writes w = sonde_plan_writes(p);
	json_t *targets = json_array();
	char source[400];
	json_t *t;

	if (sonde_plan_json(&p->plan, &text))
		return -ENOMEM;
	for (size_t i = 0; i < p->targets.n; i++) {
		t = target_json(opts, &p->targets.t[i]);
		add_heap(t, opts, &p->targets.t[i]);
		json_array_append_new(targets, t);
	}
	json_object_set_new(root, "targets", targets);
	json_object_set_new(root, "plan", json_loads(sonde_str_get(&text), 0, NULL));
	json_object_set_new(root, "query_source",
			    json_string(sonde_query_source_text(&p->plan, &opts->lens, source,
								sizeof(source))));
	json_object_set_new(root, "ns_per_hit", costs_json(p));
	json_object_set_new(root, "writes",
			    json_pack("{s:I, s:I}", "breakpoint_bytes", (json_int_t)w.sites,
				      "private_text_pages", (json_int_t)w.pages));
	json_object_set_new(root, "not_visible", blind_json(opts));
	json_object_set_new(root, "ready",
			    json_string(sonde_doctor_missing(&p->features) ? "no"
					: p->plan.degraded		   ? "degraded"
									   : "ok"));
	return 0;
}

int sonde_doctor_json(const struct sonde_features *f, const struct sonde_session_opts *opts,
		      const struct sonde_session_plan *p)
{
	struct utsname u;
	char thp[32];
	json_t *root;
	int err = 0;

	uname(&u);
	sonde_facts_thp_system(thp, sizeof(thp));
	root = json_pack("{s:s, s:s, s:s?, s:o, s:b}", "kernel", u.release, "machine", u.machine,
			 "thp", *thp ? thp : NULL, "features", features_json(f), "attached", 0);
	if (root && p)
		err = add_plan(root, opts, p);
	if (!root || err)
		err = sonde_err(ENOMEM, "out of memory");
	else
		json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	if (!err)
		putchar('\n');
	json_decref(root);
	return err;
}
