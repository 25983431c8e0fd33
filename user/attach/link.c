// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of link kinds; everything that differs between them by name or number is a column here.
 */
#include <errno.h>

#include "attach/link.h"
#include "core/mem.h"

/* UAPI of 6.6 and 6.13; the numbers are ABI, the headers of older distributions lack the names. */
enum { TYPE_AS_SECTION = -1, TYPE_UPROBE_MULTI = 48, TYPE_UPROBE_SESSION = 57 };

static const struct {
	const char *name, *family;
	enum sonde_feature feature;
	int attach_type;
	bool ret;
	enum sonde_link_kind ret_kind;
	int (*create)(const struct sonde_link_request *req);
} kinds[SONDE_LINK__MAX] = {
	[SONDE_LINK_NONE] = {"none", NULL, SONDE_FEAT_NONE, TYPE_AS_SECTION},
	[SONDE_LINK_TP_BTF] = {"tp_btf", NULL, SONDE_FEAT_TP_BTF, TYPE_AS_SECTION,
			       .create = sonde_link_kernel},
	[SONDE_LINK_RAW_TP] = {"raw_tp", NULL, SONDE_FEAT_BPF, TYPE_AS_SECTION,
			       .create = sonde_link_kernel},
	[SONDE_LINK_TRACEPOINT] = {"tracepoint", NULL, SONDE_FEAT_TRACEFS, TYPE_AS_SECTION,
				   .create = sonde_link_kernel},
	[SONDE_LINK_PERF_SW] = {"perf_sw", NULL, SONDE_FEAT_PERF_SW, TYPE_AS_SECTION,
				.create = sonde_link_perf_sw},
	[SONDE_LINK_ITER] = {"iter", NULL, SONDE_FEAT_ITER_TASK_FILE, TYPE_AS_SECTION},
	[SONDE_LINK_UPROBE_MULTI] = {"uprobe_multi", "multi", SONDE_FEAT_UPROBE_MULTI,
				     TYPE_UPROBE_MULTI, false, SONDE_LINK_URETPROBE_MULTI,
				     sonde_link_uprobe_multi},
	[SONDE_LINK_URETPROBE_MULTI] = {"uretprobe_multi", "multi", SONDE_FEAT_UPROBE_MULTI,
					TYPE_UPROBE_MULTI, true, SONDE_LINK_NONE,
					sonde_link_uprobe_multi},
	[SONDE_LINK_UPROBE_SESSION] = {"uprobe_session", "session", SONDE_FEAT_UPROBE_SESSION,
				       TYPE_UPROBE_SESSION, true, SONDE_LINK_NONE,
				       sonde_link_uprobe_multi},
	[SONDE_LINK_UPROBE_PERF] = {"uprobe_perf", "perf", SONDE_FEAT_PERF_UPROBE, 0, false,
				    SONDE_LINK_URETPROBE_PERF, sonde_link_uprobe_perf},
	[SONDE_LINK_URETPROBE_PERF] = {"uretprobe_perf", "perf", SONDE_FEAT_PERF_UPROBE, 0, true,
				       SONDE_LINK_NONE, sonde_link_uprobe_perf},
};

const char *sonde_link_kind_name(enum sonde_link_kind kind)
{
	return kind < SONDE_LINK__MAX ? kinds[kind].name : "unknown";
}

int sonde_link_attach_type(enum sonde_link_kind kind)
{
	return kinds[kind].attach_type;
}

bool sonde_link_is_uprobe(enum sonde_link_kind kind)
{
	return kinds[kind].family != NULL;
}

bool sonde_link_is_return(enum sonde_link_kind kind)
{
	return kinds[kind].ret;
}

enum sonde_link_kind sonde_link_return_of(enum sonde_link_kind kind)
{
	return kinds[kind].ret_kind;
}

const char *sonde_link_family(enum sonde_link_kind kind)
{
	return kinds[kind].family;
}

enum sonde_feature sonde_link_feature(enum sonde_link_kind kind)
{
	return kinds[kind].feature;
}

int sonde_link_create(const struct sonde_link_request *req)
{
	if (!kinds[req->kind].create)
		return -EINVAL;
	return kinds[req->kind].create(req);
}
