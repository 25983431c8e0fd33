// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The frame around every format: finds it, gives it the clock and writes its lines. What a format
 * cannot carry but a reader must know (degraded notes) goes to stderr.
 */
#include <errno.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "export/export.h"
#include "model/stacks.h"

#define SONDE_EXPORTER(name) extern const struct sonde_exporter sonde_export_##name;
#include "export/exporters.def"
#undef SONDE_EXPORTER

const struct sonde_exporter *const sonde_exporters[] = {
#define SONDE_EXPORTER(name) &sonde_export_##name,
#include "export/exporters.def"
#undef SONDE_EXPORTER
};
const size_t sonde_exporter_count = SONDE_ARRAY_SIZE(sonde_exporters);

const struct sonde_exporter *sonde_exporter_find(const char *name)
{
	for (size_t i = 0; i < sonde_exporter_count; i++)
		if (!strcmp(sonde_exporters[i]->name, name))
			return sonde_exporters[i];
	return NULL;
}

static int unknown_format(const char *format)
{
	sonde_autostr struct sonde_str names = {0};

	for (size_t i = 0; i < sonde_exporter_count; i++)
		sonde_str_addf(&names, "%s%s", i ? ", " : "", sonde_exporters[i]->name);
	return sonde_err(EINVAL, "there is no export format '%s'; there are %s", format,
			 sonde_str_get(&names));
}

static int frame_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_export *x = ctx;

	if (!sonde_meta_clock(meta, &x->clock))
		sonde_warn("the clocks are not in the recording: times are since boot, not UTC");
	return x->format_begin ? x->format_begin(x, meta) : 0;
}

static int frame_note(void *ctx, const struct sonde_note *n)
{
	(void)ctx;
	if (n->level == SONDE_NOTE_DEGRADED)
		sonde_warn("degraded: %s%s%s", n->what, *n->remedy ? "; " : "", n->remedy);
	return 0;
}

int sonde_export_open(struct sonde_export **out, const char *format,
		      const struct sonde_export_opts *opts, FILE *f)
{
	const struct sonde_exporter *e = sonde_exporter_find(format);
	struct sonde_export *x;
	int err;

	if (!e)
		return unknown_format(format);
	x = calloc(1, sizeof(*x));
	if (!x)
		return sonde_err(ENOMEM, "cannot export: out of memory");
	x->exporter = e;
	x->opts = opts ? *opts : (struct sonde_export_opts){0};
	x->out = f;
	x->visitor.ctx = x;
	err = e->open(x);
	if (err) {
		free(x);
		return err;
	}
	x->format_begin = x->visitor.begin;
	x->visitor.begin = frame_begin;
	if (!x->visitor.note)
		x->visitor.note = frame_note;
	*out = x;
	return 0;
}

const struct sonde_visitor *sonde_export_visitor(struct sonde_export *x)
{
	return &x->visitor;
}

static int write_error(void)
{
	return errno ? -errno : -EIO;
}

int sonde_export_put(struct sonde_export *x, struct sonde_str *line)
{
	size_t n = line->len;

	errno = 0;
	if (fwrite(sonde_str_get(line), 1, n, x->out) != n)
		return write_error();
	sonde_str_clear(line);
	return 0;
}

static int take_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_export *x = ctx;

	return sonde_visit(&x->stacks->visitor, begin, meta);
}

static int take_stack(void *ctx, const struct sonde_stack *s)
{
	struct sonde_export *x = ctx;

	return sonde_visit(&x->stacks->visitor, stack, s);
}

static int take_count(void *ctx, const struct sonde_stack_count *c)
{
	struct sonde_export *x = ctx;

	return sonde_visit(&x->stacks->visitor, stack_count, c);
}

void sonde_export_take_stacks(struct sonde_export *x, struct sonde_stack_table *t)
{
	x->stacks = t;
	x->visitor.begin = take_begin;
	x->visitor.stack = take_stack;
	x->visitor.stack_count = take_count;
}

static size_t rows_of(const struct sonde_stack_table *t, enum sonde_lens_id lens)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->rows[i].counted && t->rows[i].last.lens == lens;
	return n;
}

int sonde_export_groups(struct sonde_export *x, enum sonde_lens_id *lens,
			struct sonde_site_group **out, size_t *n)
{
	const uint32_t mask = x->opts.lens_mask;
	bool allocs = rows_of(x->stacks, SONDE_LENS_ALLOC);
	bool faults = rows_of(x->stacks, SONDE_LENS_FAULT);

	allocs &= !mask || mask & 1u << SONDE_LENS_ALLOC;
	faults &= !mask || mask & 1u << SONDE_LENS_FAULT;
	if (!allocs && !faults)
		return sonde_stack_table_empty(x->stacks, mask ? mask : UINT32_MAX, "");
	if (allocs && faults)
		sonde_warn(
			"exported are the allocator's call stacks; --lens fault exports those of "
			"page faults");
	*lens = allocs ? SONDE_LENS_ALLOC : SONDE_LENS_FAULT;
	if (sonde_site_groups(x->stacks, *lens, false, out, n))
		return sonde_err(ENOMEM, "cannot export: out of memory");
	return 0;
}

uint64_t sonde_export_utc(const struct sonde_export *x, uint64_t mono_ns)
{
	return sonde_clockpair_real(&x->clock, mono_ns);
}

int sonde_export_close(struct sonde_export **xp)
{
	struct sonde_export *x = *xp;
	int err;

	if (!x)
		return 0;
	*xp = NULL;
	err = x->exporter->close ? x->exporter->close(x) : 0;
	errno = 0;
	if (fflush(x->out) || ferror(x->out))
		err = err ? err : write_error();
	if (!err && x->remark)
		sonde_warn("%s", x->remark);
	free(x);
	return err;
}
