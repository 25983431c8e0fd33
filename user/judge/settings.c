// SPDX-License-Identifier: GPL-2.0-or-later
/* Settings among facts; see settings.h. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "judge/settings.h"

const char *sonde_settings_target(const struct sonde_settings *s, const char *what)
{
	char key[128];

	snprintf(key, sizeof(key), "target.%s.%s", s->target, what);
	return sonde_meta_find(s->meta, key);
}

/* A key without what is different in any two runs; NULL: not a setting. "target.N." is cut off. */
static const char *name_of(const struct sonde_settings *s, const char *key)
{
	static const char *const kept[] = {"kernel.", "host.",	   "thp.",
					   "run.thp", "run.alloc", "sonde.version"};
	static const char *const dropped[] = {"pid", "age_ns", "start_mono_ns", "env.LD_PRELOAD"};
	char prefix[64];

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(kept); i++)
		if (sonde_str_starts(key, kept[i]))
			return key;
	snprintf(prefix, sizeof(prefix), "target.%s.", s->target);
	if (!sonde_str_starts(key, prefix))
		return NULL;
	key += strlen(prefix);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(dropped); i++)
		if (!strcmp(key, dropped[i]))
			return NULL;
	return key;
}

/* The value by the name that name_of gives; NULL: the recording does not say. */
static const char *value(const struct sonde_settings *s, const char *name)
{
	const char *v = sonde_meta_find(s->meta, name);

	v = v ? v : sonde_settings_target(s, name);
	return v && *v ? v : NULL;
}

int sonde_settings_compare(const struct sonde_settings *a, const struct sonde_settings *b,
			   int (*found)(void *ctx, const char *what, const char *x, const char *y),
			   void *ctx)
{
	const struct sonde_settings *of[2] = {a, b};
	int err = 0;

	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < of[k]->meta->n && !err; i++) {
			const char *name = name_of(of[k], of[k]->meta->rows[i].key), *x, *y;

			if (!name)
				continue;
			x = value(a, name);
			y = value(b, name);
			/* What @a has was told already. */
			if ((k == 1 && x) || (!x && !y) || (x && y && !strcmp(x, y)))
				continue;
			err = found(ctx, name, x, y);
		}
	}
	return err;
}
