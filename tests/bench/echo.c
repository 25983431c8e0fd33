// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The smallest server that speaks MySQL: one epoll thread, every COM_QUERY answered with the same
 * small result set by one send. It does nothing else, so what observing it costs is seen best.
 * Prints its port, and at SIGTERM how many queries it answered and the CPU time that took.
 *
 *   echo [--rows N] [--splits N] [--mute]      N rows of 8 bytes; the answer in N sends; or none at
 * all
 *        [--alloc N]   before answering its query Q (from 0) allocate Q % N + 1 blocks of 1000
 * bytes and free half of them, rounded down; the rest is freed after the answer
 *        [--each]      with --alloc: N blocks for every query
 *        [--mixed]     the same numbers in no order, the mean is (N + 1) / 2 over many queries
 *        [--turn]      each block is freed before the next is taken: nothing is cheaper for malloc
 *        [--work N]    and compute for N us
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_FDS 1024

struct client {
	uint8_t buf[65536];
	size_t have;
	bool logged_in;
};

static struct client *clients[MAX_FDS];
static uint8_t answer[65536];
static size_t answer_len;
static unsigned splits = 1;
static bool mute;
static unsigned alloc_blocks, work_us;
static bool each, mixed, in_turn;
static void *blocks[4096];
static unsigned long long answered;
static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void die(const char *what)
{
	fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void packet(uint8_t seq, const void *payload, size_t len)
{
	uint8_t *p = answer + answer_len;

	p[0] = len & 255;
	p[1] = len >> 8 & 255;
	p[2] = 0;
	p[3] = seq;
	memcpy(p + 4, payload, len);
	answer_len += 4 + len;
}

/* One column, @rows rows, EOF packets: as searchd answers. */
static void make_answer(unsigned rows)
{
	uint8_t seq = 1;

	packet(seq++, "\1", 1);
	packet(seq++, "\3def\0\0\0\2id\0\x0c\x21\0\x0b\0\0\0\3\0\0\0\0\0", 23);
	packet(seq++, "\xfe\0\0\2\0", 5);
	for (unsigned i = 0; i < rows; i++)
		packet(seq++, "\0071234567", 8);
	packet(seq, "\xfe\0\0\2\0", 5);
}

static int listen_any(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 128) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		die("cannot listen");
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

static void send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return;
		if (done > 0) {
			p = (const char *)p + done;
			n -= (size_t)done;
		}
	}
}

static void greet(int fd)
{
	static const char hello[] = "\x4a\0\0\0\x0a"
				    "5.5.21-echo\0\1\0\0\0abcdefgh\0\x08\x82\x21\2\0\0\0\0\0\0"
				    "\0\0\0\0\0\0\0\0\0abcdefghijklabcdefghijklm";
	char out[78] = {0};

	memcpy(out, hello, sizeof(hello) - 1);
	send_all(fd, out, sizeof(out));
}

static void accept_one(int ep, int lfd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int one = 1, fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 || fd >= MAX_FDS)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	clients[fd] = calloc(1, sizeof(*clients[fd]));
	ev.data.fd = fd;
	if (!clients[fd] || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("no memory for a client");
	greet(fd);
}

/* @n blocks, the first half of which is given back at once. */
static void take(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		blocks[i] = malloc(1000);
		if (!blocks[i])
			die("no memory for a block");
		*(volatile char *)blocks[i] = 1;
	}
	for (unsigned i = 0; i < n / 2; i++)
		free(blocks[i]);
}

static void take_in_turn(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char *block = malloc(1000);

		if (!block)
			die("no memory for a block");
		*(volatile char *)block = 1;
		free(block);
	}
}

/* The mixing of splitmix64: neighbours have nothing to do with each other. */
static uint64_t scrambled(uint64_t x)
{
	x = (x + 1) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static void work(void)
{
	struct timespec t;
	long long end;

	if (!work_us)
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	end = t.tv_sec * 1000000000ll + t.tv_nsec + work_us * 1000ll;
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000000000ll + t.tv_nsec < end);
}

/* The handler that scripts/bench-query names in a recipe: the command, and the text behind it. */
static __attribute__((noinline, noclone)) void reply(int fd, uint32_t command, const uint8_t *text,
						     uint32_t len)
{
	size_t part = (answer_len + splits - 1) / splits;
	unsigned n = alloc_blocks ? (unsigned)(answered % alloc_blocks) + 1 : 0;

	if (alloc_blocks && mixed)
		n = (unsigned)(scrambled(answered) % alloc_blocks) + 1;
	n = each ? alloc_blocks : n;
	__asm__ volatile("" : : "r"(text), "r"(len)); /* so that callers pass them */
	if (command == 0x01 || command == 0x19)
		return;
	if (command == 0x0e) {
		send_all(fd, "\7\0\0\1\0\0\0\2\0\0\0", 11);
		return;
	}
	if (in_turn)
		take_in_turn(n);
	else
		take(n);
	work();
	for (size_t at = 0; !mute && at < answer_len; at += part)
		send_all(fd, answer + at, answer_len - at < part ? answer_len - at : part);
	answered++;
	for (unsigned i = n / 2; i < n && !in_turn; i++)
		free(blocks[i]);
}

static void drop(int fd)
{
	close(fd);
	free(clients[fd]);
	clients[fd] = NULL;
}

static void serve(int fd)
{
	struct client *c = clients[fd];
	ssize_t n = recv(fd, c->buf + c->have, sizeof(c->buf) - c->have, 0);
	size_t at = 0;

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop(fd);
		return;
	}
	c->have += (size_t)n;
	while (c->have - at >= 4) {
		uint8_t *p = c->buf + at;
		size_t len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16;

		if (c->have - at < 4 + len)
			break;
		if (c->logged_in)
			reply(fd, len ? p[4] : 0, p + 5, len ? (uint32_t)len - 1 : 0);
		else
			send_all(fd, "\7\0\0\2\0\0\0\2\0\0\0", 11);
		c->logged_in = true;
		at += 4 + len;
	}
	memmove(c->buf, c->buf + at, c->have - at);
	c->have -= at;
}

static double cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e9 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1e3;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rows", required_argument, NULL, 'r'},
						{"splits", required_argument, NULL, 's'},
						{"mute", no_argument, NULL, 'm'},
						{"alloc", required_argument, NULL, 'a'},
						{"each", no_argument, NULL, 'e'},
						{"mixed", no_argument, NULL, 'x'},
						{"turn", no_argument, NULL, 't'},
						{"work", required_argument, NULL, 'w'},
						{0}};
	struct sigaction sa = {.sa_handler = on_signal};
	struct epoll_event ev = {.events = EPOLLIN}, evs[64];
	unsigned rows = 1;
	int ep = epoll_create1(EPOLL_CLOEXEC), lfd, opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'r')
			rows = (unsigned)atoi(optarg);
		else if (opt == 's')
			splits = (unsigned)atoi(optarg);
		else if (opt == 'a')
			alloc_blocks = (unsigned)atoi(optarg);
		else if (opt == 'e')
			each = true;
		else if (opt == 'x')
			mixed = true;
		else if (opt == 't')
			in_turn = true;
		else if (opt == 'w')
			work_us = (unsigned)atoi(optarg);
		else if (opt == 'm')
			mute = true;
		else
			return 2;
	}
	if (rows > 4000 || splits < 1 || alloc_blocks > 4096)
		return 2;
	make_answer(rows);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	lfd = listen_any();
	ev.data.fd = lfd;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev))
		die("epoll");
	while (!stop) {
		int n = epoll_wait(ep, evs, 64, -1);

		for (int i = 0; i < n; i++) {
			if (evs[i].data.fd == lfd)
				accept_one(ep, lfd);
			else
				serve(evs[i].data.fd);
		}
	}
	printf("{\"answered\":%llu,\"cpu_ns\":%.0f}\n", answered, cpu_ns());
	return 0;
}
