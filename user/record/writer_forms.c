// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Latency by form of query, for recordings that keep only some queries or none: every query that
 * passes is counted in its form's histogram. They wait in memory for a few seconds, since a
 * second's queries are too few to be worth a row each; a kill loses so much of them.
 */
#include <errno.h>
#include <inttypes.h>

#include "core/mem.h"
#include "record/writer_impl.h"

#define MAX_FORMS 100 /* 31 KiB each; what comes later is "other" */
#define WAIT_NS	  (10 * SONDE_NS_PER_SEC)
#define MINUTE_NS (60 * SONDE_NS_PER_SEC)

static const struct sonde_hist_desc desc = {SONDE_FORM_HIST, "ns",
					    "latency of answered queries of one form, by the "
					    "hexadecimal id of its fingerprint; 'other': of "
					    "those that came after the first hundred forms"};

void sonde_writer_forms_fini(struct sonde_writer *w)
{
	for (size_t i = 0; i < w->n_forms; i++)
		sonde_hist_fini(&w->forms[i].hist);
	free(w->forms);
}

static int get_form(struct sonde_writer *w, uint64_t id, uint32_t target, bool other,
		    struct sonde_form_hist **out)
{
	struct sonde_form_hist form = {.id = id, .target = target, .other = other};

	for (size_t i = 0; i < w->n_forms; i++) {
		*out = &w->forms[i];
		if ((*out)->id == id && (*out)->target == target && (*out)->other == other)
			return 0;
	}
	if (w->n_forms >= MAX_FORMS && !other)
		return get_form(w, 0, target, true, out);
	if (SONDE_GROW(w->forms, w->n_forms, w->cap_forms) || sonde_hist_init(&form.hist))
		return -ENOMEM;
	w->forms[w->n_forms] = form;
	*out = &w->forms[w->n_forms++];
	return 0;
}

int sonde_writer_form_add(struct sonde_writer *w, const struct sonde_span *s)
{
	struct sonde_form_hist *form;
	int err;

	if (!s->last_ns || s->status > SONDE_SPAN_RETRY || s->flags & SONDE_SPAN_F_DISTURBED)
		return 0;
	err = get_form(w, s->fingerprint_id, s->target, false, &form);
	if (err)
		return err;
	if (!w->forms_from_ns)
		w->forms_from_ns = s->last_ns;
	sonde_hist_add(&form->hist, sonde_span_duration_ns(s));
	return form->other ? 0 : sonde_writer_fingerprint(w, s);
}

int sonde_writer_forms_flush(struct sonde_writer *w, uint64_t ts_ns, bool end)
{
	uint64_t from = w->forms_from_ns;
	int err = 0;

	if (!from)
		return 0;
	if (!end && ts_ns < from + WAIT_NS &&
	    (uint64_t)sonde_writer_utc(w, from) / MINUTE_NS ==
		    (uint64_t)sonde_writer_utc(w, ts_ns) / MINUTE_NS)
		return 0;
	for (size_t i = 0; i < w->n_forms && !err; i++) {
		struct sonde_form_hist *f = &w->forms[i];
		char label[24] = "other";
		struct sonde_histrow row = {.desc = &desc,
					    .label = label,
					    .from_ns = from,
					    .to_ns = ts_ns > from ? ts_ns : from + 1,
					    .target = f->target,
					    .hist = &f->hist};

		if (!f->other)
			snprintf(label, sizeof(label), "0x%016" PRIx64, f->id);
		err = sonde_writer_hist(w, &row);
		sonde_hist_reset(&f->hist);
	}
	w->forms_from_ns = ts_ns;
	return err;
}
