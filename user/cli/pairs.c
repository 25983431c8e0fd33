// SPDX-License-Identifier: GPL-2.0-or-later
/* Pairs, margins and looks; see pairs.h. */
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

#define MAX_LOOKS 100

int sonde_look_split(const char *text, struct sonde_look_text *out)
{
	const char *slash = strchr(text, '/');
	char first[8];
	uint64_t look, looks;

	if (!slash || (size_t)(slash - text) >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, (size_t)(slash - text));
	first[slash - text] = '\0';
	if (sonde_parse_u64(first, &look) || sonde_parse_u64(slash + 1, &looks) || !look ||
	    look > looks || looks > MAX_LOOKS)
		return -EINVAL;
	*out = (struct sonde_look_text){(uint32_t)look, (uint32_t)looks};
	return 0;
}
