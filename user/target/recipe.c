// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recipes: where a daemon's query handlers are, as text (docs/recipes.md). The parser knows the
 * lines of one file and nothing of ELF; recipe_find.c chooses among files and turns a recipe into
 * probe sites.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "target/recipe.h"

#define MAX_HANDLERS SONDE_RECIPE_HANDLERS
#define BLANK	     " \t\r"

struct parser {
	const char *file;
	unsigned line;
	struct sonde_recipe_list *list;
};

static int bad(const struct parser *p, const char *what, const char *word)
{
	return sonde_err(EINVAL, "%s:%u: %s '%s'; docs/recipes.md describes the format", p->file,
			 p->line, what, word);
}

static struct sonde_recipe_text *current(const struct parser *p)
{
	return p->list->n ? &p->list->r[p->list->n - 1] : NULL;
}

static int set_string(char **to, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

static struct sonde_handler *last_handler(const struct parser *p)
{
	struct sonde_recipe_text *r = current(p);

	return r && r->n ? &r->handlers[r->n - 1] : NULL;
}

static int on_title(struct parser *p, char *value)
{
	struct sonde_recipe_text r = {0};
	int err = SONDE_GROW(p->list->r, p->list->n, p->list->cap);

	if (!err)
		err = set_string(&r.title, value);
	if (!err)
		p->list->r[p->list->n++] = r;
	return err;
}

static int on_build_id(struct parser *p, char *value)
{
	struct sonde_recipe_text *r = current(p);

	if (!r || r->n)
		return bad(p, "a build-id belongs between title and handlers, not here:", value);
	if (strlen(value) < 16 || strspn(value, "0123456789abcdef") != strlen(value))
		return bad(p, "a build-id is 16 or more lower-case hexadecimal digits, not", value);
	if (r->build_id)
		return bad(p, "a second build-id; start another recipe with its own title for",
			   value);
	return set_string(&r->build_id, value);
}

/* Nothing is said of a handler yet. */
static struct sonde_handler unsaid(void)
{
	static const struct sonde_handler_field none = {.arg = -1, .offset = -1};

	return (struct sonde_handler){
		.text = none,
		.index = none,
		.length = none,
		.command = none,
		.version = none,
		.socket = none,
		.wall_ms = none,
		.wall_us = none,
		.found = none,
	};
}

static int on_handler(struct parser *p, char *value)
{
	static const char *const roles[] = {
		[SONDE_HANDLER_EXECUTE] = "execute",
		[SONDE_HANDLER_LOG] = "log",
		[SONDE_HANDLER_COMMAND] = "command",
		[SONDE_HANDLER_YIELD] = "yield",
	};
	struct sonde_recipe_text *r = current(p);
	struct sonde_handler h = unsaid();

	for (unsigned i = 1; i < SONDE_ARRAY_SIZE(roles); i++)
		if (!strcmp(roles[i], value))
			h.role = i;
	if (!h.role)
		return bad(p, "a handler is 'execute', 'command', 'log' or 'yield', not", value);
	if (!r)
		return bad(p, "before any title stands handler", value);
	if (r->n == MAX_HANDLERS)
		return bad(p, "too many handlers at", value);
	if (!r->handlers)
		r->handlers = calloc(MAX_HANDLERS, sizeof(*r->handlers));
	if (!r->handlers)
		return -ENOMEM;
	r->handlers[r->n++] = h;
	return 0;
}

static int on_protocol(struct parser *p, char *value)
{
	static const struct {
		const char *name;
		enum sonde_proto proto;
	} protos[] = {{"mysql", SONDE_PROTO_MYSQL},
		      {"sphinxapi", SONDE_PROTO_SPHINXAPI},
		      {"http", SONDE_PROTO_HTTP},
		      {"text", SONDE_PROTO_UNKNOWN}};
	struct sonde_handler *h = last_handler(p);

	if (!h)
		return bad(p, "before any handler stands protocol", value);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(protos); i++)
		if (!strcmp(protos[i].name, value)) {
			h->proto = protos[i].proto;
			return 0;
		}
	return bad(p, "a protocol is 'mysql', 'sphinxapi', 'http' or 'text', not", value);
}

static int on_end(struct parser *p, char *value)
{
	struct sonde_handler *h = last_handler(p);

	if (!h)
		return bad(p, "before any handler stands end", value);
	if (!strcmp(value, "socket"))
		h->end = SONDE_HANDLER_END_SOCKET;
	else if (!strcmp(value, "return"))
		h->end = SONDE_HANDLER_END_RETURN;
	else
		return bad(p, "a query ends by 'socket' or 'return', not by", value);
	return 0;
}

/* How scripts/recipe-row finds the function in a build without symbols: nothing at run time. */
static int on_find(struct parser *p, char *value)
{
	return last_handler(p) ? 0 : bad(p, "before any handler stands find", value);
}

static int on_symbol(struct parser *p, char *value)
{
	struct sonde_handler *h = last_handler(p);

	return h ? set_string(&h->symbol, value)
		 : bad(p, "before any handler stands symbol", value);
}

static int on_offset(struct parser *p, char *value)
{
	struct sonde_handler *h = last_handler(p);
	uint64_t offset;

	if (!h || !current(p)->build_id)
		return bad(p, "an offset belongs to a handler of a recipe with a build-id:", value);
	if (sonde_parse_u64(value, &offset) || !offset)
		return bad(p, "not a file offset:", value);
	h->offset = offset;
	return 0;
}

static const struct {
	const char *name;
	size_t field; /* offset in struct sonde_handler */
} fields[] = {
	{"text", offsetof(struct sonde_handler, text)},
	{"length", offsetof(struct sonde_handler, length)},
	{"command", offsetof(struct sonde_handler, command)},
	{"version", offsetof(struct sonde_handler, version)},
	{"socket", offsetof(struct sonde_handler, socket)},
	{"index", offsetof(struct sonde_handler, index)},
	{"wall_ms", offsetof(struct sonde_handler, wall_ms)},
	{"wall_us", offsetof(struct sonde_handler, wall_us)},
	{"found", offsetof(struct sonde_handler, found)},
};

static int on_field(struct parser *p, size_t which, char *value)
{
	struct sonde_handler *h = last_handler(p);

	if (!h)
		return bad(p, "before any handler stands field", value);
	if (sonde_recipe_field(value, (void *)((char *)h + fields[which].field)))
		return bad(p, "a field is like rsi+8, *(rdi+0) or =rdx, or a number, not", value);
	return 0;
}

static int parse_line(struct parser *p, char *line)
{
	static const struct {
		const char *key;
		int (*on)(struct parser *p, char *value);
	} keys[] = {
		{"title", on_title},   {"build-id", on_build_id}, {"handler", on_handler},
		{"symbol", on_symbol}, {"offset", on_offset},	  {"protocol", on_protocol},
		{"end", on_end},       {"find", on_find},
	};
	char *key = line + strspn(line, BLANK), *value, *end;

	if (!*key || *key == '#')
		return 0;
	value = key + strcspn(key, BLANK);
	if (*value)
		*value++ = '\0';
	value += strspn(value, BLANK);
	for (end = value + strlen(value); end > value && strchr(BLANK, end[-1]);)
		*--end = '\0';
	if (!*value)
		return bad(p, "nothing follows", key);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].key, key))
			return keys[i].on(p, value);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fields); i++)
		if (!strcmp(fields[i].name, key))
			return on_field(p, i, value);
	return bad(p, "unknown word", key);
}

/* A recipe that can find nothing is a mistake, to be told where it is made. */
static int check(const struct parser *p)
{
	for (size_t i = 0; i < p->list->n; i++) {
		const struct sonde_recipe_text *r = &p->list->r[i];

		if (!r->n)
			return bad(p, "no handler in the recipe", r->title);
		for (size_t k = 0; k < r->n; k++)
			if (!r->handlers[k].symbol && !r->handlers[k].offset)
				return bad(p, "a handler without symbol and offset in", r->title);
	}
	return p->list->n ? 0 : bad(p, "no title in", p->file);
}

int sonde_recipe_parse(const char *file, const char *text, struct sonde_recipe_list *out)
{
	sonde_autofree char *copy = strdup(text);
	struct sonde_recipe_list list = {0};
	struct parser p = {.file = file, .list = &list};
	int err = copy ? 0 : -ENOMEM;
	char *next = copy;

	while (!err && next) {
		char *line = strsep(&next, "\n");

		p.line++;
		err = parse_line(&p, line);
	}
	if (!err)
		err = check(&p);
	if (err)
		sonde_recipe_list_fini(&list);
	else
		*out = list;
	return err;
}

void sonde_recipe_list_fini(struct sonde_recipe_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct sonde_recipe_text *r = &list->r[i];

		for (size_t k = 0; k < r->n; k++)
			free(r->handlers[k].symbol);
		free(r->handlers);
		free(r->title);
		free(r->build_id);
	}
	free(list->r);
	*list = (struct sonde_recipe_list){0};
}
