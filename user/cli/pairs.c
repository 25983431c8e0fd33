// SPDX-License-Identifier: GPL-2.0-or-later
/* Pairs and margins; see pairs.h. */
#include <errno.h>
#include <string.h>

#include "cli/pairs.h"
#include "core/num.h"

static int take(char *to, const char *from, size_t len)
{
	if (!len || len >= SONDE_TRIAL_NAME)
		return -EINVAL;
	memcpy(to, from, len);
	to[len] = '\0';
	return 0;
}

int sonde_pair_split(const char *text, struct sonde_pair_text *out)
{
	const char *equals = strchr(text, '='), *slash = equals ? strchr(equals, '/') : NULL;
	struct sonde_pair_text pair;

	if (!slash || strchr(slash + 1, '/') || take(pair.arm, text, (size_t)(equals - text)) ||
	    take(pair.treated, equals + 1, (size_t)(slash - equals - 1)) ||
	    take(pair.reference, slash + 1, strlen(slash + 1)))
		return -EINVAL;
	*out = pair;
	return 0;
}

int sonde_margin_split(const char *text, struct sonde_margin_text *out)
{
	const char *equals = strchr(text, '=');
	struct sonde_margin_text margin;

	if (!equals || take(margin.metric, text, (size_t)(equals - text)) ||
	    sonde_parse_percent(equals + 1, &margin.margin) || !(margin.margin > 0) ||
	    margin.margin >= 1)
		return -EINVAL;
	*out = margin;
	return 0;
}
