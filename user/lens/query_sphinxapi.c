// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bodies of SphinxAPI requests, big-endian; a string is a u32 length and its bytes. A reader never
 * goes beyond what was captured: once it has run out, all it returns is empty.
 */
#include <string.h>

#include "core/mem.h"
#include "lens/query.h"

static const char *const names[] = {
	"search",  "excerpt",	 "update",	"keywords", "persist", "status",
	"query",   "flushattrs", "sphinxql",	"ping",	    "delete",  "uvar",
	"insert",  "replace",	 "commit",	"suggest",  "json",    "callpq",
	"cluster", "getfield",	 "shard_write", "optimize",
};

#define API_SEARCH	  0
#define API_EXCERPT	  1
#define API_UPDATE	  2
#define API_KEYWORDS	  3
#define API_SPHINXQL	  8
#define RANK_EXPR	  8 /* this ranker and the next (EXPORT) carry an expression */
#define SEARCH_WITH_FLAGS 0x11b

const char *sonde_sphinxapi_command_name(unsigned command)
{
	return command < SONDE_ARRAY_SIZE(names) ? names[command] : "unknown";
}

struct reader {
	const unsigned char *p;
	size_t left;
	bool short_of; /* ran out of captured bytes */
	bool wrong;
};

static uint32_t take_u32(struct reader *r)
{
	uint32_t v;

	if (r->short_of || r->left < 4) {
		r->short_of = true;
		return 0;
	}
	v = (uint32_t)r->p[0] << 24 | (uint32_t)r->p[1] << 16 | (uint32_t)r->p[2] << 8 | r->p[3];
	r->p += 4;
	r->left -= 4;
	return v;
}

/* A string, as much of it as was captured. */
static const char *take_string(struct reader *r, size_t *len)
{
	uint32_t n = take_u32(r);
	const char *s = (const char *)r->p;

	if (n > 128u << 20)
		r->wrong = true;
	if (r->short_of || r->wrong) {
		*len = 0;
		return "";
	}
	if (n > r->left) {
		n = (uint32_t)r->left;
		r->short_of = true;
	}
	*len = n;
	r->p += n;
	r->left -= n;
	return s;
}

static void take_query(struct reader *r, unsigned version, bool flags,
		       struct sonde_api_request *out)
{
	size_t skipped;
	uint32_t ranker = 0, weights, mode;

	if (flags)
		take_u32(r);
	take_u32(r); /* offset */
	take_u32(r); /* limit */
	mode = take_u32(r);
	if (version >= 0x110)
		ranker = take_u32(r);
	if (mode > 16 || ranker > 32 || ranker == UINT32_MAX)
		r->wrong = true;
	if (ranker == RANK_EXPR || ranker == RANK_EXPR + 1)
		take_string(r, &skipped);
	if (take_u32(r) > 16) /* sort mode */
		r->wrong = true;
	out->order = take_string(r, &out->order_len);
	out->text = take_string(r, &out->text_len);
	weights = take_u32(r);
	if (weights > 4096)
		r->wrong = true;
	for (uint32_t i = 0; i < weights && !r->short_of && !r->wrong; i++)
		take_u32(r);
	out->index = take_string(r, &out->index_len);
}

static bool decode_search(struct reader r, unsigned version, bool flags,
			  struct sonde_api_request *out)
{
	struct sonde_api_request req = {.text = "", .index = "", .order = "", .queries = 1};

	if (version >= 0x118)
		take_u32(&r); /* master's version, 0 from a client */
	req.queries = take_u32(&r);
	if (r.short_of)
		req.queries = 1;
	else if (req.queries < 1 || req.queries > 4096)
		return false;
	take_query(&r, version, flags, &req);
	if (r.wrong)
		return false;
	*out = req;
	return true;
}

/* Which commands hold an index and a text, in which order, after how many words. */
static const struct {
	uint8_t command, words;
	bool text_first;
} layouts[] = {
	{API_EXCERPT, 2, false}, /* mode, flags, index, words */
	{API_UPDATE, 0, false},	 /* index */
	{API_KEYWORDS, 0, true}, /* query, index */
};

static bool decode_layout(struct reader r, unsigned command, struct sonde_api_request *out)
{
	struct sonde_api_request req = {.text = "", .index = "", .order = "", .queries = 1};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(layouts); i++) {
		if (layouts[i].command != command)
			continue;
		for (unsigned w = 0; w < layouts[i].words; w++)
			take_u32(&r);
		if (layouts[i].text_first)
			req.text = take_string(&r, &req.text_len);
		req.index = take_string(&r, &req.index_len);
		if (!layouts[i].text_first && command == API_EXCERPT)
			req.text = take_string(&r, &req.text_len);
	}
	if (command == API_SPHINXQL) {
		req.text = take_string(&r, &req.text_len);
		req.is_sql = true;
	}
	if (r.wrong)
		return false;
	*out = req;
	return true;
}

bool sonde_sphinxapi_decode(unsigned command, unsigned version, const char *body, size_t len,
			    struct sonde_api_request *out)
{
	struct reader r = {.p = (const unsigned char *)body, .left = len};

	if (command != API_SEARCH)
		return decode_layout(r, command, out);
	/* A word of flags came with 0x11b; builds between disagree, so try both. */
	return decode_search(r, version, version >= SEARCH_WITH_FLAGS, out) ||
	       decode_search(r, version, version < SEARCH_WITH_FLAGS, out);
}
