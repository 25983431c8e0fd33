// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Client of tests/bench/echo.c (and of any MySQL server that needs no password): one thread, N
 * connections, each query timed. With --rate an open loop: queries are due at fixed times, whether
 * or not earlier ones were answered, and their latency counts from when they were due.
 *
 *   echoload PORT [--connections N] [--queries N] [--rate N/s] [--pipeline N] [--sql TEXT] [--out
 * F]
 *
 * --pipeline N sends N queries in one write (closed loop). --out: "port seq send_ns last_ns" a
 * query. The last line is JSON; exit status 1 if a query was not answered.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 256

struct conn {
	int fd;
	uint16_t port;
	unsigned seq, waiting; /* queries sent, and not yet answered */
	unsigned eofs;	       /* EOF packets of the answer being read */
	uint64_t send_ns, due_ns;
	uint8_t buf[65536];
	size_t have;
};

struct record {
	uint16_t port;
	unsigned seq;
	uint64_t send_ns, last_ns, due_ns;
};

static struct conn conns[MAX_CONNECTIONS];
static struct pollfd fds[MAX_CONNECTIONS];
static struct record *records;
static unsigned n_conns = 8, pipeline = 1;
static unsigned long queries = 20000, rate, sent, done;
static const char *sql = "SELECT id FROM rt WHERE MATCH('hello') LIMIT 20", *out;
static uint8_t request[4096];
static size_t request_len;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "echoload: %s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
	exit(1);
}

static void write_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0)
			die("send");
		p = (const char *)p + k;
		n -= (size_t)k;
	}
}

/* One packet, blocking: only for the login. */
static void read_packet(int fd)
{
	uint8_t head[4], body[1024];
	size_t len;

	if (recv(fd, head, 4, MSG_WAITALL) != 4)
		die("login");
	len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
	if (len > sizeof(body) || recv(fd, body, len, MSG_WAITALL) != (ssize_t)len)
		die("login");
}

static void open_one(struct conn *c, uint16_t port)
{
	static const char login[] =
		"\x26\0\0\1\x05\xa2\0\0\0\0\0\1!\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		"\0\0\0\0\0root\0";
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int one = 1;
	char hello[42] = {0};

	memcpy(hello, login, sizeof(login) - 1);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, len))
		die("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	getsockname(c->fd, (struct sockaddr *)&a, &len);
	c->port = ntohs(a.sin_port);
	read_packet(c->fd);
	write_all(c->fd, hello, sizeof(hello));
	read_packet(c->fd);
}

static void ask(struct conn *c, uint64_t due)
{
	c->send_ns = now_ns();
	c->due_ns = due ? due : c->send_ns;
	c->waiting = pipeline;
	c->seq += pipeline;
	sent += pipeline;
	write_all(c->fd, request, request_len);
}

static void answered(struct conn *c, uint64_t at)
{
	records[done++] =
		(struct record){c->port, c->seq - c->waiting + 1, c->send_ns, at, c->due_ns};
	c->waiting--;
	c->eofs = 0;
}

/* Answers are result sets with EOF packets, or OK, or errors. */
static void take(struct conn *c)
{
	ssize_t n = recv(c->fd, c->buf + c->have, sizeof(c->buf) - c->have, MSG_DONTWAIT);
	uint64_t at = now_ns();
	size_t o = 0;

	if (n <= 0 && (n == 0 || errno != EAGAIN))
		die("the server closed");
	c->have += n > 0 ? (size_t)n : 0;
	while (c->have - o >= 5) {
		uint8_t *p = c->buf + o;
		size_t len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16;
		bool first = c->eofs == 0 && p[3] == 1;

		if (c->have - o < 4 + len)
			break;
		if (p[4] == 0xfe && len < 9)
			c->eofs++;
		if (c->eofs == 2 || (first && (p[4] == 0 || p[4] == 0xff)))
			answered(c, at);
		o += 4 + len;
	}
	memmove(c->buf, c->buf + o, c->have - o);
	c->have -= o;
}

static struct conn *idle(void)
{
	for (unsigned i = 0; i < n_conns; i++)
		if (!conns[i].waiting)
			return &conns[i];
	return NULL;
}

static void run(void)
{
	uint64_t begin = now_ns();

	while (done < queries) {
		struct conn *c;
		int timeout = -1;

		while (sent < queries && (c = idle())) {
			uint64_t due = rate ? begin + sent * 1000000000u / rate : 0;

			if (due > now_ns()) {
				timeout = 0; /* spin: a timer would come late */
				break;
			}
			ask(c, due);
		}
		if (poll(fds, n_conns, timeout) < 0)
			die("poll");
		for (unsigned i = 0; i < n_conns; i++)
			if (fds[i].revents)
				take(&conns[i]);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void write_records(void)
{
	FILE *f = fopen(out, "w");

	if (!f)
		die(out);
	for (unsigned long i = 0; i < done; i++)
		fprintf(f, "%u\t%u\t%llu\t%llu\n", records[i].port, records[i].seq,
			(unsigned long long)records[i].send_ns,
			(unsigned long long)records[i].last_ns);
	if (fclose(f))
		die(out);
}

static void report(uint64_t took_ns)
{
	uint64_t *v = calloc(done, sizeof(*v));
	struct rusage ru;
	double sum = 0;

	if (!v)
		die("memory");
	for (unsigned long i = 0; i < done; i++) {
		v[i] = records[i].last_ns - records[i].due_ns;
		sum += (double)v[i];
	}
	qsort(v, done, sizeof(*v), compare);
	getrusage(RUSAGE_SELF, &ru);
	printf("{\"sent\":%lu,\"ok\":%lu,\"seconds\":%.3f,\"rate\":%.0f,\"mean_us\":%.2f,\"min_"
	       "us\":%.2f,"
	       "\"p50_us\":%.2f,\"p95_us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.2f}\n",
	       sent, done, (double)took_ns / 1e9, (double)done * 1e9 / (double)took_ns,
	       sum / (double)done / 1e3, (double)v[0] / 1e3, (double)v[done / 2] / 1e3,
	       (double)v[done * 95 / 100] / 1e3, (double)v[done * 99 / 100] / 1e3,
	       (double)v[done - 1] / 1e3);
	free(v);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {{"connections", required_argument, NULL, 'c'},
						{"queries", required_argument, NULL, 'q'},
						{"rate", required_argument, NULL, 'r'},
						{"pipeline", required_argument, NULL, 'p'},
						{"sql", required_argument, NULL, 's'},
						{"out", required_argument, NULL, 'o'},
						{0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'c':
			n_conns = (unsigned)atoi(optarg);
			break;
		case 'q':
			queries = strtoul(optarg, NULL, 10);
			break;
		case 'r':
			rate = strtoul(optarg, NULL, 10);
			break;
		case 'p':
			pipeline = (unsigned)atoi(optarg);
			break;
		case 's':
			sql = optarg;
			break;
		case 'o':
			out = optarg;
			break;
		default:
			exit(2);
		}
	}
	if (optind + 1 != argc || !n_conns || n_conns > MAX_CONNECTIONS || !pipeline ||
	    pipeline > 8 || !queries || strlen(sql) > 500)
		exit(2);
	queries -= queries % pipeline;
}

int main(int argc, char **argv)
{
	size_t len;
	uint64_t begin;

	parse(argc, argv);
	len = strlen(sql) + 1;
	for (unsigned i = 0; i < pipeline; i++) {
		uint8_t *p = request + request_len;

		p[0] = len & 255;
		p[1] = len >> 8 & 255;
		p[4] = 3;
		memcpy(p + 5, sql, len - 1);
		request_len += 4 + len;
	}
	records = calloc(queries, sizeof(*records));
	if (!records)
		die("memory");
	for (unsigned i = 0; i < n_conns; i++) {
		open_one(&conns[i], (uint16_t)atoi(argv[optind]));
		fds[i] = (struct pollfd){.fd = conns[i].fd, .events = POLLIN};
	}
	begin = now_ns();
	run();
	report(now_ns() - begin);
	if (out)
		write_records();
	free(records);
	return done == queries ? 0 : 1;
}
