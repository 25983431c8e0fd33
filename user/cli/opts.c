// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The option engine. Kinds of value are one table, `kinds`; every number goes through the parsers
 * of core/num.h, which take the whole string or refuse it. The invariant: a member is written only
 * with a value that passed its bounds.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/opts.h"
#include "cli/suggest.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"

struct kind {
	bool has_value;
	size_t sizes[2]; /* of members it can fill; 0: any */
	const char *accepts;
	int (*read)(const char *s, uint64_t *out); /* numbers only */
	const char *(*show)(char *buf, size_t size, double v);
	int (*parse)(const struct sonde_opt *o, const char *value, void *member,
		     struct sonde_str *why);
};

static const char *show_count(char *buf, size_t size, double v)
{
	snprintf(buf, size, "%.0f", v);
	return buf;
}

static int parse_flag(const struct sonde_opt *o, const char *value, void *member,
		      struct sonde_str *why)
{
	(void)o, (void)value, (void)why;
	*(bool *)member = true;
	return 0;
}

static int parse_count(const struct sonde_opt *o, const char *value, void *member,
		       struct sonde_str *why)
{
	(void)o, (void)value, (void)why;
	++*(unsigned *)member;
	return 0;
}

static int parse_string(const struct sonde_opt *o, const char *value, void *member,
			struct sonde_str *why)
{
	(void)o;
	if (!*value) {
		sonde_str_addf(why, "it is empty");
		return -EINVAL;
	}
	*(const char **)member = value;
	return 0;
}

static int parse_number(const struct sonde_opt *o, const char *value, void *member,
			struct sonde_str *why);
static int parse_real(const struct sonde_opt *o, const char *value, void *member,
		      struct sonde_str *why);
static int parse_choice(const struct sonde_opt *o, const char *value, void *member,
			struct sonde_str *why);

static int parse_other(const struct sonde_opt *o, const char *value, void *member,
		       struct sonde_str *why)
{
	return o->parse(value, member, why);
}

static const struct kind kinds[] = {
	[SONDE_OPT_FLAG] = {.sizes = {sizeof(bool)}, .parse = parse_flag},
	[SONDE_OPT_COUNT] = {.sizes = {sizeof(unsigned)}, .parse = parse_count},
	[SONDE_OPT_STRING] = {.has_value = true,
			      .sizes = {sizeof(char *)},
			      .accepts = "text",
			      .parse = parse_string},
	[SONDE_OPT_NUMBER] = {.has_value = true,
			      .sizes = {4, 8},
			      .accepts = "a whole number",
			      .read = sonde_parse_u64,
			      .show = show_count,
			      .parse = parse_number},
	[SONDE_OPT_BYTES] = {.has_value = true,
			     .sizes = {4, 8},
			     .accepts = "a size (4096, 64K, 64M, 1.5G)",
			     .read = sonde_parse_bytes,
			     .show = sonde_fmt_bytes,
			     .parse = parse_number},
	[SONDE_OPT_DURATION] = {.has_value = true,
				.sizes = {8},
				.accepts =
					"a duration (250ms, 30s, 5m, 6h; a bare number is seconds)",
				.read = sonde_parse_duration,
				.show = sonde_fmt_ns,
				.parse = parse_number},
	[SONDE_OPT_REAL] = {.has_value = true,
			    .sizes = {sizeof(double)},
			    .accepts = "a number (3, 2.5)",
			    .show = show_count,
			    .parse = parse_real},
	[SONDE_OPT_CHOICE] = {.has_value = true, .sizes = {sizeof(int)}, .parse = parse_choice},
	[SONDE_OPT_OTHER] = {.has_value = true, .parse = parse_other},
};
_Static_assert(SONDE_ARRAY_SIZE(kinds) == SONDE_OPT_TYPE__MAX, "a row for every kind of option");

static int check_bounds(const struct sonde_opt *o, double v, struct sonde_str *why)
{
	const struct kind *k = &kinds[o->type];
	char low[32], high[32];

	if (v >= (double)o->min && (!o->max || v <= (double)o->max))
		return 0;
	k->show(low, sizeof(low), (double)o->min);
	k->show(high, sizeof(high), (double)o->max);
	if (o->max)
		sonde_str_addf(why, "it must be from %s to %s", low, high);
	else
		sonde_str_addf(why, "it must be at least %s", low);
	return -ERANGE;
}

static int parse_number(const struct sonde_opt *o, const char *value, void *member,
			struct sonde_str *why)
{
	uint64_t v = 0;
	int err = kinds[o->type].read(value, &v);

	if (err == -ERANGE || (!err && o->size == 4 && v > UINT32_MAX)) {
		sonde_str_addf(why, "the number is too large");
		return -ERANGE;
	}
	if (!err)
		err = check_bounds(o, (double)v, why);
	if (err)
		return err;
	if (o->size == 4)
		*(uint32_t *)member = (uint32_t)v;
	else
		*(uint64_t *)member = v;
	return 0;
}

static int parse_real(const struct sonde_opt *o, const char *value, void *member,
		      struct sonde_str *why)
{
	double v = 0;
	int err = sonde_parse_real(value, &v);

	if (!err)
		err = check_bounds(o, v, why);
	if (!err)
		*(double *)member = v;
	return err;
}

static int parse_choice(const struct sonde_opt *o, const char *value, void *member,
			struct sonde_str *why)
{
	(void)why;
	for (const struct sonde_opt_choice *c = o->choices; c->name; c++) {
		if (strcmp(c->name, value))
			continue;
		*(int *)member = c->value;
		return 0;
	}
	return -EINVAL;
}

bool sonde_opt_takes_value(const struct sonde_opt *o)
{
	return kinds[o->type].has_value;
}

void sonde_opt_value_label(const struct sonde_opt *o, char *buf, size_t size)
{
	if (!o->metavar)
		buf[0] = '\0';
	else
		snprintf(buf, size, o->implied ? "[=%s]" : " %s", o->metavar);
}

int sonde_opt_accepts(const struct sonde_opt *o, struct sonde_str *out)
{
	int err = 0;

	if (o->accepts)
		return sonde_str_addf(out, "%s", o->accepts);
	if (o->type != SONDE_OPT_CHOICE)
		return sonde_str_addf(out, "%s", kinds[o->type].accepts);
	for (const struct sonde_opt_choice *c = o->choices; c->name && !err; c++)
		err = sonde_str_addf(out, "%s%s", c == o->choices ? "one of: " : ", ", c->name);
	return err;
}

static int refuse(const struct sonde_opt *o, const char *value, int err,
		  const struct sonde_str *why)
{
	struct sonde_str accepts sonde_autostr = {0};

	if (err == -ENOMEM)
		return sonde_err(ENOMEM, "out of memory");
	if (why->len)
		return sonde_err(EINVAL, "--%s: '%s' is refused: %s", o->name, value,
				 sonde_str_get(why));
	sonde_opt_accepts(o, &accepts);
	return sonde_err(EINVAL, "--%s: '%s' is not %s", o->name, value, sonde_str_get(&accepts));
}

static int set_value(const struct sonde_opt *o, const char *value, void *target)
{
	struct sonde_str why sonde_autostr = {0};
	int err = kinds[o->type].parse(o, value, (char *)target + o->offset, &why);

	return err ? refuse(o, value, err, &why) : 0;
}

int sonde_opts_init(const struct sonde_opt_table *table, void *target)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct sonde_opt *o = &table->rows[i];
		int err = o->initial ? set_value(o, o->initial, target) : 0;

		if (err)
			return err;
	}
	return 0;
}

static bool fits(const struct sonde_opt *o)
{
	const size_t *sizes = kinds[o->type].sizes;

	return !sizes[0] || o->size == sizes[0] || (sizes[1] && o->size == sizes[1]);
}

int sonde_opts_check(const struct sonde_opt_table *table)
{
	if (table->n > 8 * sizeof(sonde_opt_mask))
		return sonde_err(EINVAL, "an option table has %zu rows, more than a mask holds",
				 table->n);
	for (size_t i = 0; i < table->n; i++) {
		const struct sonde_opt *o = &table->rows[i];

		if (!o->name || !o->help || o->type >= SONDE_OPT_TYPE__MAX)
			return sonde_err(EINVAL, "option row %zu has no name, help or type", i);
		if (!fits(o))
			return sonde_err(EINVAL, "--%s: its member has %zu bytes", o->name,
					 o->size);
		if (sonde_opt_takes_value(o) != (o->metavar != NULL) ||
		    (o->type == SONDE_OPT_CHOICE) != (o->choices != NULL) ||
		    (o->type == SONDE_OPT_OTHER) != (o->parse && o->accepts))
			return sonde_err(EINVAL, "--%s: its row does not fit its type", o->name);
	}
	return 0;
}

/* Where parsing stands. */
struct cursor {
	const struct sonde_opt_table *table;
	sonde_opt_mask valid;
	int argc, i;
	const char *const *argv;
	void *target;
	struct sonde_opt_result *out;
};

static int give(struct cursor *c, const struct sonde_opt *o, const char *value)
{
	int err = set_value(o, value, c->target);

	if (!err)
		c->out->seen |= SONDE_OPT_BIT(o - c->table->rows);
	return err;
}

static int next_value(struct cursor *c, const struct sonde_opt *o, const char **value)
{
	struct sonde_str accepts sonde_autostr = {0};

	if (c->i + 1 < c->argc) {
		*value = c->argv[++c->i];
		return 0;
	}
	sonde_opt_accepts(o, &accepts);
	return sonde_err(EINVAL, "--%s needs a value: %s", o->name, sonde_str_get(&accepts));
}

static int unknown_long(const struct cursor *c, const char *name, size_t len)
{
	struct sonde_suggest near;

	sonde_suggest_init(&near, name, len);
	for (size_t i = 0; i < c->table->n; i++)
		if (c->valid & SONDE_OPT_BIT(i) && c->table->rows[i].group)
			sonde_suggest_offer(&near, c->table->rows[i].name);
	if (near.best)
		return sonde_err(EINVAL, "there is no option --%.*s; did you mean --%s?", (int)len,
				 name, near.best);
	return sonde_err(EINVAL, "there is no option --%.*s; --help lists them", (int)len, name);
}

static int parse_long(struct cursor *c, const char *arg)
{
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] ? arg + len + 1 : NULL;
	int err;

	for (size_t i = 0; i < c->table->n; i++) {
		const struct sonde_opt *o = &c->table->rows[i];

		if (strlen(o->name) != len || memcmp(o->name, arg, len))
			continue;
		if (!sonde_opt_takes_value(o))
			return value ? sonde_err(EINVAL, "--%s takes no value, but '%s' was given",
						 o->name, value)
				     : give(c, o, "");
		value = value ? value : o->implied;
		err = value ? 0 : next_value(c, o, &value);
		return err ? err : give(c, o, value);
	}
	return unknown_long(c, arg, len);
}

static const struct sonde_opt *find_letter(const struct sonde_opt_table *table, char letter)
{
	for (size_t i = 0; i < table->n; i++)
		if (table->rows[i].letter == letter)
			return &table->rows[i];
	return NULL;
}

/* "-vv", "-d 30s", "-d30s": letters of flags, and at most one of an option with a value, the last.
 */
static int parse_short(struct cursor *c, const char *arg)
{
	int err = 0;

	for (const char *p = arg; *p && !err; p++) {
		const struct sonde_opt *o = find_letter(c->table, *p);
		const char *value = p + 1;

		if (!o)
			return sonde_err(EINVAL,
					 "there is no option -%c (in '-%s'); --help lists them", *p,
					 arg);
		if (!sonde_opt_takes_value(o)) {
			err = give(c, o, "");
			continue;
		}
		err = *value ? 0 : next_value(c, o, &value);
		return err ? err : give(c, o, value);
	}
	return err;
}

static void add_word(struct cursor *c, const char *word)
{
	c->out->words[c->out->n_words++] = word;
	if (!c->out->dashes)
		c->out->n_before_dashes++;
}

int sonde_opts_parse(const struct sonde_opt_table *table, sonde_opt_mask valid, bool words,
		     int argc, const char *const *argv, void *target, struct sonde_opt_result *out)
{
	struct cursor c = {table, valid, argc, 0, argv, target, out};
	int err = 0;

	*out = (struct sonde_opt_result){.words = calloc((size_t)argc + 1, sizeof(char *))};
	if (!out->words)
		return sonde_err(ENOMEM, "out of memory");
	for (; c.i < argc && !err && (words || !out->n_before_dashes); c.i++) {
		const char *arg = argv[c.i];

		if (out->dashes || arg[0] != '-' || !arg[1])
			add_word(&c, arg);
		else if (!strcmp(arg, "--"))
			out->dashes = true;
		else
			err = arg[1] == '-' ? parse_long(&c, arg + 2) : parse_short(&c, arg + 1);
	}
	return err;
}

void sonde_opt_result_fini(struct sonde_opt_result *r)
{
	free(r->words);
	*r = (struct sonde_opt_result){0};
}
