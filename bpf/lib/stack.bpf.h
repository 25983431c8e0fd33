/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: call stacks of user space by unwind tables, for lenses that ask "who called this". A
 * lens includes this file, whose maps user space fills (user/lens/stacks.c), and calls stack_of().
 * Before, it defines STACK_LENS, its number: stacks of two lenses are two, even where they are
 * equal.
 *
 * The invariant: a frame is only ever had by a rule that holds at its very address; where there is
 * none the stack ends and says why. Equal stacks share one element of a bounded map; what finds it
 * full is counted in its target's element of lost ones, so that sums stay exact.
 *
 * Needs bpf_loop() (5.17): behind a constant that is 0 on older kernels, where the verifier then
 * never looks at this code.
 */
#ifndef SONDE_BPF_STACK_H
#define SONDE_BPF_STACK_H

#include "lib/base.bpf.h"
#include "sonde/stack.h"

/* Sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_unwind_row);
} unwind_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_unwind_map);
} unwind_maps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_unwind_process);
} unwind_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unwind_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct sonde_stack_value);
} stacks SEC(".maps");

/* A walk under way. It is the thread's own, since a program may be preempted by another thread's on
 * the same CPU; too large for the stack. */
struct stack_walk {
	__u64 ip, sp, bp, hash;
	__u32 target, copy, n_maps, exact; /* exact: ip is not a return address */
	struct sonde_stack_value value;	   /* as it goes into the map, if it is new */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stack_walk);
} stack_walks SEC(".maps");

struct stack_search {
	__u64 at;
	__u32 lo, hi, rule, found;
};

static long stack_find_map(__u32 i, struct stack_search *s)
{
	struct sonde_unwind_map *m;
	__u32 mid;

	if (s->lo >= s->hi)
		return 1;
	mid = s->lo + (s->hi - s->lo) / 2;
	m = bpf_map_lookup_elem(&unwind_maps, &mid);
	if (!m)
		return 1;
	if (s->at < m->start) {
		s->hi = mid;
	} else if (s->at >= m->end) {
		s->lo = mid + 1;
	} else {
		s->found = mid + 1;
		return 1;
	}
	return 0;
}

static long stack_find_row(__u32 i, struct stack_search *s)
{
	struct sonde_unwind_row *row;
	__u32 mid;

	if (s->lo >= s->hi)
		return 1;
	mid = s->lo + (s->hi - s->lo) / 2;
	row = bpf_map_lookup_elem(&unwind_rows, &mid);
	if (!row)
		return 1;
	if (row->pc <= s->at) {
		s->rule = row->rule;
		s->lo = mid + 1;
	} else {
		s->hi = mid;
	}
	return 0;
}

/* No mapping holds the address: beside the kinds of rows. */
#define STACK_NO_MAP (~0u)

static __noinline __u32 stack_search_rule(struct stack_walk *w, __u64 pc)
{
	struct stack_search s = {.at = pc};
	struct sonde_unwind_map *m;
	__u32 i;

	if (!w)
		return STACK_NO_MAP;
	s.lo = sonde_unwind_map_index(w->target, w->copy, 0);
	s.hi = s.lo + w->n_maps;
	bpf_loop(10, stack_find_map, &s, 0); /* 2^9 > SONDE_UNWIND_MAPS */
	if (!s.found)
		return STACK_NO_MAP;
	i = s.found - 1;
	m = bpf_map_lookup_elem(&unwind_maps, &i);
	if (!m)
		return STACK_NO_MAP;
	s.at = pc - m->bias;
	s.lo = m->first;
	s.hi = m->first + m->n;
	s.rule = SONDE_UNWIND_NONE;
	bpf_loop(22, stack_find_row, &s, 0); /* 2^21 > SONDE_UNWIND_ROWS */
	return s.rule;
}

/* The rule at @pc of the process, from the words found before where they have it. */
static __always_inline __u32 stack_rule(struct stack_walk *w, __u64 pc)
{
	__u64 key = SONDE_UNWIND_CACHE_KEY(pc, w->target), *word, known;
	__u32 slot = SONDE_UNWIND_CACHE_SLOT(key), rule;

	word = w->target < SONDE_UNWIND_CACHE_TARGETS ? bpf_map_lookup_elem(&unwind_cache, &slot)
						      : NULL;
	if (word) {
		known = *(volatile __u64 *)word;
		rule = known & 0xffffff;
		if (rule && !((known ^ SONDE_UNWIND_CACHE_TAG(key)) >> 24))
			return rule;
	}
	rule = stack_search_rule(w, pc);
	if (word && rule && rule < 1u << 24)
		*(volatile __u64 *)word = SONDE_UNWIND_CACHE_TAG(key) | rule;
	return rule;
}

static __always_inline bool stack_read(__u64 at, __u64 *out)
{
	return !bpf_probe_read_user(out, sizeof(*out), (void *)at);
}

/* Offsets in the frame that the kernel builds for a signal (struct rt_sigframe, past its return
 * address): ABI. */
#define SIGFRAME_RBP 120
#define SIGFRAME_RSP 160
#define SIGFRAME_RIP 168

static __always_inline __u32 stack_leave_signal(struct stack_walk *w)
{
	__u64 sp = w->sp;

	w->exact = 1;
	if (!stack_read(sp + SIGFRAME_RBP, &w->bp) || !stack_read(sp + SIGFRAME_RSP, &w->sp) ||
	    !stack_read(sp + SIGFRAME_RIP, &w->ip))
		return SONDE_STACK_FAULT;
	return SONDE_STACK_END__MAX;
}

/* Where the frame begins by @rule, 0 if that cannot be told; *saved: where rbp was saved, 0 if it
 * was not. */
static __always_inline __u64 stack_frame_begin(struct stack_walk *w, __u32 rule, __u64 *saved)
{
	__u64 cfa = 0;

	switch (SONDE_UNWIND_KIND(rule)) {
	case SONDE_UNWIND_RSP:
		cfa = w->sp + SONDE_UNWIND_CFA(rule);
		break;
	case SONDE_UNWIND_RBP:
		cfa = w->bp + SONDE_UNWIND_CFA(rule);
		break;
	case SONDE_UNWIND_PLT:
		cfa = w->sp + ((w->ip & 15) >= 11 ? 16 : 8);
		break;
	case SONDE_UNWIND_DEREF:
		*saved = w->bp;
		return stack_read(w->bp - SONDE_UNWIND_CFA(rule), &cfa) ? cfa : 0;
	}
	*saved = SONDE_UNWIND_SAVED(rule) ? cfa - SONDE_UNWIND_SAVED(rule) : 0;
	return cfa;
}

/* From the frame that w stands in to its caller's. SONDE_STACK_END__MAX: there is one. */
static __always_inline __u32 stack_to_caller(struct stack_walk *w)
{
	__u32 rule = stack_rule(w, w->exact ? w->ip : w->ip - 1);
	__u64 cfa, saved = 0;

	w->exact = 0;
	if (rule == STACK_NO_MAP)
		return SONDE_STACK_NO_MAP;
	switch (SONDE_UNWIND_KIND(rule)) {
	case SONDE_UNWIND_NONE:
		return SONDE_STACK_NO_TABLE;
	case SONDE_UNWIND_END:
		return SONDE_STACK_COMPLETE;
	case SONDE_UNWIND_SIGNAL:
		return stack_leave_signal(w);
	case SONDE_UNWIND_HARD:
		return SONDE_STACK_HARD;
	}
	cfa = stack_frame_begin(w, rule, &saved);
	if (!cfa)
		return SONDE_STACK_FAULT;
	if (cfa <= w->sp || cfa & 7)
		return SONDE_STACK_ODD;
	if (!stack_read(cfa - 8, &w->ip) || (saved && !stack_read(saved, &w->bp)))
		return SONDE_STACK_FAULT;
	w->sp = cfa;
	return w->ip ? SONDE_STACK_END__MAX : SONDE_STACK_COMPLETE;
}

static __always_inline __u64 stack_mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static long stack_step(__u32 i, struct stack_walk **ref)
{
	struct stack_walk *w = *ref;
	__u32 end;

	if (i >= SONDE_STACK_FRAMES)
		return 1;
	w->value.pcs[i] = w->ip;
	w->value.n = i + 1;
	w->hash = stack_mix(w->hash, w->ip);
	end = stack_to_caller(w);
	if (end == SONDE_STACK_END__MAX)
		return 0;
	w->value.end = end;
	return 1;
}

/*
 * To the caller of the probed function. Its return address lies at @ra_at, whatever a table says,
 * so the immediate caller is always right; rbp is the caller's unless the table knows where it was
 * saved.
 */
static __always_inline bool stack_begin(struct stack_walk *w, __u64 ra_at)
{
	__u64 cfa = ra_at + 8;
	__u32 rule = stack_rule(w, w->ip);

	w->exact = 0;
	w->sp = cfa;
	if (!stack_read(ra_at, &w->ip))
		return false;
	if (rule != STACK_NO_MAP && SONDE_UNWIND_SAVED(rule) &&
	    SONDE_UNWIND_KIND(rule) < SONDE_UNWIND_DEREF)
		return stack_read(cfa - SONDE_UNWIND_SAVED(rule), &w->bp);
	return true;
}

/*
 * The whole stack into w->value, and its key into w->hash, from the registers in w. @ra_at: where
 * the return address of the function at ip lies, and its caller is the first frame; 0: ip is the
 * first.
 */
static __noinline int stack_take(struct stack_walk *w, __u64 ra_at)
{
	struct sonde_unwind_process *p;
	struct stack_walk *ref = w;
	__u32 target;

	if (!w)
		return 0;
	target = w->target;
	p = bpf_map_lookup_elem(&unwind_processes, &target);
	w->copy = p ? p->current & 1 : 0;
	w->n_maps = p ? p->n[w->copy & 1] : 0;
	if (w->n_maps > SONDE_UNWIND_MAPS)
		w->n_maps = SONDE_UNWIND_MAPS;
	w->exact = 1;
	w->value.n = 0;
	w->value.end = SONDE_STACK_CUT;
	w->value.target = target;
	w->hash = (__u64)STACK_LENS << 32 | target;
	if (!ra_at || stack_begin(w, ra_at))
		bpf_loop(SONDE_STACK_FRAMES, stack_step, &ref, 0);
	else
		w->value.end = SONDE_STACK_FAULT;
	w->hash = stack_mix(w->hash, w->value.end) | SONDE_STACK_HASHED;
	return 0;
}

static __always_inline struct sonde_stack_value *stack_find(__u64 key)
{
	return bpf_map_lookup_elem(&stacks, &key);
}

/*
 * The element of the stack that called the function at these registers, whose return address lies
 * at
 * @ra_at; with @ra_at 0 (an interrupted thread, as in a page fault) the stack begins at ip itself.
 * Its key into *key. NULL only if there is no memory for the thread.
 */
static __always_inline struct sonde_stack_value *stack_of(struct pt_regs *regs, __u64 ra_at,
							  __u32 target, __u64 *key)
{
	struct sonde_stack_value *v;
	struct stack_walk *w;

	*key = SONDE_STACK_LOST_KEY(STACK_LENS, target);
	w = bpf_task_storage_get(&stack_walks, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w)
		return stack_find(*key);
	w->target = target;
	w->ip = PT_REGS_IP(regs);
	w->sp = PT_REGS_SP(regs);
	w->bp = PT_REGS_FP(regs);
	stack_take(w, ra_at);
	v = stack_find(w->hash);
	if (!v) {
		bpf_map_update_elem(&stacks, &w->hash, &w->value, BPF_NOEXIST);
		v = stack_find(w->hash);
	}
	if (v)
		*key = w->hash;
	return v ?: stack_find(*key);
}

#endif
