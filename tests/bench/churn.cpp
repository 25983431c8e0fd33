// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Kudu's microbenchmark of asking for the memory in use: threads that each do 10 times new and delete of
 * 8000 bytes and one look at the consumption, as often as they can.
 *
 *     churn WAY THREADS SECONDS
 *
 * It says "ready PID", waits for a line ("FILE" of the page for the way `page`), runs, and prints
 * "ITERATIONS_A_SECOND MEAN_ERROR_BYTES MEAN_AGE_NS". Ways:
 *
 *     none      no look at all
 *     numeric   tcmalloc's GetNumericProperty        (preload tcmalloc)
 *     mallctl   jemalloc's epoch and stats.allocated (preload jemalloc)
 *     mallinfo2 glibc's
 *     hooks     every new and delete adds to one of 64 counters; a look sums them
 *     cached    the allocator's own way, whichever it has, asked again when 50 ms have passed
 *     page      what sonde publishes (sonde/consumption.h)
 *
 * Beside the threads one allocates and frees known amounts, and another compares every millisecond what
 * the way says with that: the error is the mean distance, constant offset taken off.
 * LIBS: -ldl
 */
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <thread>
#include <vector>

#include "sonde/consumption.h"

namespace {

constexpr int kBlocks = 10, kBytes = 8000;
constexpr int kStripes = 64;
constexpr size_t kStep = 256 << 10;
constexpr int kSteps = 256;
constexpr uint64_t kCacheNs = 50000000;
constexpr std::chrono::milliseconds kWarmUp{500}; // until all threads run and have their caches

struct alignas(64) Stripe {
	std::atomic<int64_t> bytes{0};
};

Stripe stripes[kStripes];
std::atomic<bool> go{false}, stop{false};
std::atomic<int64_t> known{0}; // what the thread beside the others holds
std::atomic<int64_t> sink{0};
bool hooked;

int (*get_numeric)(const char *, size_t *);
int (*get_mallctl)(const char *, void *, size_t *, void *, size_t);
const sonde_consumption_page *page;

uint64_t now_ns()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

Stripe &mine()
{
	static std::atomic<int> next{0};
	static thread_local int stripe = next++ % kStripes;

	return stripes[stripe];
}

void *take(size_t bytes)
{
	void *p = ::operator new(bytes);

	asm volatile("" : "+r"(p) : : "memory");
	if (hooked)
		mine().bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(p)),
				       std::memory_order_relaxed);
	return p;
}

void give(void *p)
{
	if (hooked)
		mine().bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(p)),
				       std::memory_order_relaxed);
	::operator delete(p);
}

int64_t look_none()
{
	return 0;
}

int64_t look_numeric()
{
	size_t v = 0;

	get_numeric("generic.current_allocated_bytes", &v);
	return static_cast<int64_t>(v);
}

int64_t look_mallctl()
{
	uint64_t epoch = 1;
	size_t v = 0, size = sizeof(epoch);

	get_mallctl("epoch", &epoch, &size, &epoch, size);
	size = sizeof(v);
	get_mallctl("stats.allocated", &v, &size, nullptr, 0);
	return static_cast<int64_t>(v);
}

int64_t look_mallinfo2()
{
	struct mallinfo2 m = mallinfo2();

	return static_cast<int64_t>(m.uordblks + m.hblkhd);
}

int64_t look_hooks()
{
	int64_t sum = 0;

	for (const Stripe &s : stripes)
		sum += s.bytes.load(std::memory_order_relaxed);
	return sum;
}

int64_t look_page()
{
	return sonde_consumption_bytes(page);
}

int64_t (*own_look)(); // the allocator's
std::atomic<int64_t> cached_value{0};
std::atomic<uint64_t> cached_at{0};

int64_t look_cached()
{
	uint64_t at = cached_at.load(std::memory_order_acquire), now = now_ns();

	if (now - at > kCacheNs && cached_at.compare_exchange_strong(at, now))
		cached_value.store(own_look(), std::memory_order_release);
	return cached_value.load(std::memory_order_acquire);
}

struct Way {
	const char *name;
	int64_t (*look)();
};

const Way ways[] = {
	{"none", look_none},	     {"numeric", look_numeric}, {"mallctl", look_mallctl},
	{"mallinfo2", look_mallinfo2}, {"hooks", look_hooks},	{"cached", look_cached},
	{"page", look_page},
};

template <typename F> bool find(const char *symbol, F *to)
{
	void *p = dlsym(RTLD_DEFAULT, symbol);

	memcpy(to, &p, sizeof(p));
	return p;
}

bool prepare(const char *name)
{
	bool numeric = find("MallocExtension_GetNumericProperty", &get_numeric);
	bool mallctl = find("mallctl", &get_mallctl);

	own_look = numeric ? look_numeric : mallctl ? look_mallctl : look_mallinfo2;
	hooked = !strcmp(name, "hooks");
	return (strcmp(name, "numeric") || numeric) && (strcmp(name, "mallctl") || mallctl);
}

struct alignas(64) Count {
	std::atomic<uint64_t> n{0}; // written by its thread alone
};

void churn(int64_t (*look)(), Count *count)
{
	uint64_t n = 0;
	int64_t seen = 0;

	while (!go.load(std::memory_order_acquire))
		std::this_thread::yield();
	for (; !stop.load(std::memory_order_relaxed); n++) {
		for (int i = 0; i < kBlocks; i++)
			give(take(kBytes));
		seen += look();
		count->n.store(n, std::memory_order_relaxed);
	}
	sink += seen;
}

// Up and down by known steps, one every 2 ms.
void swing()
{
	void *held[kSteps];
	int n = 0, way = 1;

	while (!stop.load(std::memory_order_relaxed)) {
		if (way > 0) {
			held[n++] = take(kStep);
			known += kStep;
		} else {
			give(held[--n]);
			known -= kStep;
		}
		if (n == kSteps || !n)
			way = -way;
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
	}
	while (n)
		give(held[--n]);
}

uint64_t age_of(const char *name)
{
	sonde_consumption c;

	if (!strcmp(name, "cached"))
		return now_ns() - cached_at.load();
	if (!strcmp(name, "page") && sonde_consumption_read(page, &c))
		return sonde_consumption_age_ns(&c);
	return 0;
}

struct Closeness {
	double error = 0, age_ns = 0;
};

void compare(const Way &way, Closeness *out)
{
	std::vector<double> off;
	double mean = 0;

	while (!stop.load(std::memory_order_relaxed)) {
		off.push_back(static_cast<double>(way.look() - known.load()));
		out->age_ns += static_cast<double>(age_of(way.name));
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	if (off.empty())
		return;
	for (double v : off)
		mean += v / static_cast<double>(off.size());
	for (double v : off)
		out->error += std::fabs(v - mean) / static_cast<double>(off.size());
	out->age_ns /= static_cast<double>(off.size());
}

// With 200 threads before it the one that compares would see a handful of values a second.
void ahead_of_all(std::thread &t)
{
	sched_param p = {};

	p.sched_priority = 1;
	pthread_setschedparam(t.native_handle(), SCHED_FIFO, &p);
}

uint64_t sum_of(const std::vector<Count> &counts)
{
	uint64_t sum = 0;

	for (const Count &c : counts)
		sum += c.n.load(std::memory_order_relaxed);
	return sum;
}

double run(const Way &way, int n_threads, double seconds, Closeness *closeness)
{
	std::vector<Count> counts(static_cast<size_t>(n_threads));
	std::vector<std::thread> threads;
	uint64_t begin, took, before, after;

	for (auto &c : counts)
		threads.emplace_back(churn, way.look, &c);
	threads.emplace_back(swing);
	ahead_of_all(threads.back());
	go = true;
	std::this_thread::sleep_for(kWarmUp);
	threads.emplace_back(compare, std::cref(way), closeness);
	ahead_of_all(threads.back());
	begin = now_ns();
	before = sum_of(counts);
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	after = sum_of(counts);
	took = now_ns() - begin;
	stop = true;
	for (auto &t : threads)
		t.join();
	return static_cast<double>(after - before) / (static_cast<double>(took) / 1e9);
}

int usage()
{
	fprintf(stderr, "usage: churn WAY THREADS SECONDS; ways:");
	for (const Way &w : ways)
		fprintf(stderr, " %s", w.name);
	fprintf(stderr, "\n");
	return 2;
}

} // namespace

int main(int argc, char **argv)
{
	char line[512];
	const Way *way = nullptr;
	Closeness closeness;
	double rate;

	for (const Way &w : ways)
		if (argc == 4 && !strcmp(argv[1], w.name))
			way = &w;
	if (!way)
		return usage();
	if (!prepare(way->name)) {
		fprintf(stderr, "churn: %s needs its allocator preloaded\n", way->name);
		return 1;
	}
	printf("ready %d\n", static_cast<int>(getpid()));
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	line[strcspn(line, "\n")] = '\0';
	if (!strcmp(way->name, "page") && !(page = sonde_consumption_map(line))) {
		fprintf(stderr, "churn: no page at '%s'\n", line);
		return 1;
	}
	rate = run(*way, atoi(argv[2]), atof(argv[3]), &closeness);
	printf("%.1f %.0f %.0f\n", rate, closeness.error, closeness.age_ns);
	return 0;
}
