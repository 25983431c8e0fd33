// SPDX-License-Identifier: GPL-2.0-or-later
/* An ordered list of key and text; see meta.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "model/meta.h"

void sonde_meta_fini(struct sonde_meta *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->rows[i].key);
		free(m->rows[i].value);
	}
	free(m->rows);
	*m = (struct sonde_meta){0};
}

static struct sonde_meta_row *find_row(const struct sonde_meta *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->rows[i].key, key))
			return &m->rows[i];
	return NULL;
}

int sonde_meta_set(struct sonde_meta *m, const char *key, const char *fmt, ...)
{
	struct sonde_meta_row *row = find_row(m, key);
	sonde_autofree char *value = NULL, *copy = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (n < 0) {
		value = NULL;
		return -ENOMEM;
	}
	if (row) {
		free(row->value);
		row->value = SONDE_TAKE(value);
		return 0;
	}
	copy = strdup(key);
	if (!copy || SONDE_GROW(m->rows, m->n, m->cap))
		return -ENOMEM;
	m->rows[m->n++] = (struct sonde_meta_row){SONDE_TAKE(copy), SONDE_TAKE(value)};
	return 0;
}

const char *sonde_meta_find(const struct sonde_meta *m, const char *key)
{
	const struct sonde_meta_row *row = find_row(m, key);

	return row ? row->value : NULL;
}

int sonde_meta_set_clock(struct sonde_meta *m, const struct sonde_clockpair *clock)
{
	int err = sonde_meta_set(m, "clock.mono_ns", "%" PRIu64, clock->mono_ns);

	return err ? err : sonde_meta_set(m, "clock.real_ns", "%" PRIu64, clock->real_ns);
}

bool sonde_meta_clock(const struct sonde_meta *m, struct sonde_clockpair *out)
{
	const char *mono = sonde_meta_find(m, "clock.mono_ns");
	const char *real = sonde_meta_find(m, "clock.real_ns");
	struct sonde_clockpair pair;

	if (!mono || !real || sonde_parse_u64(mono, &pair.mono_ns) ||
	    sonde_parse_u64(real, &pair.real_ns))
		return false;
	*out = pair;
	return true;
}
