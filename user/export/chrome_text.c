// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Text and numbers of the Chrome trace. Request texts are a stranger's: what is written is valid
 * UTF-8, escaped, and of bounded length.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "export/chrome_impl.h"
#include "export/columns.h"

#define NAME_MAX_BYTES 160
#define TEXT_MAX_BYTES 4096

static int add_escaped(struct sonde_str *out, const char *s, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		unsigned char ch = (unsigned char)s[i];

		if (ch == '"' || ch == '\\')
			err = sonde_str_addf(out, "\\%c", ch);
		else if (ch < 0x20)
			err = sonde_str_addf(out, "\\u%04x", ch);
		else
			err = sonde_str_addc(out, (char)ch);
	}
	return err;
}

int sonde_chrome_text(struct sonde_str *out, const char *s, size_t max)
{
	sonde_autostr struct sonde_str clean = {0};
	size_t have = strlen(s), n;
	/* Cleaned, no byte becomes less than one: what is beyond max + 4 cannot be seen. */
	int err = sonde_str_add_utf8(&clean, s, have > max + 4 ? max + 4 : have);

	n = clean.len;
	if (n > max || have > max + 4) {
		n = n > max ? max : n;
		while (n && ((unsigned char)clean.s[n] & 0xc0) == 0x80)
			n--;
	}
	err = err ? err : sonde_str_addc(out, '"');
	err = err ? err : add_escaped(out, sonde_str_get(&clean), n);
	if (!err && n < clean.len)
		err = sonde_str_addf(out, "…");
	return err ? err : sonde_str_addc(out, '"');
}

static uint64_t quanta(uint64_t ns)
{
	return (uint64_t)(((unsigned __int128)ns * 256 + 62) / 125);
}

/* A fraction of 2048 has at most 11 decimals. */
static int add_quanta(struct sonde_str *out, uint64_t q)
{
	int err = sonde_str_addf(out, "%" PRIu64, q >> 11);
	uint64_t decimals = (q & 2047) * 48828125;

	if (err || !decimals)
		return err;
	err = sonde_str_addf(out, ".%011" PRIu64, decimals);
	while (!err && out->s[out->len - 1] == '0')
		out->s[--out->len] = '\0';
	return err;
}

int sonde_chrome_ts(struct sonde_str *out, uint64_t ns)
{
	return add_quanta(out, quanta(ns));
}

int sonde_chrome_dur(struct sonde_str *out, uint64_t from_ns, uint64_t to_ns)
{
	return add_quanta(out, quanta(to_ns) - quanta(from_ns));
}

int sonde_chrome_name(struct sonde_str *out, const struct sonde_span *s)
{
	sonde_autostr struct sonde_str name = {0};
	int err;

	if (s->fingerprint && *s->fingerprint)
		return sonde_chrome_text(out, s->fingerprint, NAME_MAX_BYTES);
	err = sonde_str_addf(&name, "%s", s->command && *s->command ? s->command : "query");
	if (!err && s->index && *s->index)
		err = sonde_str_addf(&name, " %s", s->index);
	return err ? err : sonde_chrome_text(out, sonde_str_get(&name), NAME_MAX_BYTES);
}

/* Of the columns, those that the slice itself does not say. Parts of 0 are left out for size. */
static bool shown(const struct sonde_column *col, const struct sonde_cell *c)
{
	static const char *const said[] = {"target", "pid", "client", "command_id"};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(said); i++)
		if (!strcmp(col->name, said[i]))
			return false;
	return c->kind != SONDE_CELL_ABSENT && c->kind != SONDE_CELL_TIME &&
	       !(col->group == SONDE_COLUMN_ANATOMY && !c->number);
}

static int add_cell(struct sonde_str *out, const struct sonde_cell *c)
{
	char id[24];

	/* Readers take whole numbers of 63 bits. */
	if (c->kind == SONDE_CELL_COUNT && c->number > INT64_MAX)
		return sonde_str_addf(out, "%.17g", (double)c->number);
	if (c->kind == SONDE_CELL_COUNT)
		return sonde_str_addf(out, "%" PRIu64, c->number);
	if (c->kind == SONDE_CELL_ID)
		return sonde_str_addf(out, "\"%s\"", sonde_fmt_id(id, sizeof(id), c->number));
	return sonde_chrome_text(out, c->text, TEXT_MAX_BYTES);
}

int sonde_chrome_args(struct sonde_str *out, const struct sonde_span *s, bool ended)
{
	char scratch[SONDE_CELL_SCRATCH];
	int err = sonde_str_addc(out, '{');

	if (!err && !ended)
		err = sonde_str_addf(out,
				     "\"end\":\"not seen: the slice ends with what was seen\",");
	for (size_t i = 0; i < sonde_span_column_count && !err; i++) {
		const struct sonde_column *col = &sonde_span_columns[i];
		struct sonde_cell c = col->get(s, scratch);

		if (!shown(col, &c))
			continue;
		err = sonde_str_addf(out, "\"%s\":", col->name);
		err = err ? err : add_cell(out, &c);
		err = err ? err : sonde_str_addc(out, ',');
	}
	if (!err && out->s[out->len - 1] == ',')
		out->s[--out->len] = '\0';
	return err ? err : sonde_str_addc(out, '}');
}
