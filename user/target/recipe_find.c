// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Choosing the recipe for an executable. A build-id is proof, so offsets are taken at its word;
 * without one, symbols are. All files are parsed in the order of their names, so that the answer
 * does not depend on the folder's own order.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "core/err.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"
#include "target/elf.h"
#include "target/recipe.h"

#define SUFFIX ".recipe"

static int is_recipe(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name), suffix = sizeof(SUFFIX) - 1;

	return len > suffix && entry->d_name[0] != '.' &&
	       !strcmp(entry->d_name + len - suffix, SUFFIX);
}

/* Beside a program that runs from its build folder, else where they are installed. */
static void default_dir(char *dir, size_t size)
{
	static const char *const beside[] = {"../share/sonde/recipes", "../recipes"};
	char exe[PATH_MAX - 32];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n > 0) {
		exe[n] = '\0';
		slash = strrchr(exe, '/');
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(beside); i++) {
			snprintf(dir, size, "%.*s/%s", slash ? (int)(slash - exe) : 0, exe,
				 beside[i]);
			if (!access(dir, R_OK | X_OK))
				return;
		}
	}
	snprintf(dir, size, "%s/recipes", SONDE_DATADIR);
}

/* Argument registers that the program reads at the handler: those its fields start from. */
static unsigned args_of(const struct sonde_handler *h)
{
	const struct sonde_handler_field *fields[] = {
		&h->text,   &h->index,	 &h->length,  &h->command, &h->version,
		&h->socket, &h->wall_ms, &h->wall_us, &h->found,
	};
	unsigned mask = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fields); i++)
		if (fields[i]->offset >= 0 && !fields[i]->is_constant)
			mask |= 1u << fields[i]->arg;
	return mask;
}

struct prefix {
	const char *name;
	size_t len;
	struct sonde_sym sym;
	size_t n; /* different functions so named */
};

static int match_prefix(void *ctx, const struct sonde_sym *sym)
{
	struct prefix *p = ctx;

	if (strncmp(sym->name, p->name, p->len) || strstr(sym->name, ".cold"))
		return 0;
	if (!p->n || sym->offset != p->sym.offset)
		p->n++;
	p->sym = *sym;
	return 0;
}

/* "NAME*" stands for the only function whose name begins so: long argument lists change with every
 * release, what they are read for seldom does. */
static int find_symbol(struct sonde_elf *elf, const char *name, struct sonde_sym *out)
{
	struct prefix p = {.name = name, .len = strlen(name)};

	if (!p.len || name[p.len - 1] != '*')
		return sonde_elf_find(elf, name, out);
	p.len--;
	sonde_elf_each(elf, match_prefix, &p);
	if (p.n != 1)
		return -ENOENT;
	*out = p.sym;
	return 0;
}

/* Where the handler is in this file, from its offset or its symbol. */
static int locate(const struct sonde_handler *h, struct sonde_elf *elf, uint64_t *offset,
		  uint64_t *size, const char **name)
{
	struct sonde_sym sym;
	uint64_t start;

	if (h->offset) {
		if (sonde_elf_function_at(elf, h->offset, &start, size) || start != h->offset)
			return -EINVAL;
		*offset = h->offset;
		return 0;
	}
	if (!h->symbol || find_symbol(elf, h->symbol, &sym))
		return -ENOENT;
	*offset = sym.offset;
	*size = sym.size;
	*name = sym.name;
	return 0;
}

static int resolve_handler(const char *file, const struct sonde_handler *h, struct sonde_elf *elf,
			   struct sonde_recipe *out)
{
	struct sonde_handler copy = *h;
	const char *name = h->symbol;
	uint64_t size;
	int err = locate(h, elf, &copy.offset, &size, &name);

	if (err == -ENOENT)
		return 0;
	if (err)
		return sonde_err(
			err,
			"%s: no function starts at offset 0x%llx of this build; correct the "
			"recipe",
			file, (unsigned long long)h->offset);
	err = sonde_site_choose(elf, copy.offset, size, args_of(h), false, &copy.site);
	if (err)
		return sonde_err(err, "%s: no probe can be put at offset 0x%llx: %s", file,
				 (unsigned long long)copy.offset, strerror(-err));
	copy.size = size;
	copy.symbol = name ? strdup(name) : NULL;
	if (name && !copy.symbol)
		return -ENOMEM;
	out->handlers[out->n++] = copy;
	return 0;
}

/* 0, -ENOENT when the file has none of the handlers, or -errno (logged). */
static int resolve(const char *file, const struct sonde_recipe_text *text, struct sonde_elf *elf,
		   struct sonde_recipe *out)
{
	struct sonde_recipe r = {
		.file = strdup(file),
		.title = strdup(text->title),
		.handlers = calloc(text->n, sizeof(*r.handlers)),
	};
	int err = r.file && r.title && r.handlers ? 0 : -ENOMEM;

	for (size_t i = 0; i < text->n && !err; i++)
		err = resolve_handler(file, &text->handlers[i], elf, &r);
	if (!err && !r.n)
		err = -ENOENT;
	if (err)
		sonde_recipe_fini(&r);
	else
		*out = r;
	return err;
}

/* The first of @list that fits: @build_id NULL for the pass by symbols. */
static int resolve_first(const char *file, const struct sonde_recipe_list *list,
			 const char *build_id, struct sonde_elf *elf, struct sonde_recipe *out)
{
	int err = -ENOENT;

	for (size_t i = 0; i < list->n && err == -ENOENT; i++) {
		const char *id = list->r[i].build_id;

		if (build_id ? id && !strcmp(id, build_id) : !id)
			err = resolve(file, &list->r[i], elf, out);
	}
	return err;
}

/* One pass over a file. */
static int try_file(const char *file, const char *build_id, struct sonde_elf *elf,
		    struct sonde_recipe *out)
{
	struct sonde_recipe_list list;
	sonde_autofree char *text = NULL;
	int err = sonde_read_file(file, &text, NULL);

	if (err)
		return sonde_err(err, "cannot read %s: %s", file, strerror(-err));
	err = sonde_recipe_parse(file, text, &list);
	if (err)
		return err;
	err = resolve_first(file, &list, build_id, elf, out);
	sonde_recipe_list_fini(&list);
	return err;
}

static int try_files(const char *dir, struct dirent **names, int n, const char *build_id,
		     struct sonde_elf *elf, struct sonde_recipe *out)
{
	int err = -ENOENT;

	for (int i = 0; i < n && err == -ENOENT; i++) {
		char path[PATH_MAX];

		if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name) < PATH_MAX)
			err = try_file(path, build_id, elf, out);
	}
	return err;
}

int sonde_recipe_find(const char *dir, const char *build_id, struct sonde_elf *elf,
		      struct sonde_recipe *out)
{
	struct dirent **names = NULL;
	char fallback[PATH_MAX];
	int n, err = -ENOENT;

	if (!dir) {
		default_dir(fallback, sizeof(fallback));
		dir = fallback;
	}
	n = scandir(dir, &names, is_recipe, alphasort);
	if (n < 0) {
		sonde_debug("no recipes in %s: %s", dir, strerror(errno));
		return -ENOENT;
	}
	if (build_id && build_id[0])
		err = try_files(dir, names, n, build_id, elf, out);
	if (err == -ENOENT)
		err = try_files(dir, names, n, NULL, elf, out);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return err;
}

/* What was looked for, so that the user sees which name to correct. */
static int refuse_user_file(const char *file, const char *exe, const char *build_id,
			    const struct sonde_recipe_list *list)
{
	sonde_autostr struct sonde_str names = {0};

	for (size_t i = 0; i < list->n; i++) {
		if (list->r[i].build_id)
			sonde_str_addf(&names, "%sbuild-id %s", names.len ? ", " : "",
				       list->r[i].build_id);
		for (size_t k = 0; k < list->r[i].n && !list->r[i].build_id; k++)
			sonde_str_addf(&names, "%ssymbol %s", names.len ? ", " : "",
				       list->r[i].handlers[k].symbol);
	}
	return sonde_err(
		ENOENT,
		"%s: nothing in it fits %s (build-id %s), which has none of: %s; nm -D and "
		"nm list its functions, docs/recipes.md says how a recipe is made",
		file, exe, build_id && *build_id ? build_id : "none", sonde_str_get(&names));
}

int sonde_recipe_load(const char *file, const char *exe, const char *build_id,
		      struct sonde_elf *elf, struct sonde_recipe *out)
{
	struct sonde_recipe_list list;
	sonde_autofree char *text = NULL;
	int err = sonde_read_file(file, &text, NULL);

	if (err)
		return sonde_err(err, "--recipe: cannot read %s: %s", file, strerror(-err));
	err = sonde_recipe_parse(file, text, &list);
	if (err)
		return err;
	err = build_id && *build_id ? resolve_first(file, &list, build_id, elf, out) : -ENOENT;
	if (err == -ENOENT)
		err = resolve_first(file, &list, NULL, elf, out);
	if (err == -ENOENT && exe)
		err = refuse_user_file(file, exe, build_id, &list);
	sonde_recipe_list_fini(&list);
	return err;
}

void sonde_recipe_fini(struct sonde_recipe *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->handlers[i].symbol);
	free(r->handlers);
	free(r->file);
	free(r->title);
	*r = (struct sonde_recipe){0};
}
