// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A recording with every query's anatomy, pipelined queries, hostile texts and the counters that a
 * trace shows, made up for the tests of exports: mktrace FILE [SPANS]
 */
#include "unit/record/fixture.h"

static const char *const hostile[] = {
	"SELECT \"\\ </script><script>alert(1)</script>",
	"bad \xff\xc0\xaf bytes \x01\x1b[31m",
	"\xe2\x80\xae right to left",
	"=cmd|' /C calc'!A0\n\tnew line",
};

/* Times beside the round ones: ns matter. Each fifth query arrives while its predecessor runs. */
static void vary(struct sonde_span *s, uint64_t i)
{
	uint64_t took, odd = i * 7919 % 997;

	s->last_ns += odd;
	s->first_ns = s->last_ns - (i % 3 ? 100003 + odd : 0);
	s->arrival_ns -= i % 5 ? 0 : 45000007 + odd;
	s->alloc_bytes = i;
	if (i % 50 == 3)
		s->last_ns = 0;
	if (i % 50 == 4)
		s->arrival_ns = 0;
	took = sonde_span_duration_ns(s);
	if (!took || i % 4 == 3)
		return;
	s->has_parts = true;
	s->part_ns[SONDE_PART_QUEUED] = sonde_span_wait_ns(s);
	took -= s->part_ns[SONDE_PART_QUEUED];
	for (int p = 1; p < SONDE_PART_UNATTRIBUTED; p++) {
		s->part_ns[p] = (i + (uint64_t)p) % 3 ? 0 : took / 10;
		took -= s->part_ns[p];
	}
	s->part_ns[SONDE_PART_UNATTRIBUTED] = took;
	for (int f = 0; f < SONDE_PART_FAULTS; f++)
		s->fault_count[f] = (uint32_t)(i + (uint64_t)f) % 4;
}

static int push_spans(const struct sonde_visitor *v, uint64_t from, uint64_t to)
{
	char client[32], long_text[9000];
	int err = 0;

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	for (uint64_t i = from; i < to && !err; i++) {
		struct sonde_span s = fix_span(i, client, sizeof(client));

		vary(&s, i);
		if (i % 10 == 1) {
			s.fingerprint = hostile[i / 10 % 4];
			s.fingerprint_id = 100 + i / 10 % 4;
			s.text = i % 100 == 1 ? long_text : hostile[i / 10 % 4];
		}
		err = sonde_visit(v, span, &s);
	}
	return err;
}

static int push_memory(const struct sonde_visitor *v, uint64_t ts, unsigned tick)
{
	static const struct sonde_metric_desc shmem = {"rss.shmem", "bytes", SONDE_GAUGE, "shared"},
					      live = {"alloc.allocated", "bytes", SONDE_GAUGE,
						      "live"},
					      out = {"alloc.handed_out", "bytes", SONDE_COUNTER,
						     "out"};
	const struct sonde_metric ms[] = {
		{.desc = &shmem, .label = "", .ts_ns = ts, .value = 4096},
		{.desc = &live, .label = "", .ts_ns = ts, .value = 1e8 + tick},
		{.desc = &out, .label = "", .ts_ns = ts, .value = 1e6 * tick},
	};
	int err = fix_push_metrics(v, ts, tick);

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(ms) && !err; i++)
		err = sonde_visit(v, metric, &ms[i]);
	return err;
}

int main(int argc, char **argv)
{
	struct sonde_writer_opts opts = {.overwrite = true};
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
	int err;

	if (argc < 2 || sonde_writer_open(&w, argv[1], &opts))
		return 1;
	v = sonde_writer_visitor(w);
	err = fix_push_begin(v);
	for (unsigned tick = 0; tick * FIX_SPANS_PER_TICK < n && !err; tick++) {
		uint64_t from = tick * FIX_SPANS_PER_TICK, to = from + FIX_SPANS_PER_TICK,
			 ts = FIX_MONO + (tick + 1) * SONDE_NS_PER_SEC;
		struct sonde_drops lost = {SONDE_LENS_QUERY, SONDE_DROP_NO_ENTRY, tick / 10 * 3,
					   ts};
		struct sonde_note note = {ts, SONDE_NOTE_DEGRADED, "query", hostile[tick % 4],
					  "do"};

		err = push_spans(v, from, to < n ? to : n);
		err = err ? err : push_memory(v, ts, tick);
		if (!err && tick % 16 == 5)
			err = sonde_visit(v, note, &note);
		err = err ? err : sonde_visit(v, drop, &lost);
		err = err ? err : sonde_visit(v, tick, ts);
	}
	err = err ? err : sonde_visit(v, end, NULL);
	return sonde_writer_close(&w) || err;
}
