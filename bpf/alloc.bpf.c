// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every call of the allocator's functions, counted once and under the name that the program called;
 * bytes asked for; and, where a block's size can be learned (block.bpf.h), bytes handed out and
 * given back. A program pays for each instruction here on every malloc: one look-up for the
 * counters, one for the size histogram, one for the thread's state, nothing else.
 *
 * The invariant: an operation is charged by its outermost function. glibc's realloc(NULL, n) runs
 * malloc, memalign with a small alignment too, reallocarray runs realloc, operator new runs malloc;
 * the inner hit is recognised by the thread's mark and the stack pointer, and adds no call and no
 * bytes.
 */
#include "lib/block.bpf.h"
#include "lib/request.bpf.h"
#include "lib/span.bpf.h"
#include "lib/threads.bpf.h"
#include "lib/window.bpf.h"

/* Built twice: alloc_sites.bpf.c is this file with every call charged to its call stack as well. */
#ifdef SONDE_ALLOC_SITES
#include "lib/sites.bpf.h"
#define SITES(...) __VA_ARGS__
#else
#define SITES(...)
#endif

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

/* How far below a marked function's return address an inner call's may be. Bounds what a mark can
 * do that was never cleared (operator new that threw): wrappers have frames of under 200 bytes. */
#define INNER_STACK_BYTES 512

/* What a thread is in the middle of. A stack pointer of 0: of nothing. */
struct alloc_thread {
	__u64 sp;      /* a function whose return is seen: address of its return address         */
	__u64 note;    /* what its entry leaves for its return (pairs of links)                  */
	__u64 wrap_sp; /* an operator new or delete that has not reached the allocator           */
	__u64 wrap_value; /* new: bytes asked for; delete: the pointer */
	__u64 wrap_slack; /* new: by how much the allocator may be asked for more */
	__u32 op;
	__u32 wrap_op;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct alloc_thread);
} threads SEC(".maps");

/* Sized before load: lanes x targets x rows, and x buckets. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SONDE_ALLOC_ROWS);
	__type(key, __u32);
	__type(value, struct sonde_alloc_row);
} alloc_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SONDE_HIST_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} alloc_sizes SEC(".maps");

const volatile struct sonde_alloc_geometry geometry SEC(".rodata.alloc") = {.targets = 1};

/* Set when every link is there: a chunk must not be seen handed out but not given back, or reverse.
 */
volatile __u32 started;

/*
 * A note from entry to return, one word: bytes of the block that realloc was given, or the address
 * where posix_memalign will put its result (both below 2^47), and what the return must know.
 */
#define NOTE_VALUE ((1ull << 48) - 1)
#define NOTE_FREES                                                                                 \
	(1ull << 56) /* realloc to size 0: no memory is no failure                      */
#define NOTE_WRAPPED                                                                               \
	(1ull << 57)	       /* called by operator new                                          */
#define NOTE_SEEN (1ull << 63) /* never 0, so that an entry without a return leaves no doubt */

static __always_inline __u32 lane(void)
{
	return bpf_get_smp_processor_id() & geometry.lane_mask;
}

static __always_inline struct sonde_alloc_row *row_of(__u32 target, __u32 op)
{
	__u32 i = sonde_alloc_row_index(lane(), geometry.targets, target, op);

	if (target >= geometry.targets) {
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
		return NULL;
	}
	return bpf_map_lookup_elem(&alloc_rows, &i);
}

static __always_inline void add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/*
 * Is sonde recording, and this thread? A link is bound to one process and its cookie says which, so
 * the table of targets need not be asked.
 */
static __always_inline bool ours(void)
{
	struct sonde_control *c = gate_control();

	if (!c || !c->ready || !started || !gate_held(SONDE_LENS_ALLOC))
		return false;
	if (c->only_tid && c->only_tid != (__u32)bpf_get_current_pid_tgid())
		return false;
	return !c->only_comm || same_comm(c->comm);
}

static __always_inline struct alloc_thread *thread_find(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

static __always_inline struct alloc_thread *thread_make(void)
{
	struct alloc_thread *t;

	t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
	return t;
}

/* Where the return address of the function that the probe is in lies. */
static __always_inline __u64 frame(struct pt_regs *ctx, __u64 cookie)
{
	return PT_REGS_SP(ctx) + SONDE_ALLOC_COOKIE_SP(cookie);
}

/* Equal when the outer one left by a tail jump. */
static __always_inline bool below(__u64 outer, __u64 sp)
{
	return outer - sp < INNER_STACK_BYTES;
}

/* A hit that belongs to an outer function; kept since it costs the target the same. */
static __always_inline void count_inner(__u32 target, __u32 op)
{
	struct sonde_alloc_row *row = row_of(target, op);

	if (row)
		add(&row->inner, 1);
}

static __always_inline void count_call(struct pt_regs *ctx, __u64 cookie, __u32 op, __u64 size)
{
	__u32 target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	struct sonde_alloc_row *row = row_of(target, op);
	struct task_span *query = span_current();
	__u64 *bucket;
	__u32 i;

	if (!row)
		return;
	if (gives_back(op)) {
		add(PT_REGS_PARM1(ctx) ? &row->calls : &row->inner, 1);
		return;
	}
	add(&row->calls, 1);
	SITES(site_asked(ctx, frame(ctx, cookie), target, ABSURD(size) ? 0 : size));
	if (ABSURD(size))
		return;
	add(&row->bytes, size);
	i = sonde_alloc_bucket_index(lane(), geometry.targets, target, sonde_hist_index(size));
	bucket = bpf_map_lookup_elem(&alloc_sizes, &i);
	if (bucket)
		add(bucket, 1);
	if (query) {
		query->alloc_bytes += size; /* its own thread's: no other writer */
		query->alloc_calls++;
	}
}

/* Was this call of the allocator made by the operator new that the thread is in? Then it is done.
 */
static __always_inline bool from_new(struct alloc_thread *t, __u64 sp, __u64 size)
{
	if (!t->wrap_sp || t->wrap_op != SONDE_ALLOC_NEW || !below(t->wrap_sp, sp))
		return false;
	if (size - t->wrap_value > t->wrap_slack)
		return false;
	t->wrap_sp = 0;
	return true;
}

static __always_inline bool from_delete(struct alloc_thread *t, __u64 sp, __u64 ptr)
{
	if (!t->wrap_sp || t->wrap_op == SONDE_ALLOC_NEW || !below(t->wrap_sp, sp) ||
	    t->wrap_value != ptr)
		return false;
	t->wrap_sp = 0;
	return true;
}

/*
 * Entry of a function that returns memory: what its return must know, or 0 when its return need not
 * be seen (not ours, or an inner call). @pair: the return is another program, so keep the note.
 */
static __always_inline __u64 begin(struct pt_regs *ctx, __u64 cookie, bool pair)
{
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie), target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	__u64 sp = PT_REGS_SP(ctx), size, note;
	struct alloc_thread *t;

	if (!ours())
		return 0;
	t = thread_find();
	if (t && t->sp && below(t->sp, sp)) {
		count_inner(target, op);
		return 0;
	}
	size = requested(ctx, op);
	note = NOTE_SEEN;
	if (t && from_new(t, sp, size))
		note |= NOTE_WRAPPED;
	if (note & NOTE_WRAPPED)
		count_inner(target, op);
	else
		count_call(ctx, cookie, op, size);
	if (takes_old(op)) {
		SITES(site_lent(target, PT_REGS_PARM1(ctx)));
		note |= block_bytes(cookie, PT_REGS_PARM1(ctx)) | (size ? 0 : NOTE_FREES);
	} else if (op == SONDE_ALLOC_POSIX_MEMALIGN) {
		note |= PT_REGS_PARM1(ctx) & NOTE_VALUE;
	}
	/* Nothing runs inside malloc: with a session it needs no mark. */
	if (op == SONDE_ALLOC_MALLOC && !pair)
		return note;
	t = t ?: thread_make();
	if (t) {
		t->sp = sp;
		t->op = op;
		t->note = note;
	}
	return note;
}

/* The pointer that the function gave, or 0. */
static __always_inline __u64 result(struct pt_regs *ctx, __u32 op, __u64 note)
{
	__u64 ptr = PT_REGS_RC(ctx);

	if (op != SONDE_ALLOC_POSIX_MEMALIGN)
		return ptr;
	if ((int)ptr)
		return 0;
	if (bpf_probe_read_user(&ptr, sizeof(ptr), (void *)(note & NOTE_VALUE))) {
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_COPY_FAULT);
		return 0;
	}
	return ptr;
}

/* A failed operator new asks again after its handler: that call is still its own. */
static __always_inline void count_failure(struct pt_regs *ctx, struct sonde_alloc_row *row,
					  __u32 target, __u64 note)
{
	struct alloc_thread *t;

	if (note & NOTE_WRAPPED) {
		row = row_of(target, SONDE_ALLOC_NEW);
		t = thread_find();
		if (t)
			t->wrap_sp = PT_REGS_SP(ctx);
	}
	if (row)
		add(&row->failed, 1);
}

static __always_inline void finish(struct pt_regs *ctx, __u64 cookie, __u64 note)
{
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie), target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	__u64 ptr = result(ctx, op, note);
	struct sonde_alloc_row *row = row_of(target, op);

	if (!row)
		return;
	if (cookie & SONDE_ALLOC_COOKIE_SIZE) {
		add(&row->chunk_in, ptr);
	} else if (ptr) {
		add(&row->chunk_in, block_bytes(cookie, ptr));
		SITES(site_got(target, ptr));
	}
	if (takes_old(op) && (ptr || note & NOTE_FREES))
		add(&row->chunk_out, note & NOTE_VALUE);
	if (!ptr && !(note & NOTE_FREES)) {
		SITES(site_failed());
		count_failure(ctx, row, target, note);
	}
}

/* Entry and return in one, where the kernel has it: the note travels in the session's own word. */
SEC("?uprobe")
int alloc_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), *note = bpf_session_cookie();
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie);
	struct alloc_thread *t;

	if (!bpf_session_is_return()) {
		*note = begin(ctx, cookie, false);
		return !*note; /* 1: let it return unseen, for half the price */
	}
	finish(ctx, cookie, *note);
	if (op != SONDE_ALLOC_MALLOC) {
		t = thread_find();
		if (t)
			t->sp = 0;
	}
	return 0;
}

SEC("?uprobe")
int alloc_entry(struct pt_regs *ctx)
{
	begin(ctx, bpf_get_attach_cookie(ctx), true);
	return 0;
}

/* The return address was at the stack pointer that the entry saw, and has been popped. */
SEC("?uprobe")
int alloc_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie);
	struct alloc_thread *t = thread_find();
	__u64 sp = PT_REGS_SP(ctx) - sizeof(__u64);

	if (!gate_is_target(SONDE_ALLOC_COOKIE_TARGET(cookie)))
		return 0;
	if (!t || !t->sp) {
		if (ours())
			count_drop(SONDE_LENS_ALLOC, SONDE_DROP_NO_ENTRY);
		return 0;
	}
	if (t->sp != sp || t->op != op)
		return 0; /* of an inner call */
	t->sp = 0;
	finish(ctx, cookie, t->note);
	return 0;
}

SEC("?uprobe")
int alloc_free(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), ptr = PT_REGS_PARM1(ctx);
	__u64 sp = frame(ctx, cookie);
	struct sonde_alloc_row *row;
	struct alloc_thread *t;

	if (!ours())
		return 0;
	row = row_of(SONDE_ALLOC_COOKIE_TARGET(cookie), SONDE_ALLOC_FREE);
	if (!row)
		return 0;
	t = thread_find();
	if (t && t->sp && below(t->sp, sp)) {
		add(&row->inner, 1);
		return 0; /* realloc to size 0 accounts for the chunk itself */
	}
	/* free(NULL) gives nothing back: a hit, but no operation. */
	add(!ptr || (t && from_delete(t, sp, ptr)) ? &row->inner : &row->calls, 1);
	if (ptr) {
		add(&row->chunk_out, block_bytes(cookie, ptr));
		SITES(site_freed(SONDE_ALLOC_COOKIE_TARGET(cookie), ptr));
	}
	return 0;
}

/*
 * operator new and delete. They may throw, so only their entries are seen: the entry counts the
 * call and marks the thread, the allocator's own entry below finds the mark and counts nothing.
 */
SEC("?uprobe")
int alloc_wrapper(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), value = PT_REGS_PARM1(ctx);
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie), target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	__u64 sp = frame(ctx, cookie);
	struct alloc_thread *t;

	if (!ours())
		return 0;
	t = thread_make();
	/* new[] runs new, sized delete runs delete: the outer one has counted. */
	if (t && t->wrap_sp && below(t->wrap_sp, sp) && value == t->wrap_value &&
	    gives_back(op) == gives_back(t->wrap_op)) {
		count_inner(target, op);
		return 0;
	}
	count_call(ctx, cookie, op, value);
	if (t) {
		t->wrap_sp = sp;
		t->wrap_value = value;
		t->wrap_slack = cookie & SONDE_ALLOC_COOKIE_ALIGNED ? PT_REGS_PARM2(ctx) : 1;
		t->wrap_op = op;
	}
	return 0;
}

/* A call whose pointer its entry does not see: is it seen where the call ends? */
static __always_inline void track(struct pt_regs *ctx, __u64 cookie, struct sonde_alloc_row *row)
{
	SITES(if (row && (!(cookie & SONDE_ALLOC_COOKIE_TRACKED) ||
			  !site_awaits(frame(ctx, cookie)))) add(&row->unseen, 1));
}

/* Does the hit belong to a function of the set that the thread is in? */
static __always_inline bool is_inner(__u64 sp)
{
	struct alloc_thread *t = thread_find();

	return t && t->sp && below(t->sp, sp);
}

/*
 * Memory handed out by an allocator that rounds by size classes: what the request gets is known at
 * its entry. So operator new, which may throw, needs no return, and neither does malloc where its
 * entry is a dear place to probe. That such a call failed is seen only where it could not succeed.
 */
SEC("?uprobe")
int alloc_take(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), size, align, bytes;
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie), target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	struct sonde_alloc_row *row;

	if (!ours())
		return 0;
	if (is_inner(frame(ctx, cookie))) {
		count_inner(target, op);
		return 0;
	}
	size = requested(ctx, op);
	count_call(ctx, cookie, op, size);
	align = cookie & SONDE_ALLOC_COOKIE_ALIGNED ? PT_REGS_PARM2(ctx) : 0;
	bytes = block_request(cookie, size, align);
	row = row_of(target, op);
	if (row)
		add(bytes ? &row->chunk_in : &row->failed, bytes ?: 1);
	track(ctx, cookie, row);
	return 0;
}

/*
 * A `ret` at which operator new gives its pointer. It may end calls of other functions too, and a
 * call of operator new that throws never comes here: what an entry left tells whose this one is.
 */
#ifdef SONDE_ALLOC_SITES
SEC("?uprobe")
int alloc_ret(struct pt_regs *ctx)
{
	site_returned(SONDE_ALLOC_COOKIE_TARGET(bpf_get_attach_cookie(ctx)), PT_REGS_SP(ctx),
		      PT_REGS_RC(ctx));
	return 0;
}
#endif

/* Memory given back to such an allocator: a sized delete says what it gives, by the same rounding.
 */
SEC("?uprobe")
int alloc_give(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), ptr = PT_REGS_PARM1(ctx);
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie), target = SONDE_ALLOC_COOKIE_TARGET(cookie);
	struct sonde_alloc_row *row;

	if (!ours())
		return 0;
	row = row_of(target, op);
	if (!row)
		return 0;
	if (is_inner(frame(ctx, cookie))) {
		add(&row->inner, 1);
		return 0;
	}
	add(ptr ? &row->calls : &row->inner, 1);
	if (!ptr)
		return 0;
	SITES(site_freed(target, ptr));
	if (op == SONDE_ALLOC_DELETE_SIZED && !(cookie & SONDE_ALLOC_COOKIE_ALIGNED))
		add(&row->chunk_out, block_request(cookie, PT_REGS_PARM2(ctx), 0));
	else
		add(&row->chunk_out, block_bytes(cookie, ptr));
	return 0;
}

/* Plain counting, for allocators whose sites never run inside each other and whose tables are not
 * known. */
SEC("?uprobe")
int alloc_count(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie);

	if (!ours())
		return 0;
	count_call(ctx, cookie, op, requested(ctx, op));
	if (!gives_back(op))
		track(ctx, cookie, row_of(SONDE_ALLOC_COOKIE_TARGET(cookie), op));
	return 0;
}

/*
 * Windows: entries of what hands out memory, and nothing else, since a window is over the sooner
 * the more it traps. No mark can tell an inner call then; but the arguments say when glibc's
 * functions run one another, and the inner one counts.
 */
static __always_inline bool runs_another(struct pt_regs *ctx, __u64 cookie)
{
	if (SONDE_ALLOC_COOKIE_RULE(cookie) != SONDE_BLOCK_HEADER)
		return false;
	switch (SONDE_ALLOC_COOKIE_OP(cookie)) {
	case SONDE_ALLOC_REALLOC: /* malloc(); and with size 0 it is a free() */
		return !PT_REGS_PARM1(ctx) || !PT_REGS_PARM2(ctx);
	case SONDE_ALLOC_MEMALIGN: /* up to MALLOC_ALIGNMENT: malloc() */
		return PT_REGS_PARM1(ctx) <= 16;
	case SONDE_ALLOC_POSIX_MEMALIGN:
		return PT_REGS_PARM2(ctx) <= 16;
	}
	return false;
}

static __always_inline void window_count(struct pt_regs *ctx, __u64 cookie,
					 const struct sonde_window *w)
{
	__u32 op = SONDE_ALLOC_COOKIE_OP(cookie);
	__u64 size = requested(ctx, op);
	struct task_span *query;

	if (w->phase == SONDE_WINDOW_OPEN) {
		count_call(ctx, cookie, op, size);
		return;
	}
	if (w->phase != SONDE_WINDOW_FINISH)
		return;
	query = span_current();
	if (!query || query->window != w->id)
		return;
	query->alloc_calls++;
	query->alloc_bytes += ABSURD(size) ? 0 : size;
}

SEC("?uprobe")
int alloc_window(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), begin = bpf_ktime_get_ns();
	struct sonde_window *w = window_get();

	if (!w)
		return 0;
	if (ours() && !runs_another(ctx, cookie))
		window_count(ctx, cookie, w);
	window_pay(w, SONDE_ALLOC_COOKIE_INSN(cookie), begin);
	return 0;
}
