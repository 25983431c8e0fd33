// SPDX-License-Identifier: GPL-2.0-or-later
/* The list of lenses, from lenses.def. */
#include <string.h>

#include "core/mem.h"
#include "lens/lens.h"

#define SONDE_LENS(name) extern const struct sonde_lens sonde_lens_##name;
#include "lens/lenses.def"
#undef SONDE_LENS

const struct sonde_lens *const sonde_lenses[] = {
#define SONDE_LENS(name) &sonde_lens_##name,
#include "lens/lenses.def"
#undef SONDE_LENS
};
const size_t sonde_lens_count = SONDE_ARRAY_SIZE(sonde_lenses);

const struct sonde_lens *sonde_lens_find(const char *name)
{
	for (size_t i = 0; i < sonde_lens_count; i++)
		if (!strcmp(sonde_lenses[i]->name, name))
			return sonde_lenses[i];
	return NULL;
}

const void *sonde_lens_elf(const struct sonde_lens_ctx *ctx, size_t *size)
{
	if (ctx->lens->elf_for)
		return ctx->lens->elf_for(ctx, size);
	return ctx->lens->elf ? ctx->lens->elf(size) : NULL;
}

int sonde_lens_push(const struct sonde_lens_ctx *ctx, uint32_t target, size_t metric,
		    const char *label, uint64_t ts_ns, double value)
{
	struct sonde_metric m = {
		.desc = &ctx->lens->metrics[metric],
		.label = label,
		.ts_ns = ts_ns,
		.target = target,
		.value = value,
	};

	return sonde_visit(ctx->out, metric, &m);
}

int sonde_lens_push_absent(const struct sonde_lens_ctx *ctx, uint32_t target, size_t metric,
			   const char *label, uint64_t ts_ns, const char *reason)
{
	struct sonde_metric m = {
		.desc = &ctx->lens->metrics[metric],
		.label = label,
		.ts_ns = ts_ns,
		.target = target,
		.absent = reason,
	};

	return sonde_visit(ctx->out, metric, &m);
}

int sonde_lens_note(const struct sonde_lens_ctx *ctx, enum sonde_note_level level, const char *what,
		    const char *remedy)
{
	struct sonde_note n = {
		.ts_ns = sonde_mono_ns(),
		.level = level,
		.lens = ctx->lens->name,
		.what = what,
		.remedy = remedy,
	};

	return sonde_visit(ctx->out, note, &n);
}
