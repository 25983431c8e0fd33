// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The source of queries in words: doctor, the dry run and recordings say it alike. The invariant:
 * what is said comes from the plan that is executed, not from what was asked for.
 */
#include <stdio.h>
#include <string.h>

#include "lens/query_impl.h"
#include "lens/query_source.h"
#include "sonde/handler.h"

bool sonde_query_has_handlers(const struct sonde_plan *plan)
{
	return sonde_plan_find(plan, QUERY_HOOK_EXECUTE);
}

const char *sonde_query_source_text(const struct sonde_plan *plan,
				    const struct sonde_lens_opts *opts, char *buf, size_t size)
{
	bool handlers = sonde_query_has_handlers(plan);
	const char *end =
		sonde_plan_find(plan, QUERY_HOOK_RETURN)
			? "; a query ends where its handler returns or with what is sent, "
			  "as its recipe says"
			: "; a query ends with the last that is sent before the next request";
	const char *why = opts->passive ? "--passive allows no probe"
			  : opts->query_source == SONDE_SOURCE_SOCKET
				  ? "--query-source socket"
				  : "no recipe knows this daemon's handlers";

	if (handlers && opts->query_source == SONDE_SOURCE_HANDLER)
		snprintf(buf, size,
			 "the daemon's own handlers, with times and bytes from its sockets%s", end);
	else if (handlers && opts->query_source == SONDE_SOURCE_AUTO)
		snprintf(buf, size,
			 "sockets, decoded (" SONDE_QUERY_PROTOCOLS
			 "); where they cannot be (TLS, compression, another protocol), the "
			 "daemon's own "
			 "handlers%s",
			 end);
	else
		snprintf(buf, size,
			 "sockets, decoded (" SONDE_QUERY_PROTOCOLS
			 "); nothing of what is encrypted or "
			 "of another protocol (%s)",
			 why);
	return buf;
}

int query_start(struct sonde_lens_ctx *ctx)
{
	char text[400], note[440];
	int err;

	snprintf(note, sizeof(note), "source of queries: %s",
		 sonde_query_source_text(ctx->plan, ctx->opts, text, sizeof(text)));
	err = sonde_lens_note(ctx, SONDE_NOTE_INFO, note, "");
	return err ? err : query_anatomy_start(ctx);
}
