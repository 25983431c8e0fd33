// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A server with a query handler of its own, handle_request(), and a client for it. Its protocol is
 * none that sonde knows, unless --mysql is given. Which thread serves a request, and how often the
 * request changes threads, is what the modes differ in.
 *
 *   handlerwork MODE [--mysql] [--workers N] [--work US]     prints its port, ends at SIGTERM
 *       threads     a thread for each connection
 *       one         one thread for all connections, served in turn
 *       pool        N threads; whichever is free reads and serves the next request of any connection
 *       fork        a process for each connection
 *       coroutine   a stack of its own (ucontext) for each connection, N threads. Each request is read
 *                   on one thread, handed to the next for its handler, which is left in the middle for
 *                   yet another, and the answer is sent from a fourth
 *       --mysql8    with --mysql: the handler is dispatch_command() as MySQL has it since 5.7
 *   handlerwork client PORT [--connections N] [--queries N] [--text TEXT]
 *       sends the queries, N in all over the connections, one after the other on each; prints
 *       how many were answered. A query is TEXT, the client's port and
 *       the query's number.
 *
 * A request whose text begins with "throw" makes the handler throw, and the error is sent by whoever
 * catches it. "quiet" is answered after the handler has returned, all else within it. "touch" touches 16
 * fresh pages before the handler changes threads, and 16 after. "hold" is answered once the file that
 * --hold names is there.
 */
#include <arpa/inet.h>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <getopt.h>
#include <mutex>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include "handlerclient.h"

static bool mysql, mysql8;
static unsigned workers = 4, work_us;
static const char *hold_file = "";

struct coroutine;

/* What the handler is called with: the descriptor is where the recipe of the tests says. */
struct session {
	uint64_t served;
	int fd;
	bool quiet;
	struct coroutine *co;
	std::vector<char> text;
};

/* ---- coroutines ---- */

struct coroutine {
	ucontext_t context;
	std::vector<char> stack;
	session *s;
	unsigned thread; /* whose queue it is put into next */
	bool done, waits; /* waits: until its connection can be read */
};

struct worker {
	std::mutex lock;
	std::condition_variable wake;
	std::deque<coroutine *> queue;
	ucontext_t context;
};

static std::vector<worker *> pool;
static thread_local unsigned my_number;
static thread_local coroutine *parked; /* to be put into the queue once its stack is left */
static int waiting; /* epoll of coroutines that wait for bytes */

/* Never inlined: the address of a thread's own variable must not outlive a change of threads. */
__attribute__((noinline)) static unsigned *number()
{
	asm volatile("");
	return &my_number;
}

__attribute__((noinline)) static coroutine **parked_here()
{
	asm volatile("");
	return &parked;
}

static void enqueue(coroutine *co)
{
	worker *w = pool[co->thread];
	std::lock_guard<std::mutex> hold(w->lock);

	w->queue.push_back(co);
	w->wake.notify_one();
}

/* Leave this stack; the next thread goes on with it. */
extern "C" __attribute__((noinline)) void co_yield(coroutine *co)
{
	co->thread = (*number() + 1) % workers;
	*parked_here() = co;
	swapcontext(&co->context, &pool[*number()]->context);
	asm volatile(""); /* so that the call above is no tail jump: this function has a ret */
}

/* Whoever is told that there are bytes may run it at once: only now that its stack is left. */
static void arm(coroutine *co)
{
	struct epoll_event ev = {};
	int fd = co->s->fd;

	co->waits = false;
	ev.events = EPOLLIN | EPOLLONESHOT;
	ev.data.ptr = co;
	if (epoll_ctl(waiting, EPOLL_CTL_MOD, fd, &ev) &&
	    epoll_ctl(waiting, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
}

static void wait_readable(session *s)
{
	s->co->waits = true;
	s->co->thread = (*number() + 1) % workers;
	*parked_here() = s->co;
	swapcontext(&s->co->context, &pool[*number()]->context);
}

static void hop(session *s)
{
	if (s->co)
		co_yield(s->co);
}

/* ---- bytes ---- */

static bool read_all(session *s, void *to, size_t len)
{
	char *p = (char *)to;

	while (len) {
		ssize_t n = recv(s->fd, p, len, s->co ? MSG_DONTWAIT : 0);

		if (n < 0 && errno == EAGAIN && s->co)
			wait_readable(s);
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n <= 0)
			return false;
		else
			p += n, len -= (size_t)n;
	}
	return true;
}

static void send_answer(session *s, bool error)
{
	static const char ok[] = "\7\0\0\1\0\0\0\2\0\0", bad[] = "\3\0\0\1\xff\1\4";
	header h = {magic, error ? 1u : 0u};
	std::string out = mysql ? std::string(error ? bad : ok, error ? 7 : 11)
				: std::string((char *)&h, sizeof(h)) + "an answer";

	if (send(s->fd, out.data(), out.size(), MSG_NOSIGNAL) < 0)
		return;
}

static bool read_request(session *s)
{
	uint8_t h[8];
	uint32_t len;

	if (!read_all(s, h, mysql ? 4 : 8))
		return false;
	memcpy(&len, h + (mysql ? 0 : 4), 4);
	len = mysql ? len & 0xffffff : len;
	if (len > 1 << 20)
		return false;
	s->text.resize(len + 1);
	s->text[len] = '\0';
	return read_all(s, s->text.data(), len);
}

static void spin()
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	do
		clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < (long)work_us);
}

static void touch()
{
	size_t len = 16 * 4096;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *p = (char *)mmap(NULL, len, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	madvise(p, len, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < len; i += 4096)
		p[i] = 1;
	munmap(p, len);
}

/* ---- the handler ---- */

extern "C" __attribute__((noinline)) int handle_request(session *s, const char *text, uint32_t len)
{
	bool touches = len >= 5 && !memcmp(text, "touch", 5);

	while (len >= 4 && !memcmp(text, "hold", 4) && access(hold_file, F_OK))
		usleep(5000);
	if (touches)
		touch();
	hop(s);
	spin();
	s->served++;
	if (touches)
		touch();
	if (len >= 5 && !memcmp(text, "throw", 5))
		throw std::runtime_error("as asked");
	hop(s);
	s->quiet = len >= 5 && !memcmp(text, "quiet", 5);
	if (!s->quiet)
		send_answer(s, false);
	return s->quiet ? 2 : (int)len;
}

/* A handler that nobody can see leave: its last jump goes through a word that changes. */
typedef int (*next_handler)(session *s, const char *text, uint32_t len);
static volatile next_handler next_table[2] = {handle_request, handle_request};

extern "C" __attribute__((noinline)) int handle_indirect(session *s, const char *text, uint32_t len)
{
	next_handler next = next_table[len & 1];

	return next(s, text, len);
}

/* MySQL's, as far as its callers and its mangled name go. */
enum enum_server_command { COM_QUIT = 1, COM_QUERY = 3, COM_STMT_CLOSE = 25 };
class THD;
union COM_DATA {
	struct {
		const char *query;
		unsigned length;
		void *parameters;
	} com_query;
};

__attribute__((noinline)) bool dispatch_command(THD *thd, const COM_DATA *data,
						enum enum_server_command command)
{
	session *s = (session *)thd;

	if (command == COM_QUIT)
		return true;
	if (command == COM_STMT_CLOSE) /* is not answered */
		return false;
	if (command != COM_QUERY) {
		send_answer(s, false);
		return false;
	}
	handle_request(s, data->com_query.query, data->com_query.length);
	return s->served == 0;
}

static bool serve_mysql8(session *s)
{
	COM_DATA data;

	if (!read_request(s))
		return false;
	data.com_query = {s->text.data() + 1, (unsigned)s->text.size() - 2, NULL};
	if (s->text[0] != COM_QUERY) /* another member of the union: a number */
		data.com_query.query = (const char *)1;
	if (dispatch_command((THD *)s, &data, (enum_server_command)s->text[0]))
		return false;
	answered++;
	return true;
}

static bool serve_one(session *s)
{
	size_t skip = mysql ? 1 : 0;

	if (!read_request(s) || (mysql && s->text[0] == 1))
		return false;
	hop(s);
	try {
		handle_indirect(s, s->text.data() + skip, (uint32_t)(s->text.size() - 1 - skip));
		if (s->quiet)
			hop(s), send_answer(s, false);
	} catch (const std::runtime_error &) {
		send_answer(s, true);
	}
	answered++;
	return true;
}

static bool greet(session *s)
{
	static const char hello[] = "\x4a\0\0\0\x0a"
				    "5.5.5-test";
	char out[78] = {}, login[4096];
	uint8_t h[4];

	if (!mysql)
		return true;
	memcpy(out, hello, sizeof(hello));
	out[sizeof(hello) + 4 + 8 + 1] = (char)0x00;
	out[sizeof(hello) + 4 + 8 + 2] = (char)0x82;
	if (send(s->fd, out, sizeof(out), MSG_NOSIGNAL) < 0 || !read_all(s, h, 4))
		return false;
	if (!read_all(s, login, (size_t)(h[0] | h[1] << 8)))
		return false;
	return send(s->fd, "\7\0\0\2\0\0\0\2\0\0", 11, MSG_NOSIGNAL) == 11;
}

static void serve(session *s)
{
	if (greet(s))
		while (mysql8 ? serve_mysql8(s) : serve_one(s))
			;
	close(s->fd);
}

/* ---- modes ---- */

static void co_main(unsigned hi, unsigned lo)
{
	coroutine *co = (coroutine *)((uintptr_t)hi << 32 | lo);

	serve(co->s);
	delete co->s;
	co->done = true;
	*parked_here() = co;
	setcontext(&pool[*number()]->context);
}

/* Small: a stack in reach of its neighbours' is the harder case. */
static coroutine *co_new(int fd, unsigned nth)
{
	coroutine *co = new coroutine();

	co->stack.resize(64 << 10);
	co->s = new session{0, fd, false, co, {}};
	co->thread = nth % workers;
	getcontext(&co->context);
	co->context.uc_stack.ss_sp = co->stack.data();
	co->context.uc_stack.ss_size = co->stack.size();
	co->context.uc_link = NULL;
	makecontext(&co->context, (void (*)())co_main, 2, (unsigned)((uintptr_t)co >> 32),
		    (unsigned)(uintptr_t)co);
	return co;
}

static void run_worker(unsigned n)
{
	worker *w = pool[n];

	*number() = n;
	for (;;) {
		coroutine *co;
		{
			std::unique_lock<std::mutex> hold(w->lock);
			w->wake.wait(hold, [w] { return !w->queue.empty(); });
			co = w->queue.front();
			w->queue.pop_front();
		}
		*parked_here() = NULL;
		swapcontext(&w->context, &co->context);
		co = *parked_here();
		if (co->done)
			delete co;
		else if (co->waits)
			arm(co);
		else
			enqueue(co);
	}
}

static void run_waiting()
{
	struct epoll_event ev[64];

	for (;;) {
		int n = epoll_wait(waiting, ev, 64, -1);

		for (int i = 0; i < n; i++)
			enqueue((coroutine *)ev[i].data.ptr);
	}
}

/* Any thread of the pool takes the next connection that has something to read. */
static void run_pool(int listener)
{
	for (;;) {
		struct epoll_event ev, on = {};

		if (epoll_wait(waiting, &ev, 1, -1) != 1)
			continue;
		session *s = (session *)ev.data.ptr;
		if (!s) {
			int fd = accept(listener, NULL, NULL);

			if (fd < 0) /* another thread has it */
				continue;
			s = new session{0, fd, false, NULL, {}};
			on.data.ptr = s;
			on.events = EPOLLIN | EPOLLONESHOT;
			if (!greet(s) || epoll_ctl(waiting, EPOLL_CTL_ADD, fd, &on))
				die("accept");
			continue;
		}
		if (!serve_one(s)) {
			close(s->fd);
			delete s;
			continue;
		}
		on.data.ptr = s;
		on.events = EPOLLIN | EPOLLONESHOT;
		epoll_ctl(waiting, EPOLL_CTL_MOD, s->fd, &on);
	}
}

static int listen_here()
{
	struct sockaddr_in a = {};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_family = AF_INET;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 512) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		die("listen");
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

static void accept_all(int listener, const std::string &mode)
{
	for (unsigned n = 0;; n++) {
		int fd = accept(listener, NULL, NULL), one = 1;

		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (mode == "coroutine") {
			enqueue(co_new(fd, n));
		} else if (mode == "threads") {
			std::thread([fd] {
				session s{0, fd, false, NULL, {}};
				serve(&s);
			}).detach();
		} else if (mode == "fork" && !fork()) {
			session s{0, fd, false, NULL, {}};
			close(listener);
			serve(&s);
			_exit(0);
		} else if (mode == "one") {
			session s{0, fd, false, NULL, {}};
			serve(&s);
		}
		if (mode == "fork")
			close(fd);
	}
}

static void on_term(int)
{
	_exit(0);
}

static int run_server(const std::string &mode)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGTERM, on_term);
	waiting = epoll_create1(0);
	for (unsigned i = 0; i < workers; i++)
		pool.push_back(new worker());
	int listener = listen_here();
	if (mode == "pool") {
		struct epoll_event ev = {};

		ev.events = EPOLLIN;
		ev.data.ptr = NULL;
		fcntl(listener, F_SETFL, O_NONBLOCK);
		ev.events = EPOLLIN | EPOLLEXCLUSIVE;
		if (epoll_ctl(waiting, EPOLL_CTL_ADD, listener, &ev))
			die("epoll_ctl");
		for (unsigned i = 1; i < workers; i++)
			std::thread(run_pool, listener).detach();
		run_pool(listener);
	}
	if (mode == "coroutine") {
		std::thread(run_waiting).detach();
		for (unsigned i = 0; i < workers; i++)
			std::thread(run_worker, i).detach();
	}
	accept_all(listener, mode);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"mysql", 0, NULL, 'm'},
						{"mysql8", 0, NULL, '8'},
						{"workers", 1, NULL, 'w'},
						{"work", 1, NULL, 'u'},
						{"connections", 1, NULL, 'c'},
						{"queries", 1, NULL, 'q'},
						{"text", 1, NULL, 't'},
						{"hold", 1, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	unsigned connections = 4, queries = 1000;
	std::string text = "lookup the key", mode;
	std::vector<std::thread> threads;

	for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (o) {
		case 'm': mysql = true; break;
		case '8': mysql8 = true; break;
		case 'w': workers = (unsigned)atoi(optarg); break;
		case 'u': work_us = (unsigned)atoi(optarg); break;
		case 'c': connections = (unsigned)atoi(optarg); break;
		case 'q': queries = (unsigned)atoi(optarg); break;
		case 't': text = optarg; break;
		case 'h': hold_file = optarg; break;
		default: return 2;
		}
	}
	mode = optind < argc ? argv[optind] : "threads";
	if (mode != "client")
		return run_server(mode);
	for (unsigned i = 0; i < connections; i++)
		threads.emplace_back(ask, (unsigned)atoi(argv[optind + 1]), i, connections, queries,
				     text);
	for (auto &t : threads)
		t.join();
	printf("%llu\n", (unsigned long long)answered);
	return 0;
}
