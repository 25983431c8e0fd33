/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recipes as they are written, before a file is chosen and its sites resolved. Inside target/ only.
 */
#ifndef SONDE_TARGET_RECIPE_H
#define SONDE_TARGET_RECIPE_H

#include "sonde/event.h"
#include "target/daemon.h"

#define SONDE_RECIPE_HANDLERS 16 /* of one recipe */

struct sonde_recipe_text {
	char *title;
	char *build_id;			/* NULL: handlers are found by symbol only */
	struct sonde_handler *handlers; /* offset 0: not given */
	size_t n;
};

struct sonde_recipe_list {
	struct sonde_recipe_text *r;
	size_t n, cap;
};

/* All recipes of @text, read from @file. 0 or -errno (logged with file and line). */
int sonde_recipe_parse(const char *file, const char *text, struct sonde_recipe_list *out);
/* What a field's text says: 0 or -EINVAL. docs/recipes.md lists the forms. */
int sonde_recipe_field(const char *text, struct sonde_handler_field *out);
void sonde_recipe_list_fini(struct sonde_recipe_list *list);

#endif
