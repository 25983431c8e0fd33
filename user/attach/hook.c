// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The list of hooks that lenses ask for. The list owns the sites and their strings from the moment
 * a hook is added; alternatives stay with the lens, which keeps them static.
 */
#include "attach/hook.h"
#include "core/mem.h"

static void hook_fini(struct sonde_hook *h)
{
	for (size_t i = 0; i < h->n_sites; i++) {
		free(h->sites[i].path);
		free(h->sites[i].shown);
		free(h->sites[i].symbol);
	}
	free(h->sites);
}

int sonde_hook_list_add(struct sonde_hook_list *list, const struct sonde_hook *hook)
{
	int err = SONDE_GROW(list->h, list->n, list->cap);

	if (err)
		return err;
	list->h[list->n++] = *hook;
	return 0;
}

void sonde_hook_list_fini(struct sonde_hook_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		hook_fini(&list->h[i]);
	free(list->h);
	*list = (struct sonde_hook_list){};
}
