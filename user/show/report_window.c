// SPDX-License-Identifier: GPL-2.0-or-later
/* See report_window.h. A span goes through the snapshot's own hook, as a histogram of one value. */
#include <errno.h>
#include <string.h>

#include "core/num.h"
#include "core/str.h"
#include "show/report_window.h"

#define N(v) sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

static const struct sonde_hist_desc latency = {"query.latency", "ns", "from traces"};
static const struct sonde_hist_desc wait = {"query.wait", "ns", "from traces"};
static const struct sonde_hist_desc service = {"query.service", "ns", "from traces"};

static int add(struct sonde_snapshot *to, const struct sonde_hist_desc *desc, const char *label,
	       uint64_t ns)
{
	struct sonde_snap_hist *h =
		(struct sonde_snap_hist *)sonde_snapshot_find_hist(to, desc->name, label, 0);
	struct sonde_hist none = {.min = UINT64_MAX};
	struct sonde_histrow row = {.desc = desc, .label = label, .hist = &none};
	int err;

	if (!h) {
		err = sonde_hist_init(&none);
		if (!err)
			err = sonde_visit(&to->visitor, hist, &row);
		sonde_hist_fini(&none);
		if (err)
			return err;
		h = &to->hists[to->n_hists - 1];
	}
	sonde_hist_add(&h->total, ns);
	return 0;
}

int sonde_window_add(struct sonde_snapshot *spans, const struct sonde_span *s)
{
	int err;

	if (s->flags & SONDE_SPAN_F_DISTURBED || !s->last_ns)
		return 0;
	err = add(spans, &latency, "", sonde_span_duration_ns(s));
	if (!err && s->command && *s->command)
		err = add(spans, &latency, s->command, sonde_span_duration_ns(s));
	if (!err && !(s->flags & SONDE_SPAN_F_NO_WAIT) && s->arrival_ns)
		err = add(spans, &wait, "", sonde_span_wait_ns(s));
	if (!err && s->first_ns && s->start_ns)
		err = add(spans, &service, "", sonde_span_service_ns(s));
	return err;
}

typedef const char *value_fn(char *buf, size_t size, double v);

#define V(v) fmt((char[32]){0}, 32, (double)(v))

void sonde_window_print(FILE *out, const struct sonde_snapshot *s, const char *prefix,
			sonde_summary_title *title, const char *period)
{
	bool said = false;
	char words[64];

	for (size_t i = 0; i < s->n_hists; i++) {
		const struct sonde_snap_hist *h = &s->hists[i];
		value_fn *fmt = strcmp(h->desc->unit, "bytes") ? sonde_fmt_ns : sonde_fmt_bytes;

		if (!sonde_str_starts(h->desc->name, prefix) || !h->total.count)
			continue;
		if (!said)
			fprintf(out,
				"  distributions are kept by the UTC minute; these, and their "
				"counts, are of %s\n",
				period);
		said = true;
		fprintf(out, "    %-24s %11s  mean %s  p50 %s  p95 %s  p99 %s  max %s\n",
			!*h->label ? h->desc->name
			: title	   ? title(h->label, words, sizeof(words))
				   : SONDE_PLAIN(h->label),
			N(h->total.count), V(sonde_hist_mean(&h->total)),
			V(sonde_hist_quantile(&h->total, 0.5)),
			V(sonde_hist_quantile(&h->total, 0.95)),
			V(sonde_hist_quantile(&h->total, 0.99)), V(h->total.max));
	}
}
