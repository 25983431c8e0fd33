// SPDX-License-Identifier: GPL-2.0-or-later
/* The control flow of one small function; see wrapper.h. */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/insn.h"
#include "target/wrapper.h"

#define NONE (-1)

struct node {
	struct sonde_insn insn;
	uint32_t at;
	int next, taken; /* indexes of the successors, or NONE */
	bool hands_over; /* is a call or jump to a counted entry */
	bool leaves;	 /* the function ends here, or may */
	bool works;	 /* does something that others can see */
};

struct graph {
	const uint8_t *code;
	struct node *nodes;
	int n;
};

typedef bool *node_set; /* one flag a node */

/* Nodes reachable from those in @set, which grows; nothing is followed beyond a node of @stop. */
static void spread(const struct graph *g, node_set set, const bool *stop)
{
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < g->n; i++) {
			const int to[] = {g->nodes[i].next, g->nodes[i].taken};

			if (!set[i] || stop[i])
				continue;
			for (size_t k = 0; k < 2; k++)
				if (to[k] != NONE && !set[to[k]])
					more = set[to[k]] = true;
		}
	}
}

/* Nodes from which those in @set can be reached; nodes of @stop lead nowhere. */
static void spread_back(const struct graph *g, node_set set, const bool *stop)
{
	for (bool more = true; more;) {
		more = false;
		for (int i = g->n; i-- > 0;) {
			const struct node *n = &g->nodes[i];

			if (set[i] || stop[i])
				continue;
			if ((n->next != NONE && set[n->next]) ||
			    (n->taken != NONE && set[n->taken]))
				more = set[i] = true;
		}
	}
}

static bool is_direct(const struct sonde_insn *insn)
{
	return insn->flow == SONDE_FLOW_JCC || insn->flow == SONDE_FLOW_JMP ||
	       insn->flow == SONDE_FLOW_CALL;
}

static int decode(struct graph *g, size_t size, int *index)
{
	for (size_t at = 0; at < size;) {
		struct node *n = &g->nodes[g->n];

		if (sonde_insn_decode(g->code + at, size - at, &n->insn, NULL, 0))
			return -EINVAL;
		n->at = (uint32_t)at;
		index[at] = g->n++;
		at += n->insn.length;
	}
	return 0;
}

static bool goes_on(enum sonde_flow flow)
{
	return flow == SONDE_FLOW_NEXT || flow == SONDE_FLOW_JCC || flow == SONDE_FLOW_CALL ||
	       flow == SONDE_FLOW_CALL_INDIRECT;
}

static void connect(struct graph *g, size_t size, const int *index,
		    bool (*counted)(void *ctx, int64_t target), void *ctx)
{
	for (int i = 0; i < g->n; i++) {
		struct node *n = &g->nodes[i];
		int64_t to = n->at + n->insn.target;
		bool inside = is_direct(&n->insn) && to >= 0 && to < (int64_t)size &&
			      index[to] != NONE && n->insn.flow != SONDE_FLOW_CALL;

		n->next = goes_on(n->insn.flow) && i + 1 < g->n ? i + 1 : NONE;
		n->taken = inside ? index[to] : NONE;
		n->works = n->insn.writes_memory || n->insn.flow == SONDE_FLOW_CALL_INDIRECT;
		n->leaves = n->insn.flow == SONDE_FLOW_RET;
		if (n->insn.flow == SONDE_FLOW_JMP_SLOT || n->insn.flow == SONDE_FLOW_JMP_REGISTER)
			n->leaves = n->works = true;
		if (!is_direct(&n->insn) || inside)
			continue;
		/* A conditional jump to a counted entry hands over on one side only. */
		if (counted(ctx, to))
			n->hands_over = n->insn.flow != SONDE_FLOW_JCC;
		else
			n->works = true;
		n->leaves = n->works && n->insn.flow != SONDE_FLOW_CALL;
	}
}

/* Sets of nodes that the analysis asks for, each with room for every node. */
struct sets {
	node_set hand_over, none, forward, backward, may_hand_over, sites, reached;
};

static int make_sets(struct sets *s, int n)
{
	node_set *all[] = {&s->hand_over,     &s->none,	 &s->forward, &s->backward,
			   &s->may_hand_over, &s->sites, &s->reached};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all); i++) {
		*all[i] = calloc((size_t)n, sizeof(bool));
		if (!*all[i])
			return -ENOMEM;
	}
	return 0;
}

static void free_sets(struct sets *s)
{
	free(s->hand_over);
	free(s->none);
	free(s->forward);
	free(s->backward);
	free(s->may_hand_over);
	free(s->sites);
	free(s->reached);
}

static enum sonde_wrap classify(const struct graph *g, struct sets *s)
{
	bool any = false, works = false;

	s->forward[0] = true;
	for (int i = 0; i < g->n; i++) {
		s->hand_over[i] = s->may_hand_over[i] = g->nodes[i].hands_over;
		s->backward[i] = g->nodes[i].leaves;
	}
	spread(g, s->forward, s->hand_over);
	spread_back(g, s->backward, s->hand_over);
	spread_back(g, s->may_hand_over, s->none);
	for (int i = 0; i < g->n; i++) {
		any |= s->forward[i] && g->nodes[i].hands_over;
		works |= s->forward[i] && s->backward[i] && g->nodes[i].works;
	}
	return !any ? SONDE_WRAP_NEVER : works ? SONDE_WRAP_SOMETIMES : SONDE_WRAP_ALWAYS;
}

struct explorer {
	const struct graph *g;
	struct sets *s;
	unsigned args;
	struct sonde_wrapper *out;
};

static bool place(struct explorer *e, int i, int64_t sp)
{
	const struct node *n = &e->g->nodes[i];
	struct sonde_site site = {
		.offset = n->at, .slide = n->at, .sp_delta = (uint32_t)sp, .kind = n->insn.kind};
	struct sonde_insn ignored;

	if (e->s->sites[i])
		return true;
	if (n->insn.refused || e->out->n_split == SONDE_MAX_SPLIT)
		return false;
	sonde_insn_decode(e->g->code + n->at, n->insn.length, &ignored, site.insn,
			  sizeof(site.insn));
	e->s->sites[i] = true;
	e->out->split[e->out->n_split++] = site;
	return true;
}

/* From @i on no path hands over: the first emulated instruction of the straight line, or @i itself.
 */
static bool place_on_line(struct explorer *e, int i, int64_t sp)
{
	int64_t sp_then = sp;

	for (int k = i; k != NONE; k = e->g->nodes[k].next) {
		const struct sonde_insn *insn = &e->g->nodes[k].insn;

		if (insn->kind == SONDE_INSN_EMULATED && !insn->nop5)
			return place(e, k, sp_then);
		if (insn->flow != SONDE_FLOW_NEXT || (insn->args_written & e->args) ||
		    !insn->sp_known)
			break;
		sp_then += insn->sp_grows;
	}
	return place(e, i, sp);
}

/* Follow the paths from @i that may still hand over, and put a site where each no longer may. */
static bool explore(struct explorer *e, int i, int64_t sp, int depth)
{
	while (i != NONE && !e->g->nodes[i].hands_over) {
		const struct node *n = &e->g->nodes[i];

		if (!e->s->may_hand_over[i])
			return place_on_line(e, i, sp);
		if ((n->insn.args_written & e->args) || !n->insn.sp_known || sp < 0 || depth > 16)
			return false;
		sp += n->insn.sp_grows;
		if (n->insn.flow == SONDE_FLOW_JMP) {
			i = n->taken;
			continue;
		}
		if (n->insn.flow == SONDE_FLOW_JCC && !explore(e, n->taken, sp, depth + 1))
			return false;
		/* What a call leaves in the argument registers is not known. */
		if (n->insn.flow != SONDE_FLOW_JCC && n->insn.flow != SONDE_FLOW_NEXT)
			return false;
		i = n->next;
	}
	return true;
}

/* Does a path that starts behind @from meet a site? */
static bool meets_site(const struct graph *g, struct sets *s, int from)
{
	const int to[] = {g->nodes[from].next, g->nodes[from].taken};

	memset(s->reached, 0, (size_t)g->n * sizeof(bool));
	for (size_t k = 0; k < 2; k++)
		if (to[k] != NONE)
			s->reached[to[k]] = true;
	spread(g, s->reached, s->none);
	for (int i = 0; i < g->n; i++)
		if (s->reached[i] && s->sites[i])
			return true;
	return false;
}

/* Whatever the exploration did: at most one site a call, none with a hand-over, none left out. */
static bool verify(const struct graph *g, struct sets *s)
{
	for (int i = 0; i < g->n; i++)
		if ((s->sites[i] || g->nodes[i].hands_over) && meets_site(g, s, i))
			return false;
	memset(s->reached, 0, (size_t)g->n * sizeof(bool));
	s->reached[0] = true;
	for (int i = 0; i < g->n; i++)
		s->backward[i] = s->sites[i] || g->nodes[i].hands_over;
	spread(g, s->reached, s->backward);
	for (int i = 0; i < g->n; i++)
		if (s->reached[i] && g->nodes[i].leaves && !s->backward[i])
			return false;
	return true;
}

int sonde_wrapper_analyse(const uint8_t *code, size_t size, unsigned args,
			  bool (*counted)(void *ctx, int64_t target), void *ctx,
			  struct sonde_wrapper *out)
{
	sonde_autofree struct node *nodes = calloc(size ? size : 1, sizeof(*nodes));
	sonde_autofree int *index = malloc((size ? size : 1) * sizeof(*index));
	struct graph g = {.code = code, .nodes = nodes};
	struct sonde_wrapper w = {0};
	struct explorer e = {.g = &g, .args = args, .out = &w};
	struct sets s = {0};
	int err;

	if (!nodes || !index)
		return -ENOMEM;
	for (size_t i = 0; i < size; i++)
		index[i] = NONE;
	err = size ? decode(&g, size, index) : -EINVAL;
	if (!err)
		err = make_sets(&s, g.n);
	if (!err) {
		connect(&g, size, index, counted, ctx);
		w.wrap = classify(&g, &s);
		e.s = &s;
		if (w.wrap == SONDE_WRAP_SOMETIMES && (!explore(&e, 0, 0, 0) || !verify(&g, &s)))
			w.n_split = 0;
		*out = w;
	}
	free_sets(&s);
	return err;
}
