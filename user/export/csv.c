// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CSV for spreadsheets and data frames: a row a query, or with --series a row a metric value.
 * Quoting as in RFC 4180, lines end in LF, an empty cell means "not known". A text cell that a
 * spreadsheet would run as a formula gets an apostrophe in front, for request texts are a
 * stranger's.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "export/columns.h"
#include "export/export.h"

/* OWASP's list of what starts a formula. */
static const char formula_starts[] = "=+-@\t\r";

static int add_text(struct sonde_str *line, const char *s)
{
	sonde_autostr struct sonde_str clean = {0};
	int err = sonde_str_add_utf8(&clean, s, strlen(s));
	bool quote;

	if (err)
		return err;
	quote = strpbrk(sonde_str_get(&clean), ",\"\n\t") != NULL;
	if (quote)
		err = sonde_str_addc(line, '"');
	if (!err && *s && strchr(formula_starts, *s))
		err = sonde_str_addc(line, '\'');
	for (size_t i = 0; i < clean.len && !err; i++) {
		if (clean.s[i] == '"')
			err = sonde_str_addc(line, '"');
		if (!err)
			err = sonde_str_addc(line, clean.s[i]);
	}
	if (!err && quote)
		err = sonde_str_addc(line, '"');
	return err;
}

static int add_cell(struct sonde_export *x, struct sonde_str *line, const struct sonde_cell *c)
{
	char buf[40];

	switch (c->kind) {
	case SONDE_CELL_COUNT:
		return sonde_str_addf(line, "%llu", (unsigned long long)c->number);
	case SONDE_CELL_TIME:
		return sonde_str_addf(
			line, "%s",
			sonde_fmt_rfc3339(buf, sizeof(buf), sonde_export_utc(x, c->number)));
	case SONDE_CELL_ID:
		return sonde_str_addf(line, "%s", sonde_fmt_id(buf, sizeof(buf), c->number));
	case SONDE_CELL_TEXT:
		return add_text(line, c->text);
	case SONDE_CELL_ABSENT:
		break;
	}
	return 0;
}

static int out_of_memory(void)
{
	return sonde_err(ENOMEM, "cannot export: out of memory");
}

struct csv {
	struct sonde_str line;
	bool any; /* a query was written */
};

static int span_header(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_export *x = ctx;
	struct csv *c = x->priv;
	struct sonde_str *line = &c->line;
	int err = 0;

	(void)meta;
	for (size_t i = 0; i < sonde_span_column_count && !err; i++)
		err = sonde_str_addf(line, "%s%s", i ? "," : "", sonde_span_columns[i].name);
	if (err || sonde_str_addc(line, '\n'))
		return out_of_memory();
	return sonde_export_put(x, line);
}

static int span_row(void *ctx, const struct sonde_span *s)
{
	struct sonde_export *x = ctx;
	struct csv *c = x->priv;
	struct sonde_str *line = &c->line;
	char scratch[SONDE_CELL_SCRATCH];
	int err = 0;

	c->any = true;
	for (size_t i = 0; i < sonde_span_column_count && !err; i++) {
		struct sonde_cell cell = sonde_span_columns[i].get(s, scratch);

		err = i ? sonde_str_addc(line, ',') : 0;
		if (!err)
			err = add_cell(x, line, &cell);
	}
	if (err || sonde_str_addc(line, '\n'))
		return out_of_memory();
	return sonde_export_put(x, line);
}

static int series_header(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_export *x = ctx;
	struct csv *c = x->priv;

	(void)meta;
	if (sonde_str_addf(&c->line,
			   "time_utc,target,metric,label,unit,kind,value,absent_because\n"))
		return out_of_memory();
	return sonde_export_put(x, &c->line);
}

static int series_row(void *ctx, const struct sonde_metric *m)
{
	struct sonde_export *x = ctx;
	struct csv *c = x->priv;
	struct sonde_str *line = &c->line;
	const char *const texts[] = {m->desc->name, m->label, m->desc->unit,
				     m->desc->kind == SONDE_COUNTER ? "counter" : "gauge"};
	char buf[40];
	int err = sonde_str_addf(line, "%s,%u",
				 sonde_fmt_rfc3339(buf, sizeof(buf), sonde_export_utc(x, m->ts_ns)),
				 m->target);

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(texts) && !err; i++) {
		err = sonde_str_addc(line, ',');
		if (!err)
			err = add_text(line, texts[i]);
	}
	if (!err)
		err = sonde_str_addf(line, ",%s,",
				     m->absent ? "" : sonde_fmt_double(buf, sizeof(buf), m->value));
	if (!err && m->absent)
		err = add_text(line, m->absent);
	if (err || sonde_str_addc(line, '\n'))
		return out_of_memory();
	return sonde_export_put(x, line);
}

static int csv_open(struct sonde_export *x)
{
	x->priv = calloc(1, sizeof(struct csv));
	if (!x->priv)
		return out_of_memory();
	x->visitor.begin = x->opts.series ? series_header : span_header;
	if (x->opts.series)
		x->visitor.metric = series_row;
	else
		x->visitor.span = span_row;
	return 0;
}

static int csv_close(struct sonde_export *x)
{
	struct csv *c = x->priv;

	if (!x->opts.series && !c->any)
		x->remark = "no query trace is in it, so there is only the header; --series writes "
			    "figures over time, --to pprof and --to folded call stacks";
	sonde_str_fini(&c->line);
	free(c);
	return 0;
}

const struct sonde_exporter sonde_export_csv = {
	.name = "csv",
	.summary = "a row per query; with --series a row per metric value",
	.suffix = ".csv",
	.takes = SONDE_TAKES_SPAN | SONDE_TAKES_METRIC,
	.open = csv_open,
	.close = csv_close,
};
