// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * "Did you mean". Distance is the number of letters to insert, delete, replace or swap with their
 * neighbour; a name is near when that is at most a third of the longer one's length, or when it
 * begins with what was typed. Words longer than 31 letters are never near.
 */
#include <string.h>

#include "cli/suggest.h"

#define MAX_WORD 31

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t d[MAX_WORD + 1][MAX_WORD + 1];

	for (size_t i = 0; i <= n; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			size_t same = a[i - 1] == b[j - 1] ? 0 : 1;

			d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	}
	return d[n][m];
}

void sonde_suggest_init(struct sonde_suggest *s, const char *typed, size_t typed_len)
{
	*s = (struct sonde_suggest){
		.typed = typed, .typed_len = typed_len, .best_distance = MAX_WORD};
}

void sonde_suggest_offer(struct sonde_suggest *s, const char *name)
{
	size_t n = s->typed_len, m = strlen(name), dist;

	if (n == 0 || n > MAX_WORD || m > MAX_WORD)
		return;
	dist = distance(s->typed, n, name, m);
	if (m > n && n >= 2 && !strncmp(name, s->typed, n))
		dist = 1;
	if (dist * 3 > (n > m ? n : m) || dist >= s->best_distance)
		return;
	s->best = name;
	s->best_distance = dist;
}
