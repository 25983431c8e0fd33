/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 3, of the query lens: which thread's clock is a query's. It is that of the thread that read
 * the request, until the thread reads another connection's; or of one that such a thread woke, if
 * that one sends the answer. What no clock was seen for is unattributed.
 *
 * The invariant: a span's parts are its duration, to the ns, or it has none.
 */
#ifndef SONDE_BPF_ANATOMY_QUERY_H
#define SONDE_BPF_ANATOMY_QUERY_H

#include "lib/anatomy.bpf.h"
#include "lib/offcpu.bpf.h"
#include "sonde/query.h"

/* From when on queries can be told: everything is attached. 0: not yet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} anatomy_from SEC(".maps");

/* Not 0: a process with such a tgid has queries. The first look of programs that run for everybody.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_STALL_FILTER);
	__type(key, __u32);
	__type(value, __u32);
} anatomy_filter SEC(".maps");

/* By connection: clocks of queries that their threads have turned away from. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct sonde_anatomy);
} anatomy_parked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SONDE_QUERY_CLASS__MAX);
	__type(key, __u32);
	__type(value, struct sonde_query_part_sums);
} query_parts SEC(".maps");

static __always_inline bool anatomy_known_since(__u64 ns)
{
	__u32 zero = 0;
	__u64 *from = bpf_map_lookup_elem(&anatomy_from, &zero);

	return from && *from && ns >= *from;
}

/* The system call that the current thread is in; -1: none, an exception brought it here. */
static __always_inline long anatomy_call(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;
}

static __always_inline bool anatomy_is_of(const struct sonde_anatomy *a,
					  const struct sonde_ev_span *s)
{
	return a->seq && a->conn == s->conn && a->seq == s->seq && a->start_ns == s->start_ns;
}

/* The clock is put away with what it has; what follows is nobody's until the answer. */
static __always_inline void anatomy_park(struct sonde_anatomy *a, __u64 now)
{
	anatomy_event(a, now);
	a->current = SONDE_PART_UNATTRIBUTED;
	bpf_map_update_elem(&anatomy_parked, &a->conn, a, BPF_ANY);
}

static __always_inline void anatomy_reset(struct sonde_anatomy *a, const struct sonde_ev_span *s)
{
	a->conn = s->conn;
	a->seq = s->seq;
	a->start_ns = s->start_ns;
	__builtin_memset(a->ns, 0, sizeof(a->ns));
	__builtin_memset(a->faults, 0, sizeof(a->faults));
	a->logged = 0;
	a->memory = a->fault = a->off = a->woken = a->follows = 0;
	for (int i = 0; i < SONDE_ANATOMY_LOG; i++)
		a->log_ns[i] = 0;
	a->lock = a->owed = 0;
}

/*
 * The current thread has read of the query's request, at @now. One that was read together with its
 * predecessor was waited with until that was answered, at @before.
 */
static __always_inline void anatomy_begin(const struct sonde_ev_span *s, __u64 before, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 slot = (__u32)task->tgid % SONDE_STALL_FILTER, *known;
	__u64 taken = s->start_ns;
	struct sonde_anatomy *a;

	if (!cfg.anatomy || !anatomy_known_since(s->start_ns))
		return;
	a = bpf_task_storage_get(&anatomy, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!a) {
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
		return;
	}
	if (anatomy_is_of(a, s)) {
		a->follows = 0;
		return;
	}
	if (a->seq && !a->follows)
		anatomy_park(a, now);
	known = bpf_map_lookup_elem(&anatomy_filter, &slot);
	if (known)
		*known = 1;
	anatomy_reset(a, s);
	a->nr = anatomy_call(task);
	a->base = (__s32)a->nr < 0 ? SONDE_PART_USER : SONDE_PART_SYS_OTHER;
	a->last_ns = now;
	if (before > taken) { /* its predecessor's clock went up to there, or further */
		taken = before;
		a->last_ns = a->high_ns > before ? a->high_ns : before;
	}
	if (s->arrival_ns && taken > s->arrival_ns)
		a->ns[SONDE_PART_QUEUED] = taken - s->arrival_ns;
	anatomy_resume(a);
}

static __always_inline void anatomy_copy(struct sonde_ev_span *s, const struct sonde_anatomy *a)
{
	for (int i = 0; i < SONDE_PART__MAX; i++)
		s->part_ns[i] = a->ns[i];
	s->part_ns[SONDE_PART_FAULT_OTHER] += a->ns[SONDE_ANATOMY_PENDING];
	for (int i = 0; i < SONDE_PART_FAULTS; i++)
		s->fault_count[i] = a->faults[i];
	s->flags |= SONDE_SPAN_F_PARTS;
}

/* Nobody's clock: all but the queue is unattributed. */
static __always_inline void anatomy_unseen(struct sonde_ev_span *s)
{
	if (s->status >= SONDE_SPAN_NO_REPLY || !anatomy_known_since(s->start_ns))
		return;
	__builtin_memset(s->part_ns, 0, sizeof(s->part_ns));
	__builtin_memset(s->fault_count, 0, sizeof(s->fault_count));
	if (s->arrival_ns)
		s->part_ns[SONDE_PART_QUEUED] = s->start_ns - s->arrival_ns;
	s->flags |= SONDE_SPAN_F_PARTS;
}

/* The parts up to s->last_ns, which was just now; the clock goes on. */
static __always_inline void anatomy_collect(struct sonde_ev_span *s)
{
	struct sonde_anatomy *a = cfg.anatomy ? anatomy_of(bpf_get_current_task_btf()) : NULL;
	__u64 conn = s->conn;

	if (!cfg.anatomy || !s->last_ns || s->flags & SONDE_SPAN_F_END_GUESSED)
		return;
	if (a && anatomy_is_of(a, s)) {
		if (anatomy_settle(a, s->last_ns))
			anatomy_copy(s, a);
		return;
	}
	a = bpf_map_lookup_elem(&anatomy_parked, &conn);
	if (!a || !anatomy_is_of(a, s)) {
		anatomy_unseen(s);
		return;
	}
	if (anatomy_settle(a, s->last_ns))
		anatomy_copy(s, a);
}

/* The query leaves its thread, to go on on another; until then its time is nobody's. */
static __always_inline void anatomy_set_aside(__u64 now)
{
	struct sonde_anatomy *a = anatomy_current();

	if (!a)
		return;
	anatomy_park(a, now);
	a->seq = 0;
}

/* It goes on, on the current thread. */
static __always_inline void anatomy_take_up(__u64 conn, __u64 seq, __u64 now)
{
	struct sonde_anatomy *parked, *a;

	if (!cfg.anatomy)
		return;
	parked = bpf_map_lookup_elem(&anatomy_parked, &conn);
	if (!parked || parked->conn != conn || parked->seq != seq)
		return;
	a = bpf_task_storage_get(&anatomy, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!a) {
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
		return;
	}
	*a = *parked;
	bpf_map_delete_elem(&anatomy_parked, &conn);
	a->off = a->woken = a->follows = 0;
	anatomy_charge(a, now);
	anatomy_resume(a);
}

/*
 * The thread has answered another query than its clock is of. What it did since it read the clock's
 * own request was that one's, or nobody can tell whose.
 */
static __always_inline void anatomy_disown(struct sonde_anatomy *a)
{
	anatomy_event(a, bpf_ktime_get_ns());
	for (int i = 0; i < SONDE_ANATOMY_SLOTS; i++) {
		if (i == SONDE_PART_QUEUED || i == SONDE_PART_UNATTRIBUTED)
			continue;
		a->ns[SONDE_PART_UNATTRIBUTED] += a->ns[i];
		a->ns[i] = 0;
	}
	for (int i = 0; i < SONDE_ANATOMY_LOG; i++)
		a->log_part[i] = SONDE_PART_UNATTRIBUTED;
	__builtin_memset(a->faults, 0, sizeof(a->faults));
}

/* The thread has nothing more to do with the query. Returns how many events it had. */
static __always_inline __u32 anatomy_end(const struct sonde_ev_span *s)
{
	struct sonde_anatomy *a = cfg.anatomy ? anatomy_of(bpf_get_current_task_btf()) : NULL;

	if (!a || !anatomy_is_of(a, s))
		return 0;
	a->seq = 0;
	return a->logged;
}

/* The current thread has sent the answer to @s. */
static __always_inline void anatomy_answered(const struct sonde_ev_span *s)
{
	struct sonde_anatomy *a = anatomy_current();

	if (a && !anatomy_is_of(a, s) && s->status < SONDE_SPAN_NO_REPLY &&
	    !(s->flags & SONDE_SPAN_F_END_GUESSED))
		anatomy_disown(a);
}

/* What is not explained is told as such; parts that are more than the whole are none. */
static __always_inline void anatomy_complete(struct sonde_ev_span *s, __u64 duration)
{
	__u64 sum = 0;

	if (!(s->flags & SONDE_SPAN_F_PARTS))
		return;
	for (int i = 0; i < SONDE_PART__MAX; i++)
		sum += s->part_ns[i];
	if (sum > duration || !duration) {
		s->flags &= ~SONDE_SPAN_F_PARTS;
		return;
	}
	s->part_ns[SONDE_PART_UNATTRIBUTED] += duration - sum;
}

/* Totals by command, which are complete whatever becomes of spans. */
static __always_inline void anatomy_total(const struct sonde_ev_span *s)
{
	__u32 row = sonde_query_class(s->proto, s->command);
	struct sonde_query_part_sums *to = bpf_map_lookup_elem(&query_parts, &row);

	if (!to || !(s->flags & SONDE_SPAN_F_PARTS))
		return;
	__sync_fetch_and_add(&to->spans, 1);
	for (int i = 0; i < SONDE_PART__MAX; i++)
		if (s->part_ns[i])
			__sync_fetch_and_add(&to->ns[i], s->part_ns[i]);
}

#endif
