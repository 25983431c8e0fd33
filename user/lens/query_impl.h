/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the query lens share: its state, and the steps that each file does. */
#ifndef SONDE_LENS_QUERY_IMPL_H
#define SONDE_LENS_QUERY_IMPL_H

#include "core/str.h"
#include "lens/lens.h"
#include "lens/query.h"
#include "sonde/query.h"

/* What a request's bytes were found to say; the same bytes are read once. */
struct query_text {
	uint64_t key; /* hash of the bytes and the command, 0: empty */
	uint64_t id;  /* of the fingerprint, 0: none */
	char *fingerprint;
	char index[SONDE_INDEX_BYTES];
	uint32_t queries;
};

#define QUERY_HOOK_EXECUTE "query.execute"
#define QUERY_HOOK_RETURN  "query.return"
#define QUERY_HOOK_LOG	   "query.log"
#define QUERY_HOOK_YIELD   "query.yield"
#define QUERY_HOOK_RESUME  "query.resume"

#define QUERY_TEXTS    1024 /* direct-mapped by key                                           */
#define QUERY_CLIENTS  256  /* direct-mapped by connection                                    */
#define QUERY_PREPARED 4096 /* direct-mapped by connection and statement id                   */

struct query_client {
	uint64_t conn;
	char name[64];
};

struct query_prepared {
	uint64_t conn;
	uint32_t statement;
	uint64_t id;
	char *fingerprint;
	char index[SONDE_INDEX_BYTES];
};

struct query_state {
	const struct sonde_query_hist *hists; /* the kernel's, mapped */
	struct sonde_query_hist *before; /* as they were at the last tick                      */
	size_t hists_bytes;
	struct sonde_hist delta, all;
	uint64_t last_ns;
	int counts_fd, n_cpus;
	struct sonde_query_counts *percpu;
	uint64_t counts[SONDE_QUERY_COUNTER__MAX];
	uint64_t sums[SONDE_QUERY_ROW__MAX], sums_before[SONDE_QUERY_ROW__MAX]; /* ns */
	uint64_t swept[SONDE_QUERY_COUNTER__MAX]; /* counted here and not by the kernel           */
	bool finished; /* what was open has been swept                                            */
	bool execute_seen, log_seen; /* the plan attached these handlers                          */
	unsigned disagreed; /* ticks in a row in which handler and spans told different numbers */
	struct query_text texts[QUERY_TEXTS];
	struct query_client clients[QUERY_CLIENTS];
	struct query_prepared prepared[QUERY_PREPARED];
	struct sonde_str text; /* of the span being decoded, valid UTF-8                          */
};

/* query_hooks.c */
int query_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);
/* query_handlers.c: probes in the daemon's own handlers, as its recipe and --query-source say. */
int query_handler_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);
int query_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj);
/* Fill the map of handler fields, and say in @st which handlers the plan attached. */
int query_seed_handlers(struct sonde_lens_ctx *ctx);
/* Mark listeners and accepted connections of all targets. */
int query_seed_sockets(struct sonde_lens_ctx *ctx);
/* The kernel sends what is open on the targets' sockets as unfinished. 0 or -errno. */
int query_sweep_sockets(struct sonde_lens_ctx *ctx);

/* query_anatomy.c; nothing where no anatomy is wanted */
int query_anatomy_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);
/* Where the targets' allocators keep their locks. */
int query_anatomy_seed(struct sonde_lens_ctx *ctx);
/* Everything is attached: queries that begin from now on have an anatomy. */
int query_anatomy_start(struct sonde_lens_ctx *ctx);
/* The totals so far as the metrics from @first on (spans, then the parts), by command as @names
 * calls the classes, and of all. */
int query_anatomy_tick(const struct sonde_lens_ctx *ctx, size_t first, const char *const *names,
		       uint64_t ts_ns);

/* query_span.c */
int query_decode(struct sonde_lens_ctx *ctx, const struct sonde_ev_hdr *ev, size_t size);
/* query_sweep.c */
int query_finish(struct sonde_lens_ctx *ctx);

/* query_source.c: say in the recording where queries come from. */
int query_start(struct sonde_lens_ctx *ctx);

void query_texts_fini(struct query_state *st);

#endif
