// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What recording costs: spans a second and bytes a span of the writer alone, with a tick every
 * 20,000 spans, and what reading them back takes. recwrite [SPANS [FILE]]
 */
#include <sys/resource.h>

#include "unit/record/fixture.h"

static double cpu_seconds(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static int count_span(void *ctx, const struct sonde_span *s)
{
	*(uint64_t *)ctx += s->seq != 0;
	return 0;
}

static int write_spans(struct sonde_writer *w, uint64_t n, double *worst_tick_ms)
{
	const struct sonde_visitor *v = sonde_writer_visitor(w);
	char client[32];
	int err = fix_push_begin(v);

	for (uint64_t i = 0; i < n && !err; i++) {
		struct sonde_span s = fix_span(i, client, sizeof(client));
		uint64_t t;

		err = sonde_visit(v, span, &s);
		if (err || i % 20000 != 19999)
			continue;
		t = sonde_mono_ns();
		err = sonde_visit(v, tick, s.last_ns);
		t = sonde_mono_ns() - t;
		if ((double)t / 1e6 > *worst_tick_ms)
			*worst_tick_ms = (double)t / 1e6;
	}
	return err ? err : sonde_visit(v, end, NULL);
}

static int read_spans(const char *path)
{
	uint64_t seen = 0, start = sonde_mono_ns();
	struct sonde_visitor v = {.ctx = &seen, .span = count_span};
	struct sonde_reader *r = NULL;
	int err = sonde_reader_open(&r, path);

	if (!err)
		err = sonde_reader_visit(r, NULL, &v);
	sonde_reader_free(&r);
	printf("read: %.0f spans/s\n", (double)seen / ((double)(sonde_mono_ns() - start) / 1e9));
	return err;
}

int main(int argc, char **argv)
{
	struct sonde_writer_opts opts = {.overwrite = true};
	struct sonde_writer_stats stats;
	struct sonde_writer *w = NULL;
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
	const char *path = argc > 2 ? argv[2] : fix_path("recwrite");
	double cpu, worst_tick_ms = 0;

	if (sonde_writer_open(&w, path, &opts))
		return 1;
	cpu = cpu_seconds();
	if (write_spans(w, n, &worst_tick_ms))
		return 1;
	cpu = cpu_seconds() - cpu;
	sonde_writer_stats(w, &stats);
	printf("write: %.0f spans per CPU second (20,000/s cost %.1f %% of a core), %.1f bytes a "
	       "span, "
	       "longest tick %.1f ms\n",
	       (double)n / cpu, 100 * 20000 * cpu / (double)n, (double)stats.file_bytes / (double)n,
	       worst_tick_ms);
	if (sonde_writer_close(&w) || read_spans(path))
		return 1;
	if (argc <= 2)
		fix_remove(path);
	return 0;
}
