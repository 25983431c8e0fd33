// SPDX-License-Identifier: GPL-2.0-or-later
/* The fan-out visitor, and the names that every output uses. */
#include "core/mem.h"
#include "model/visitor.h"

#define FANOUT(hook, type)                                                                         \
	static int fan_##hook(void *ctx, type arg)                                                 \
	{                                                                                          \
		struct sonde_fanout *f = ctx;                                                      \
		int err = 0;                                                                       \
                                                                                                   \
		for (size_t i = 0; i < f->n && !err; i++)                                          \
			err = sonde_visit(f->to[i], hook, arg);                                    \
		return err;                                                                        \
	}

FANOUT(begin, const struct sonde_meta *)
FANOUT(start, uint64_t)
FANOUT(metric, const struct sonde_metric *)
FANOUT(hist, const struct sonde_histrow *)
FANOUT(span, const struct sonde_span *)
FANOUT(stack, const struct sonde_stack *)
FANOUT(stack_count, const struct sonde_stack_count *)
FANOUT(note, const struct sonde_note *)
FANOUT(drop, const struct sonde_drops *)
FANOUT(tick, uint64_t)
FANOUT(end, const struct sonde_meta *)

struct sonde_visitor sonde_fanout_visitor(struct sonde_fanout *f)
{
	return (struct sonde_visitor){
		.ctx = f,
		.begin = fan_begin,
		.start = fan_start,
		.metric = fan_metric,
		.hist = fan_hist,
		.span = fan_span,
		.stack = fan_stack,
		.stack_count = fan_stack_count,
		.note = fan_note,
		.drop = fan_drop,
		.tick = fan_tick,
		.end = fan_end,
	};
}

static const char *name_of(const char *const *names, size_t n, unsigned i)
{
	return i < n && names[i] ? names[i] : "?";
}

const char *sonde_lens_id_name(enum sonde_lens_id lens)
{
	static const char *const names[] = {
#define NAME(id, sym, name) [id] = name,
		SONDE_LENS_IDS(NAME)
#undef NAME
	};

	return name_of(names, SONDE_ARRAY_SIZE(names), lens);
}

static const struct {
	const char *name, *help;
	bool loses;
} causes[] = {
#define ROW(id, sym, name, loses, help) [id] = {name, help, loses},
	SONDE_DROP_CAUSES(ROW)
#undef ROW
};

const char *sonde_drop_name(enum sonde_drop cause)
{
	return (unsigned)cause < SONDE_ARRAY_SIZE(causes) ? causes[cause].name : "?";
}

const char *sonde_drop_help(enum sonde_drop cause)
{
	return (unsigned)cause < SONDE_ARRAY_SIZE(causes) ? causes[cause].help : "?";
}

bool sonde_drop_loses(enum sonde_drop cause)
{
	return (unsigned)cause >= SONDE_ARRAY_SIZE(causes) || causes[cause].loses;
}

static const struct {
	const char *name, *help;
} stack_ends[] = {
#define ROW(id, sym, name, help) [id] = {name, help},
	SONDE_STACK_ENDS(ROW)
#undef ROW
};

const char *sonde_stack_end_name(unsigned end)
{
	return end < SONDE_ARRAY_SIZE(stack_ends) ? stack_ends[end].name : "?";
}

const char *sonde_stack_end_help(unsigned end)
{
	return end < SONDE_ARRAY_SIZE(stack_ends) ? stack_ends[end].help : "?";
}

const char *sonde_note_level_name(enum sonde_note_level level)
{
	static const char *const names[] = {
		[SONDE_NOTE_EVENT] = "event",
		[SONDE_NOTE_INFO] = "info",
		[SONDE_NOTE_DEGRADED] = "degraded",
		[SONDE_NOTE_CAUTION] = "caution",
	};

	return name_of(names, SONDE_ARRAY_SIZE(names), level);
}

const char *sonde_span_status_name(unsigned status)
{
	static const char *const names[] = {
		[SONDE_SPAN_OK] = "ok",
		[SONDE_SPAN_ERROR] = "error",
		[SONDE_SPAN_WARNING] = "warning",
		[SONDE_SPAN_RETRY] = "retry",
		[SONDE_SPAN_NO_REPLY] = "no_reply",
		[SONDE_SPAN_ABORTED] = "aborted",
		[SONDE_SPAN_UNFINISHED] = "unfinished",
	};

	return name_of(names, SONDE_ARRAY_SIZE(names), status);
}

#define NAME(id, sym, name, help) [SONDE_PART_##sym] = #name,
#define HELP(id, sym, name, help) [SONDE_PART_##sym] = help,
static const char *const part_names[] = {SONDE_PARTS(NAME)};
static const char *const part_helps[] = {SONDE_PARTS(HELP)};

const char *sonde_part_name(unsigned part)
{
	return name_of(part_names, SONDE_PART__MAX, part);
}

const char *sonde_part_help(unsigned part)
{
	return name_of(part_helps, SONDE_PART__MAX, part);
}

const char *sonde_proto_name(unsigned proto)
{
	static const char *const names[] = {
		[SONDE_PROTO_UNKNOWN] = "unknown",
		[SONDE_PROTO_MYSQL] = "mysql",
		[SONDE_PROTO_SPHINXAPI] = "sphinxapi",
		[SONDE_PROTO_HTTP] = "http",
	};

	return name_of(names, SONDE_ARRAY_SIZE(names), proto);
}
