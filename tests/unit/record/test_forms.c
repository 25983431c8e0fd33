// SPDX-License-Identifier: GPL-2.0-or-later
/* Latency by form of query is recorded whole, whatever is kept of the queries. */
#include "unit/unit.h"
/* cmocka first */
#include "core/log.h"
#include "unit/record/fixture.h"

#define SPANS 1000 /* of 120 forms, 10 a second */

struct seen {
	double count, other, first, sum;
	unsigned int rows;
	bool buckets;
};

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	struct seen *s = ctx;

	assert_string_equal(h->desc->name, SONDE_FORM_HIST);
	s->rows++;
	s->count += (double)h->hist->count;
	s->sum += h->hist->sum;
	s->other += strcmp(h->label, "other") ? 0 : (double)h->hist->count;
	s->first += strcmp(h->label, "0x0000000000000100") ? 0 : (double)h->hist->count;
	for (size_t i = 0; i < SONDE_HIST_BUCKETS; i++)
		s->buckets = s->buckets || h->hist->buckets[i];
	return 0;
}

static void record(const char *path)
{
	struct sonde_writer_opts opts = {.spans = {.mode = SONDE_SPANS_NONE}, .clock = fix_clock};
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;

	fix_remove(path);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	v = sonde_writer_visitor(w);
	assert_int_equal(fix_push_begin(v), 0);
	for (uint64_t i = 0; i < SPANS; i++) {
		uint64_t end = FIX_MONO + (i + 1) * 100 * SONDE_NS_PER_MS;
		struct sonde_span s = {.client = "",
				       .command = "query",
				       .index = "",
				       .fingerprint = "select ?",
				       .fingerprint_id = 0x100 + i % 120,
				       .arrival_ns = end - 2000,
				       .start_ns = end - 2000,
				       .last_ns = end};

		/* Of these nobody knows how long they took. */
		if (i % 10 == 9) {
			s.status = SONDE_SPAN_ABORTED;
			s.last_ns = 0;
		}
		assert_int_equal(v->span(v->ctx, &s), 0);
		if (i % 10 == 9)
			assert_int_equal(v->tick(v->ctx, end), 0);
	}
	assert_int_equal(v->end(v->ctx, NULL), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
}

static enum sonde_hist_wanted want(void *ctx, const char *name, const char *label)
{
	(void)label;
	if (strcmp(name, SONDE_FORM_HIST))
		return SONDE_HIST_SKIP;
	return *(bool *)ctx ? SONDE_HIST_SUMS : SONDE_HIST_WHOLE;
}

static struct seen look(const char *path, bool sums)
{
	struct sonde_reader_filter filter = {.hists = want, .hists_ctx = &sums};
	struct seen s = {.rows = 0};
	struct sonde_visitor v = {.ctx = &s, .hist = on_hist};
	struct sonde_reader *r = NULL;
	char text[32];

	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, &filter, &v), 0);
	assert_string_equal(sonde_reader_fingerprint(r, 0x100, text, sizeof(text)), "select ?");
	assert_string_equal(sonde_reader_fingerprint(r, 0x999, text, sizeof(text)), "");
	sonde_reader_free(&r);
	return s;
}

static void test_forms(void **state)
{
	const char *path = fix_path("forms");
	struct seen s;

	(void)state;
	record(path);
	s = look(path, false);
	assert_true(s.count == SPANS * 9 / 10);
	assert_true(s.sum == SPANS * 9 / 10 * 2000.0);
	assert_true(s.buckets);
	/* 120 forms of which 12 never end: 108 come, the first hundred are told apart. Of the first
	 * there are i = 0, 120, ... 960. */
	assert_true(s.first == 9);
	assert_true(s.other > 0 && s.other < s.count / 10);
	s = look(path, true);
	assert_true(s.count == SPANS * 9 / 10 && s.sum == SPANS * 9 / 10 * 2000.0);
	assert_false(s.buckets);
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
