// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A load as YCSB's workload A on a key-value server that speaks memcached's text protocol: records
 * are put in, then half of the operations read and half replace a record chosen by a zipfian law
 * (theta 0.99, Gray et al., "Quickly generating billion-record synthetic databases"), the popular
 * ones scattered over the keys by a hash. Every answer is checked: a value names its key and its
 * length.
 *
 *     kvload PORT CONNECTIONS RECORDS OPERATIONS [SECONDS]
 *
 * With SECONDS it goes on until they are over, in rounds of OPERATIONS. Prints one JSON object.
 */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THETA	  0.99
#define VALUE_MAX 4096
#define SEED	  0x9e3779b97f4a7c15ull

static uint16_t port;
static uint64_t records, operations;
static double seconds, zeta_n, eta;
static uint64_t deadline_ns;

struct client {
	pthread_t thread;
	unsigned index, step; /* of index, of how many */
	int fd;
	FILE *in;
	uint64_t seed, reads, updates, errors;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t next(struct client *c)
{
	c->seed += SEED;
	return mix(c->seed);
}

static double zeta(uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 1; i <= n; i++)
		sum += 1 / pow((double)i, THETA);
	return sum;
}

static void prepare_zipf(void)
{
	zeta_n = zeta(records);
	eta = (1 - pow(2.0 / (double)records, 1 - THETA)) / (1 - zeta(2) / zeta_n);
}

static uint64_t choose(struct client *c)
{
	double u = (double)(next(c) >> 11) / (double)(1ull << 53), uz = u * zeta_n;
	uint64_t rank;

	if (uz < 1)
		rank = 0;
	else if (uz < 1 + pow(0.5, THETA))
		rank = 1;
	else
		rank = (uint64_t)((double)records * pow(eta * u - eta + 1, 1 / (1 - THETA)));
	return mix(rank) % records;
}

static size_t value_of(uint64_t key, size_t len, char *buf)
{
	int n = snprintf(buf, VALUE_MAX, "%llu:%zu:", (unsigned long long)key, len);

	len = len > (size_t)n ? len : (size_t)n;
	memset(buf + n, 'v', len - (size_t)n);
	return len;
}

static bool send_all(struct client *c, const char *p, size_t n)
{
	while (n) {
		ssize_t put = write(c->fd, p, n);

		if (put <= 0)
			return false;
		p += put;
		n -= (size_t)put;
	}
	return true;
}

static bool put_record(struct client *c, uint64_t key)
{
	char value[VALUE_MAX + 64], text[VALUE_MAX + 160], line[64];
	size_t len = value_of(key, 64 + next(c) % 1900, value);
	int n = snprintf(text, sizeof(text), "set user%llu 0 0 %zu\r\n%.*s\r\n",
			 (unsigned long long)key, len, (int)len, value);

	return send_all(c, text, (size_t)n) && fgets(line, sizeof(line), c->in) &&
	       !strcmp(line, "STORED\r\n");
}

static bool get_record(struct client *c, uint64_t key)
{
	char line[128], value[VALUE_MAX + 64], want[VALUE_MAX + 64];
	unsigned long long k;
	size_t len, named;
	int n = snprintf(line, sizeof(line), "get user%llu\r\n", (unsigned long long)key);

	if (!send_all(c, line, (size_t)n) || !fgets(line, sizeof(line), c->in) ||
	    sscanf(line, "VALUE user%llu 0 %zu", &k, &len) != 2 || k != key || len > VALUE_MAX ||
	    fread(value, 1, len + 2, c->in) != len + 2)
		return false;
	value[len] = '\0';
	if (sscanf(value, "%llu:%zu:", &k, &named) != 2 || k != key ||
	    value_of(key, named, want) != len || memcmp(value, want, len))
		return false;
	return fgets(line, sizeof(line), c->in) && !strcmp(line, "END\r\n");
}

static bool reach(struct client *c)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof(at)))
		return false;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->in = fdopen(c->fd, "r");
	return c->in;
}

static void *put_all(void *arg)
{
	struct client *c = arg;

	for (uint64_t k = c->index; k < records; k += c->step)
		c->errors += !put_record(c, k);
	return NULL;
}

static void *run(void *arg)
{
	struct client *c = arg;

	do {
		for (uint64_t i = c->index; i < operations; i += c->step) {
			uint64_t key = choose(c);

			if (next(c) & 1) {
				c->errors += !get_record(c, key);
				c->reads++;
			} else {
				c->errors += !put_record(c, key);
				c->updates++;
			}
		}
	} while (now_ns() < deadline_ns);
	return NULL;
}

static bool all(struct client *clients, unsigned n, void *(*what)(void *))
{
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&clients[i].thread, NULL, what, &clients[i]))
			return false;
	for (unsigned i = 0; i < n; i++)
		pthread_join(clients[i].thread, NULL);
	return true;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	struct client *clients = calloc(n ? n : 1, sizeof(*clients));
	uint64_t reads = 0, updates = 0, errors = 0, begin;
	double took;

	if (argc < 5 || !n || !clients) {
		fprintf(stderr, "usage: kvload PORT CONNECTIONS RECORDS OPERATIONS [SECONDS]\n");
		return 2;
	}
	port = (uint16_t)atoi(argv[1]);
	records = strtoull(argv[3], NULL, 10);
	operations = strtoull(argv[4], NULL, 10);
	seconds = argc > 5 ? atof(argv[5]) : 0;
	prepare_zipf();
	for (unsigned i = 0; i < n; i++) {
		clients[i] = (struct client){.index = i, .step = n, .seed = SEED * (i + 1)};
		if (!reach(&clients[i])) {
			perror("kvload: connect");
			return 1;
		}
	}
	if (!all(clients, n, put_all))
		return 1;
	begin = now_ns();
	deadline_ns = begin + (uint64_t)(seconds * 1e9);
	if (!all(clients, n, run))
		return 1;
	took = (double)(now_ns() - begin) / 1e9;
	for (unsigned i = 0; i < n; i++) {
		reads += clients[i].reads;
		updates += clients[i].updates;
		errors += clients[i].errors;
	}
	printf("{\"reads\": %llu, \"updates\": %llu, \"records\": %llu, \"errors\": %llu, "
	       "\"rate\": %.1f}\n",
	       (unsigned long long)reads, (unsigned long long)updates, (unsigned long long)records,
	       (unsigned long long)errors, (double)(reads + updates) / took);
	return errors != 0;
}
