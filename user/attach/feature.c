// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of features and the loop that asks. How each is asked is in feature_probe.c; here is
 * what an errno means: EPERM and EACCES are "denied", which the user can mend, everything else is
 * "no".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/bpflog.h"
#include "attach/feature.h"
#include "attach/feature_probe.h"
#include "core/mem.h"

static const struct {
	const char *name, *since, *what, *remedy;
	int (*probe)(void);
} features[SONDE_FEAT__MAX] = {
#define SONDE_FEATURE_ROW(sym, name, since, what, remedy)                                          \
	[SONDE_FEAT_##sym] = {name, since, what, remedy, sonde_probe_##sym},
	SONDE_FEATURES(SONDE_FEATURE_ROW)
#undef SONDE_FEATURE_ROW
};

static enum sonde_answer answer_of(int err)
{
	if (!err)
		return SONDE_YES;
	return err == -EPERM || err == -EACCES ? SONDE_DENIED : SONDE_NO;
}

/* Is @name a word of the comma-separated @list? */
static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *s = list; s && *s; s = strchr(s, ','), s = s ? s + 1 : NULL)
		if (!strncmp(s, name, len) && (s[len] == ',' || !s[len]))
			return true;
	return false;
}

void sonde_features_probe(struct sonde_features *f)
{
	const char *without = getenv("SONDE_WITHOUT");

	sonde_bpflog_init();
	for (size_t i = 0; i < SONDE_FEAT__MAX; i++) {
		int err = listed(without, features[i].name) ? -ENOSYS : features[i].probe();

		f->have[i] = answer_of(err);
		f->err[i] = err ? -err : 0;
	}
}

const char *sonde_feature_name(enum sonde_feature feat)
{
	return feat < SONDE_FEAT__MAX ? features[feat].name : "none";
}

const char *sonde_feature_what(enum sonde_feature feat)
{
	return feat < SONDE_FEAT__MAX ? features[feat].what : "";
}

const char *sonde_feature_since(enum sonde_feature feat)
{
	return feat < SONDE_FEAT__MAX ? features[feat].since : "";
}

const char *sonde_feature_remedy(enum sonde_feature feat)
{
	return feat < SONDE_FEAT__MAX ? features[feat].remedy : "";
}

const char *sonde_feature_advice(enum sonde_feature feat, enum sonde_answer answer)
{
	bool own = feat == SONDE_FEAT_PERF_SW || feat == SONDE_FEAT_MAP_FILES;

	/* Most remedies are about the kernel's version, which does not help against a denial. */
	return sonde_feature_remedy(answer == SONDE_DENIED && !own ? SONDE_FEAT_BPF : feat);
}

/* What is asked for by way of the kernel's types: without them nothing is known of it. */
static const bool by_types[SONDE_FEAT__MAX] = {
	[SONDE_FEAT_SK_STORAGE] = true,	    [SONDE_FEAT_TP_BTF] = true,
	[SONDE_FEAT_SOCK_LENGTH] = true,    [SONDE_FEAT_SK_DATA_READY] = true,
	[SONDE_FEAT_ITER_TASK_FILE] = true, [SONDE_FEAT_MM_OWNER] = true,
	[SONDE_FEAT_CONTENTION] = true,	    [SONDE_FEAT_ITER_SLEEPABLE] = true,
};

bool sonde_features_typeless(const struct sonde_features *f, enum sonde_feature feat)
{
	return by_types[feat] && f->have[SONDE_FEAT_BTF] == SONDE_NO && f->have[feat] == SONDE_NO;
}

const char *sonde_features_advice(const struct sonde_features *f, enum sonde_feature feat)
{
	if (sonde_features_typeless(f, feat))
		return "cannot be told without btf, see there";
	return sonde_feature_advice(feat, f->have[feat]);
}

const char *sonde_answer_name(enum sonde_answer a)
{
	static const char *const names[] = {
		[SONDE_NO] = "no",
		[SONDE_YES] = "yes",
		[SONDE_DENIED] = "denied",
	};

	return a < SONDE_ARRAY_SIZE(names) ? names[a] : "unknown";
}

int sonde_feature_find(const char *name)
{
	for (size_t i = 0; i < SONDE_FEAT__MAX; i++)
		if (!strcmp(features[i].name, name))
			return (int)i;
	return -1;
}
