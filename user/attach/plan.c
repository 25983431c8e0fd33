// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plan is a pure function: for every hook, in its order of preference, the first alternative
 * that nothing speaks against. What spoke against a better one becomes part of the item's reason,
 * so that `sonde doctor` can say why. A denial is not an absence: the fall-back is taken, but the
 * item is degraded and the reason carries the remedy.
 *
 * One rule guards the target: what fires at a function's return is only planned for sites that want
 * it and sit at the true entry, since the kernel replaces the word at the stack pointer by its
 * trampoline.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/link.h"
#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"

/* Why an alternative cannot be taken; the order is the order of severity for a required hook. */
enum refusal { REFUSED_NOT, REFUSED_CHOICE, REFUSED_TARGET, REFUSED_KERNEL, REFUSED_DENIED };

struct planner {
	const struct sonde_features *features;
	const struct sonde_plan_choice *choice;
};

static const char *const families[] = {"session", "multi", "perf"};

static bool has_family(const struct sonde_hook *hook, const char *family)
{
	for (size_t i = 0; i < hook->n_alts; i++) {
		const char *f = sonde_link_family(hook->alts[i].kind);

		if (f && !strcmp(f, family))
			return true;
	}
	return false;
}

/* The family that a forced choice means for @hook. Hooks that only want entries have no session. */
static const char *forced_family(const struct planner *p, const struct sonde_hook *hook)
{
	const char *force = p->choice->force_link;

	if (force && !strcmp(force, "session") && !has_family(hook, force))
		return "multi";
	return force;
}

static bool returns_fit(const struct sonde_hook *hook, const struct sonde_alternative *alt)
{
	bool session = alt->kind == SONDE_LINK_UPROBE_SESSION;
	bool any = session || sonde_link_is_return(alt->kind) || alt->ret_program;

	for (size_t i = 0; any && i < hook->n_sites; i++) {
		const struct sonde_probe_site *s = &hook->sites[i];

		if (s->want_return ? s->site.slide != 0 : session)
			return false;
	}
	return true;
}

static bool is_socket_feature(enum sonde_feature f)
{
	return f == SONDE_FEAT_SOCK_LENGTH || f == SONDE_FEAT_SK_DATA_READY;
}

static enum refusal refuse_by_feature(const struct planner *p, enum sonde_feature feat,
				      struct sonde_str *why)
{
	if (feat >= SONDE_FEAT__MAX)
		return REFUSED_NOT;
	if (p->choice->force_syscalls && is_socket_feature(feat)) {
		sonde_str_addf(why, "%s is switched off by SONDE_FORCE_SYSCALLS",
			       sonde_feature_name(feat));
		return REFUSED_CHOICE;
	}
	switch (p->features->have[feat]) {
	case SONDE_YES:
		return REFUSED_NOT;
	case SONDE_DENIED:
		sonde_str_addf(why, "%s is denied: %s", sonde_feature_name(feat),
			       sonde_feature_advice(feat, SONDE_DENIED));
		return REFUSED_DENIED;
	default:
		if (sonde_features_typeless(p->features, feat))
			sonde_str_addf(why, "%s cannot be used without the kernel's types (btf)",
				       sonde_feature_name(feat));
		else
			sonde_str_addf(why, "this kernel lacks %s (since %s)",
				       sonde_feature_name(feat), sonde_feature_since(feat));
		return REFUSED_KERNEL;
	}
}

static enum refusal refuse_uprobe(const struct planner *p, const struct sonde_hook *hook,
				  const struct sonde_alternative *alt, struct sonde_str *why)
{
	const char *force = forced_family(p, hook);

	if (p->choice->passive) {
		sonde_str_addf(why, "--passive forbids probes in the target's code");
		return REFUSED_CHOICE;
	}
	if (force && strcmp(force, sonde_link_family(alt->kind))) {
		sonde_str_addf(why, "SONDE_FORCE_LINK=%s excludes it", p->choice->force_link);
		return REFUSED_CHOICE;
	}
	if (!hook->n_sites) {
		sonde_str_addf(why, "the target has no place to probe");
		return REFUSED_TARGET;
	}
	if (!returns_fit(hook, alt)) {
		sonde_str_addf(why, "not every site may carry a return probe");
		return REFUSED_TARGET;
	}
	return REFUSED_NOT;
}

/* Says why in @why, or nothing speaks against it. */
static enum refusal refuse(const struct planner *p, const struct sonde_hook *hook,
			   const struct sonde_alternative *alt, struct sonde_str *why)
{
	enum refusal r = REFUSED_NOT;

	if (sonde_link_is_uprobe(alt->kind))
		r = refuse_uprobe(p, hook, alt, why);
	if (!r)
		r = refuse_by_feature(p, sonde_link_feature(alt->kind), why);
	for (size_t i = 0; !r && i < SONDE_ARRAY_SIZE(alt->needs); i++)
		r = refuse_by_feature(p, alt->needs[i], why);
	return r;
}

static const char *pair_word(const struct sonde_alternative *alt)
{
	return alt->ret_program ? " pair" : "";
}

/* The sentence of an item that got alternative @taken (-1: none). */
static int tell(struct sonde_plan_item *item, int taken, const struct sonde_str *refusals)
{
	sonde_autostr struct sonde_str text = {};
	const struct sonde_alternative *alt = taken >= 0 ? &item->hook->alts[taken] : NULL;
	int err;

	if (!alt)
		err = sonde_str_addf(&text, "not attached: %s",
				     refusals->len ? sonde_str_get(refusals) : "no way is known");
	else
		err = sonde_str_addf(
			&text, "%s%s%s%s%s%s", sonde_link_kind_name(alt->kind), pair_word(alt),
			alt->weaker ? ", weaker: " : "", alt->weaker ? alt->weaker : "",
			refusals->len ? "; better but refused: " : ", the first choice",
			sonde_str_get(refusals));
	if (err)
		return err;
	item->reason = strdup(sonde_str_get(&text));
	return item->reason ? 0 : -ENOMEM;
}

static int refused_error(const struct sonde_hook *hook, enum refusal worst, const char *reason)
{
	static const int codes[] = {
		[REFUSED_NOT] = EOPNOTSUPP,    [REFUSED_CHOICE] = EINVAL,
		[REFUSED_TARGET] = EOPNOTSUPP, [REFUSED_KERNEL] = EOPNOTSUPP,
		[REFUSED_DENIED] = EPERM,
	};

	return sonde_err(codes[worst], "%s (%s) cannot work: %s", hook->name,
			 hook->purpose ? hook->purpose : "required", reason);
}

/* A forced family is a test's demand: lacking it is an error even where the hook is optional. */
static bool is_forced(const struct planner *p, const struct sonde_hook *hook)
{
	if (!p->choice->force_link || p->choice->passive || !hook->n_sites)
		return false;
	for (size_t i = 0; i < hook->n_alts; i++)
		if (sonde_link_is_uprobe(hook->alts[i].kind))
			return true;
	return false;
}

/* "a (why), b (why)"; neighbours with the same why share it: "a, b (why)". */
static int note_refusal(struct sonde_str *list, struct sonde_str *last, const struct sonde_str *why,
			const struct sonde_alternative *alt)
{
	bool same = list->len && !strcmp(sonde_str_get(last), sonde_str_get(why));

	if (same)
		list->len -= why->len + strlen(" ()");
	sonde_str_clear(last);
	if (sonde_str_addf(last, "%s", sonde_str_get(why)))
		return -ENOMEM;
	return sonde_str_addf(list, "%s%s%s (%s)", list->len ? ", " : "",
			      sonde_link_kind_name(alt->kind), pair_word(alt), sonde_str_get(why));
}

static int plan_hook(const struct planner *p, const struct sonde_hook *hook,
		     struct sonde_plan_item *item)
{
	sonde_autostr struct sonde_str refusals = {}, last = {};
	enum refusal worst = REFUSED_NOT;
	int taken = -1, err;

	*item = (struct sonde_plan_item){.hook = hook, .alt = -1};
	for (size_t i = 0; i < hook->n_alts && taken < 0; i++) {
		sonde_autostr struct sonde_str why = {};
		enum refusal r = refuse(p, hook, &hook->alts[i], &why);

		if (!r)
			taken = (int)i;
		else if (note_refusal(&refusals, &last, &why, &hook->alts[i]))
			return -ENOMEM;
		if (r > worst)
			worst = r;
	}
	err = tell(item, taken, &refusals);
	if (err)
		return err;
	item->degraded = worst == REFUSED_DENIED || (taken < 0 && worst != REFUSED_CHOICE);
	if (taken < 0)
		return hook->required || is_forced(p, hook)
			       ? refused_error(hook, worst, item->reason)
			       : 0;
	item->alt = taken;
	item->kind = hook->alts[taken].kind;
	item->program = hook->alts[taken].program;
	item->ret_program = hook->alts[taken].ret_program;
	item->degraded |= hook->alts[taken].weaker != NULL;
	return 0;
}

static int check_force(const char *force)
{
	if (!force)
		return 0;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(families); i++)
		if (!strcmp(force, families[i]))
			return 0;
	return sonde_err(EINVAL,
			 "SONDE_FORCE_LINK=%s: no such kind of link; one of session, multi, perf",
			 force);
}

int sonde_plan_make(const struct sonde_hook_list *hooks, const struct sonde_features *features,
		    const struct sonde_plan_choice *choice, struct sonde_plan *out)
{
	struct planner p = {.features = features, .choice = choice};
	struct sonde_plan plan = {};
	int err = check_force(choice->force_link);

	if (err)
		return err;
	plan.items = calloc(hooks->n ? hooks->n : 1, sizeof(*plan.items));
	if (!plan.items)
		return -ENOMEM;
	for (size_t i = 0; i < hooks->n && !err; i++) {
		struct sonde_plan_item *item = &plan.items[plan.n++];

		err = plan_hook(&p, &hooks->h[i], item);
		plan.degraded |= item->degraded;
		if (sonde_link_is_uprobe(item->kind)) {
			plan.has_uprobes = true;
			plan.n_sites += hooks->h[i].n_sites;
		}
	}
	if (err) {
		sonde_plan_fini(&plan);
		return err;
	}
	*out = plan;
	return 0;
}

void sonde_plan_fini(struct sonde_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		free(plan->items[i].reason);
	free(plan->items);
	*plan = (struct sonde_plan){};
}

const struct sonde_plan_item *sonde_plan_find(const struct sonde_plan *plan, const char *name)
{
	for (size_t i = 0; plan && i < plan->n; i++)
		if (plan->items[i].alt >= 0 && !strcmp(plan->items[i].hook->name, name))
			return &plan->items[i];
	return NULL;
}

void sonde_plan_choice_from_env(struct sonde_plan_choice *choice)
{
	const char *link = getenv("SONDE_FORCE_LINK");
	const char *syscalls = getenv("SONDE_FORCE_SYSCALLS");

	choice->force_link = link && *link ? link : NULL;
	choice->force_syscalls = syscalls && !strcmp(syscalls, "1");
}
