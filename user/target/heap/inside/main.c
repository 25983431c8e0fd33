// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program inside a scratch process. It brings the heap of whatever allocator is loaded with it
 * into known states, and at each tells what that allocator says of itself; then it waits, at rest,
 * for a byte.
 *
 * It is linked against nothing: the dynamic linker of the target binds these names to the target's
 * libraries, without a version, so that any release of them will do. System calls are made
 * directly, so that nothing but what is written here touches the heap.
 */
#include <stddef.h>

#include "report.h"

/* Without one, glibc 2.36 takes it for a static program and executes it without loading anything.
 */
const char interpreter[] __attribute__((section(".interp"))) = "/ld.so";

#define WEAK __attribute__((weak, visibility("default")))

struct mallinfo {
	int f[10]; /* arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost
		    */
};
struct mallinfo2 {
	size_t f[10];
};

extern void *malloc(size_t size);
extern void free(void *p);
extern WEAK int pthread_create(unsigned long *thread, const void *attr, void *(*fn)(void *),
			       void *arg);
extern WEAK struct mallinfo2 mallinfo2(void);
extern WEAK struct mallinfo mallinfo(void);
extern WEAK int MallocExtension_GetNumericProperty(const char *name, size_t *value);
extern WEAK void MallocExtension_ReleaseFreeMemory(void);
/* jemalloc's, as builds name them. */
typedef int mallctl_fn(const char *name, void *old, size_t *old_len, void *fresh, size_t len);
typedef void *malloc_fn(size_t size);
typedef void free_fn(void *p);
typedef void *mallocx_fn(size_t size, int flags);
typedef void dallocx_fn(void *p, int flags);
extern WEAK mallctl_fn mallctl, je_mallctl, rjem_mallctl asm("_rjem_mallctl");
extern WEAK malloc_fn je_malloc, rjem_malloc asm("_rjem_malloc");
extern WEAK free_fn je_free, rjem_free asm("_rjem_free");
extern WEAK mallocx_fn mallocx, je_mallocx, rjem_mallocx asm("_rjem_mallocx");
extern WEAK dallocx_fn dallocx, je_dallocx, rjem_dallocx asm("_rjem_dallocx");

enum { SYS_READ = 0, SYS_WRITE = 1, SYS_SCHED_YIELD = 24, SYS_PAUSE = 34, SYS_EXIT_GROUP = 231 };

static long call(long nr, long a, long b, long c)
{
	long ret;

	asm volatile("syscall"
		     : "=a"(ret)
		     : "0"(nr), "D"(a), "S"(b), "d"(c)
		     : "rcx", "r11", "memory");
	return ret;
}

static void die(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	call(SYS_WRITE, 2, (long)text, (long)n);
	call(SYS_EXIT_GROUP, 1, 0, 0);
}

/* ---- what the allocator says ---- */

static long step_of_caches; /* known change of the thread caches' bytes since the last state */
static int step_is_known;

static void tell_glibc(struct sonde_report *r)
{
	static const int which[] = {0, 1, 2, 3, 4, 6, 7, 8, 9};

	r->n = 10;
	if (mallinfo2) {
		struct mallinfo2 m = mallinfo2();

		for (int i = 0; i < 9; i++)
			r->v[i] = m.f[which[i]];
	} else if (mallinfo) {
		struct mallinfo m = mallinfo();

		for (int i = 0; i < 9; i++)
			r->v[i] = (uint32_t)m.f[which[i]];
		r->narrow = 0x1ff;
	} else {
		die("the library has neither mallinfo2 nor mallinfo");
	}
	r->v[9] = (uint64_t)step_of_caches;
	r->known = 0x1ff | (step_is_known ? 1u << 9 : 0);
}

static void tell_tcmalloc(struct sonde_report *r)
{
	static const char *const names[] = {
		"generic.current_allocated_bytes",
		"generic.heap_size",
		"tcmalloc.pageheap_free_bytes",
		"tcmalloc.pageheap_unmapped_bytes",
		"tcmalloc.current_total_thread_cache_bytes",
		"tcmalloc.central_cache_free_bytes",
		"tcmalloc.transfer_cache_free_bytes",
		"generic.total_physical_bytes",
	};

	if (!MallocExtension_GetNumericProperty)
		die("the library has no MallocExtension_GetNumericProperty");
	r->n = sizeof(names) / sizeof(names[0]);
	for (uint32_t i = 0; i < r->n; i++) {
		size_t v = 0;

		if (!MallocExtension_GetNumericProperty(names[i], &v))
			die("the library does not know one of its own properties");
		r->v[i] = v;
		r->known |= 1u << i;
	}
}

#define THREADS 3

/* Whose heap: the names that programs use, or a build's own where it has no others. */
static malloc_fn *get;
static free_fn *give;
static mallocx_fn *get_in;
static dallocx_fn *give_in;
static mallctl_fn *ctl;
static const uint64_t *counters[2][THREADS + 1]; /* by thread, the main one last */

static void choose_names(void)
{
	get = malloc;
	give = free;
	ctl = mallctl;
	get_in = mallocx;
	give_in = dallocx;
	if (!ctl && je_mallctl && je_malloc && je_free) {
		get = je_malloc;
		give = je_free;
		ctl = je_mallctl;
		get_in = je_mallocx;
		give_in = je_dallocx;
	} else if (!ctl && rjem_mallctl && rjem_malloc && rjem_free) {
		get = rjem_malloc;
		give = rjem_free;
		ctl = rjem_mallctl;
		get_in = rjem_mallocx;
		give_in = rjem_dallocx;
	}
}

/* The calling thread tells where its counters are. */
static void show_counters(size_t thread)
{
	static const char *const names[] = {"thread.allocatedp", "thread.deallocatedp"};

	for (int i = 0; ctl && i < 2; i++) {
		size_t len = sizeof(counters[i][thread]);

		if (ctl(names[i], &counters[i][thread], &len, 0, 0))
			die("the library does not know one of its own counters");
	}
}

static void tell_jemalloc(struct sonde_report *r)
{
	uint64_t epoch = 1;
	size_t len = sizeof(r->v[2]);

	if (!ctl)
		die("the library has no mallctl");
	if (!counters[0][THREADS])
		show_counters(THREADS);
	r->n = 3;
	r->known = 7;
	for (int i = 0; i < 2; i++)
		for (size_t t = 0; t <= THREADS; t++)
			r->v[i] += counters[i][t] ? *counters[i][t] : 0;
	if (ctl("epoch", 0, 0, &epoch, sizeof(epoch)) ||
	    ctl("stats.allocated", &r->v[2], &len, 0, 0))
		r->known = 3; /* built without statistics */
}

/* ---- where the statistics of its arenas lie ---- */

#define IN_ARENA(n) ((int)((n) + 1) << 20 | 1 << 8) /* past the caches of threads */

static unsigned long arena; /* the one of our own */
static uint64_t told[2];

static uint64_t ask_number(const char *name, size_t len)
{
	uint64_t v = 0;

	if (!ctl || !get_in || !give_in || ctl(name, &v, &len, 0, 0))
		die("the library does not know its arenas");
	return v;
}

/* "arenas.bin.7.size" */
static size_t class_size(const char *kind, unsigned i)
{
	char name[48] = "arenas.";
	size_t n = 7;

	for (; *kind; kind++)
		name[n++] = *kind;
	name[n++] = '.';
	if (i >= 100)
		name[n++] = (char)('0' + i / 100);
	if (i >= 10)
		name[n++] = (char)('0' + i / 10 % 10);
	name[n++] = (char)('0' + i % 10);
	for (const char *p = ".size"; *p; p++)
		name[n++] = *p;
	name[n] = 0;
	return ask_number(name, sizeof(size_t));
}

static void arenas_before(void)
{
	told[0] = ask_number("arenas.narenas", 4);
}

static void arenas_made(void)
{
	for (int i = 0; i < 2; i++)
		told[i] = ask_number("arenas.create", 4);
	arena = told[0];
}

/* @keep blocks, and some more that do not stay. */
static void fill(size_t size, unsigned keep)
{
	void *gone[SONDE_ARENAS_GONE];

	for (unsigned i = 0; i < keep; i++)
		if (!get_in(size, IN_ARENA(arena)))
			die("malloc returned nothing");
	for (unsigned i = 0; i < SONDE_ARENAS_GONE; i++)
		gone[i] = get_in(size, IN_ARENA(arena));
	for (unsigned i = 0; i < SONDE_ARENAS_GONE; i++)
		give_in(gone[i], IN_ARENA(arena));
}

static void arenas_small(void)
{
	told[0] = ask_number("arenas.nbins", 4);
	for (unsigned i = 0; i < told[0]; i++)
		fill(class_size("bin", i), SONDE_ARENAS_BINS + i);
}

static void arenas_large(void)
{
	told[0] = ask_number("arenas.nlextents", 4);
	for (unsigned i = 0; i < SONDE_ARENAS_LARGE_TRIED; i++)
		fill(class_size("lextent", i), SONDE_ARENAS_LARGE + i);
}

static void tell_arenas(struct sonde_report *r)
{
	r->n = 2;
	r->known = 3;
	r->v[0] = told[0];
	r->v[1] = told[1];
}

/* ---- states ---- */

#define MANY 3000

static void *keep[MANY], *big[3], *small[40], *kilo[12];
static volatile int arrived;

static void *mem(size_t size)
{
	char *p = get(size);

	if (!p)
		die("malloc returned nothing");
	p[0] = 1;
	return p;
}

static void fresh(void)
{
	keep[0] = mem(100);
}

/* Small, large and unsorted chunks; every other one free. */
static void mixed(void)
{
	for (int i = 1; i < MANY; i++)
		keep[i] = mem(24 + (size_t)i * 131 % 5000);
	for (int i = 0; i < MANY; i += 2) {
		give(keep[i]);
		keep[i] = 0;
	}
}

/*
 * Mappings of their own; a heap that grew and was trimmed, so that what it has differs from the
 * most it had; and last fast bins, since a large request would empty them.
 */
static void trimmed(void)
{
	for (int i = 0; i < 3; i++)
		big[i] = mem((1u << 20) + (size_t)i * 70000);
	mem(9000);
	for (int i = 0; i < 12; i++)
		keep[2 * i] = mem(110000);
	for (int i = 11; i >= 0; i--) {
		give(keep[2 * i]);
		keep[2 * i] = 0;
	}
	for (int i = 0; i < 40; i++)
		small[i] = mem(24);
	for (int i = 0; i < 40; i++)
		give(small[i]);
	for (int i = 0; i < 20; i++)
		small[i] = mem(56);
	for (int i = 0; i < 20; i++)
		give(small[i]);
}

static void *thread(void *arg)
{
	size_t id = (size_t)arg;
	void *p[400];

	show_counters(id);
	for (size_t i = 0; i < 400; i++)
		p[i] = mem(40 + (i * 37 + id * 211) % 3000);
	for (size_t i = 0; i < 400; i += 3)
		give(p[i]);
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	for (;;)
		call(SYS_PAUSE, 0, 0, 0);
	return 0;
}

/* Arenas and thread caches of more than one thread. */
static void threaded(void)
{
	if (!pthread_create)
		die("the target's libraries have no pthread_create");
	for (size_t i = 0; i < THREADS; i++) {
		unsigned long id;

		if (pthread_create(&id, 0, thread, (void *)i))
			die("no thread could be made");
	}
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < THREADS)
		call(SYS_SCHED_YIELD, 0, 0, 0);
}

/* Neighbours grow together; one mapping goes; what is free is given back to the system. */
static void coalesced(void)
{
	for (int i = 1; i < MANY; i += 2) {
		give(keep[i]);
		keep[i] = 0;
	}
	give(big[1]);
	if (MallocExtension_ReleaseFreeMemory)
		MallocExtension_ReleaseFreeMemory();
}

/* This thread's cache of chunks of 1008 bytes is emptied, then holds exactly 5 and then 3. */
static void cache_drained(void)
{
	for (int i = 0; i < 12; i++)
		kilo[i] = mem(1000);
}

static void cache_filled(void)
{
	for (int i = 0; i < 5; i++)
		give(kilo[i]);
	step_of_caches = 5 * 1008;
	step_is_known = 1;
}

static void cache_taken(void)
{
	kilo[0] = mem(1000);
	kilo[1] = mem(1000);
	step_of_caches = -2 * 1008;
	step_is_known = 1;
}

static void (*const general[])(void) = {
	fresh, mixed, trimmed, threaded, coalesced, cache_drained, cache_filled, cache_taken,
};
static void (*const arenas[])(void) = {arenas_before, arenas_made, arenas_small, arenas_large};

/* ---- */

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct teller {
	char what;
	void (*tell)(struct sonde_report *r);
	void (*const *states)(void);
	uint32_t n_states;
} tellers[] = {
	{SONDE_INSIDE_GLIBC, tell_glibc, general, LENGTH(general)},
	{SONDE_INSIDE_TCMALLOC, tell_tcmalloc, general, LENGTH(general)},
	{SONDE_INSIDE_JEMALLOC, tell_jemalloc, general, LENGTH(general)},
	{SONDE_INSIDE_ARENAS, tell_arenas, arenas, LENGTH(arenas)},
};

static void tell(const struct teller *t, uint32_t state)
{
	struct sonde_report r = {
		.magic = SONDE_REPORT_MAGIC,
		.state = state,
		.states = t->n_states,
	};
	char go;

	t->tell(&r);
	if (call(SYS_WRITE, 1, (long)&r, sizeof(r)) != sizeof(r) ||
	    call(SYS_READ, 0, (long)&go, 1) != 1)
		call(SYS_EXIT_GROUP, 2, 0, 0);
}

static __attribute__((noreturn, used)) void begin(const long *stack)
{
	const char *const *argv = (const char *const *)(stack + 1);
	const struct teller *t = 0;

	choose_names();
	for (size_t i = 0; i < LENGTH(tellers); i++)
		if (stack[0] > 1 && tellers[i].what == argv[1][0])
			t = &tellers[i];
	for (uint32_t i = 0; t && i < t->n_states; i++) {
		step_is_known = 0;
		step_of_caches = 0;
		t->states[i]();
		tell(t, i);
	}
	call(SYS_EXIT_GROUP, 0, 0, 0);
	__builtin_unreachable();
}

/* The dynamic linker jumps here with the arguments on the stack, its libraries initialised. */
asm(".globl sonde_inside_start\n"
    ".hidden sonde_inside_start\n"
    "sonde_inside_start:\n"
    "	xor %ebp, %ebp\n"
    "	mov %rsp, %rdi\n"
    "	and $-16, %rsp\n"
    "	call begin\n");
