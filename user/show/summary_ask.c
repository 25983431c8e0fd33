// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on asking: what share of the CPU goes into questions to the allocator,
 * which functions they are and who calls them; one line where that is next to nothing of a CPU,
 * and none where nobody asked.
 */
#include <math.h>

#include "core/num.h"
#include "core/str.h"
#include "judge/asking.h"
#include "show/summary.h"

#define N(v) sonde_fmt_count((char[32]){0}, 32, (uint64_t)((v) + 0.5))

static void print_func(FILE *out, const struct sonde_asking_func *f)
{
	fprintf(out, "  %-38s %5.1f %%  %12s calls", f->name, 100 * f->share, N(f->calls));
	if (!isnan(f->rate))
		fprintf(out, ", %s/s", N(f->rate));
	if (!isnan(f->each_ns))
		fprintf(out, ", %s each", sonde_fmt_ns((char[32]){0}, 32, f->each_ns));
	fputc('\n', out);
	for (size_t i = 0; i < f->n_callers; i++)
		fprintf(out, "    from %-31s %5.1f %%  %12s calls\n",
			SONDE_PLAIN(f->caller[i].name), 100 * f->caller[i].share,
			N(f->caller[i].calls));
}

void sonde_summary_ask(FILE *out, const struct sonde_snapshot *s)
{
	struct sonde_asking a;
	char share[96];
	bool present;
	double observed = sonde_snapshot_sum(s, "ask.observed_ratio", &present);

	if (!sonde_asking_of(s, &a) || a.calls <= 0)
		return;
	sonde_asking_share(&a, share, sizeof(share));
	if (a.cpus < SONDE_ASKING_CPUS) {
		fprintf(out, "Asking the allocator for statistics: %s, next to nothing\n", share);
		return;
	}
	fprintf(out, "Asking the allocator for statistics takes %s", share);
	if (present && observed < 0.95)
		fprintf(out, ", as seen in %.1f %% of the time", 100 * observed);
	fputc('\n', out);
	for (size_t i = 0; i < a.n; i++)
		print_func(out, &a.func[i]);
}
