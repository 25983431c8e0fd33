// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A bounded load for searchd: N connections, one thread each, SphinxQL and SphinxAPI over TCP and
 * unix sockets, queries drawn from a seed. Closed loop by default; with --rate an open loop, whose
 * latencies count from when a query was due, so that a stalled server cannot hide the queries it
 * held up. Invariant: every query asked for is either counted as sent or reported as not sent.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <fcntl.h>

#include "harness/queries.h"

#define MAX_CONNECTIONS 256
#define MAX_ENDPOINTS	8
#define MAX_SECONDS	3600
#define MAX_QUERIES	20000000

struct endpoint {
	const char *where;
	bool api;
};

static struct {
	struct endpoint endpoint[MAX_ENDPOINTS];
	unsigned endpoints;
	uint64_t connections, queries, seconds, rate, seed, vocabulary;
	enum mix mix;
	const char *out, *words, *index, *ready, *gate;
} opt = {
	.connections = 4,
	.seed = 1,
	.vocabulary = WORDS_DEFAULT_COUNT,
	.words = WORDS_DEFAULT_FILE,
	.index = "docs",
};

/* What --out tells of one query. */
struct record {
	uint64_t due_ns, send_ns, first_ns, last_ns, hash;
	uint32_t bytes_out, bytes_in;
	uint8_t status;
};

struct connection {
	pthread_t thread;
	unsigned number;
	const struct endpoint *to;
	struct wire wire;
	struct asker asker;
	uint64_t quota; /* queries to send, UINT64_MAX: until the time is over */
	uint64_t sent, count[WIRE_BROKEN + 1];
	uint64_t *latency_ns; /* one a sent query */
	struct record *record;
	size_t room;
	char why[256]; /* of the first failure */
};

static struct words words;
static struct connection conns[MAX_CONNECTIONS];
static pthread_barrier_t connected, started;
static uint64_t start_ns;
static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* FNV-1a over the request as a server sees it: after the command byte, or after the 8-byte header.
 */
static uint64_t hash_request(const struct connection *c, const struct wire_out *o)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = c->to->api ? 8 : 5; i < o->n; i++)
		h = (h ^ o->b[i]) * 0x100000001b3ull;
	return h;
}

/* ---- one connection ---- */

static bool grow(struct connection *c)
{
	if (c->sent < c->room)
		return true;
	c->room = c->room ? c->room * 2 : 4096;
	c->latency_ns = realloc(c->latency_ns, c->room * sizeof(*c->latency_ns));
	if (opt.out)
		c->record = realloc(c->record, c->room * sizeof(*c->record));
	return c->latency_ns && (!opt.out || c->record);
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
			     .tv_nsec = (long)(ns % 1000000000u)};

	while (!stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* When this connection's next query is due: connections share the rate, evenly staggered. */
static uint64_t due_ns(const struct connection *c)
{
	double step = 1e9 / (double)opt.rate;

	return start_ns +
	       (uint64_t)(step * ((double)c->sent * (double)opt.connections + c->number));
}

static enum wire_status ask(struct connection *c, const struct wire_out *o, struct record *r)
{
	enum wire_status st = WIRE_BROKEN;

	r->due_ns = r->send_ns = wire_now();
	if (!wire_send(&c->wire, o))
		st = c->to->api ? api_answer(&c->wire, c->why, sizeof(c->why))
				: mysql_answer(&c->wire, c->why, sizeof(c->why));
	r->first_ns = c->wire.first_ns;
	r->last_ns = c->wire.last_ns;
	r->bytes_in = (uint32_t)c->wire.bytes_in;
	r->bytes_out = (uint32_t)o->n;
	r->status = st;
	return st;
}

/* One query; false when the connection is of no more use. */
static bool query(struct connection *c)
{
	static _Thread_local struct wire_out o;
	uint64_t due = opt.rate ? due_ns(c) : 0;
	struct record r = {0};
	enum wire_status st;

	make_query(&c->asker, c->sent + 1, &o);
	if (!grow(c))
		return false;
	if (opt.rate)
		sleep_until(due);
	if (stop || (opt.seconds && wire_now() - start_ns >= opt.seconds * 1000000000u))
		return false;
	st = ask(c, &o, &r);
	if (opt.rate)
		r.due_ns = due;
	if (opt.out) {
		r.hash = hash_request(c, &o);
		c->record[c->sent] = r;
	}
	c->latency_ns[c->sent++] = r.last_ns > r.due_ns ? r.last_ns - r.due_ns : 0;
	c->count[st]++;
	if (st == WIRE_BROKEN)
		snprintf(c->why, sizeof(c->why), "connection lost: %s", strerror(errno));
	return st != WIRE_BROKEN;
}

static void *run(void *arg)
{
	struct connection *c = arg;
	int err = wire_connect(&c->wire, c->to->where);

	if (!err)
		err = c->to->api ? api_login(&c->wire) : mysql_login(&c->wire);
	if (err) {
		c->count[WIRE_BROKEN]++;
		snprintf(c->why, sizeof(c->why), "cannot connect to %s: %s", c->to->where,
			 strerror(-err));
	}
	pthread_barrier_wait(&connected);
	pthread_barrier_wait(&started);
	while (!err && !stop && c->sent < c->quota && query(c))
		;
	if (c->wire.fd >= 0)
		close(c->wire.fd);
	return NULL;
}

/* ---- all of them ---- */

static int start_all(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	pthread_barrier_init(&connected, NULL, (unsigned)opt.connections + 1);
	pthread_barrier_init(&started, NULL, (unsigned)opt.connections + 1);
	for (unsigned i = 0; i < opt.connections; i++) {
		struct connection *c = &conns[i];

		c->number = i;
		c->to = &opt.endpoint[i % opt.endpoints];
		c->asker = (struct asker){.words = &words,
					  .mix = opt.mix,
					  .index = opt.index,
					  .api = c->to->api,
					  .seed = opt.seed,
					  .connection = i,
					  .rng = {opt.seed * 1000003 + i}};
		c->quota = opt.queries ? opt.queries / opt.connections +
						 (i < opt.queries % opt.connections)
				       : UINT64_MAX;
		if (pthread_create(&c->thread, &attr, run, c))
			return -EAGAIN;
	}
	return 0;
}

/* Tell that all connections stand, and wait for the gate: both by state, for scripts. */
static int hold_at_gate(void)
{
	int fd;
	char b;

	if (opt.ready) {
		fd = open(opt.ready, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0 || dprintf(fd, "ready\n") < 0)
			return -errno;
		close(fd);
	}
	if (opt.gate) {
		fd = open(opt.gate, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		while (read(fd, &b, 1) > 0)
			;
		close(fd);
	}
	return 0;
}

static int write_records(void)
{
	FILE *f = fopen(opt.out, "w");

	if (!f)
		return -errno;
	fprintf(f,
		"port\tseq\tsend_ns\tfirst_ns\tlast_ns\tstatus\tproto\thash\tbytes\tdue_ns\tconn\t"
		"bytes_in\n");
	for (unsigned i = 0; i < opt.connections; i++) {
		const struct connection *c = &conns[i];

		for (uint64_t q = 0; q < c->sent; q++) {
			const struct record *r = &c->record[q];

			fprintf(f, "%u\t%lu\t%lu\t%lu\t%lu\t%s\t%s\t%016lx\t%u\t%lu\t%u\t%u\n",
				c->wire.port, q + 1, r->send_ns, r->first_ns, r->last_ns,
				wire_status_name[r->status], c->to->api ? "sphinxapi" : "sphinxql",
				r->hash, r->bytes_out, r->due_ns, i, r->bytes_in);
		}
	}
	if (ferror(f) | fclose(f))
		return -EIO;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Nearest rank, in us. */
static double quantile(const uint64_t *ns, uint64_t n, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)n);

	return n ? (double)ns[rank ? rank - 1 : 0] / 1e3 : 0;
}

struct total {
	uint64_t sent, count[WIRE_BROKEN + 1], *ns;
	double sum_ns;
};

static void add_up(struct total *t)
{
	uint64_t at = 0;

	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < opt.connections; i++) {
		t->sent += conns[i].sent;
		for (int s = 0; s <= WIRE_BROKEN; s++)
			t->count[s] += conns[i].count[s];
	}
	t->ns = malloc((t->sent + 1) * sizeof(*t->ns));
	if (!t->ns)
		abort();
	for (unsigned i = 0; i < opt.connections; i++)
		for (uint64_t q = 0; q < conns[i].sent; q++)
			t->sum_ns += (double)(t->ns[at++] = conns[i].latency_ns[q]);
	qsort(t->ns, t->sent, sizeof(*t->ns), by_value);
}

/* The summary; 1 when a query failed, or was not sent though nobody stopped us. */
static int summarise(double seconds)
{
	struct total t;
	uint64_t errors, unsent;

	add_up(&t);
	errors = t.count[WIRE_ERROR] + t.count[WIRE_RETRY] + t.count[WIRE_BROKEN];
	unsent = opt.queries > t.sent && !opt.seconds ? opt.queries - t.sent : 0;
	printf("{\"sent\":%lu,\"ok\":%lu,\"errors\":%lu,\"warnings\":%lu,\"unsent\":%lu,"
	       "\"connections\":%lu,\"mix\":\"%s\",\"seed\":%lu,\"loop\":\"%s\",\"seconds\":%.3f,"
	       "\"rate\":%.1f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p95_us\":%.1f,\"p99_us\":%.1f,"
	       "\"max_us\":%.1f}\n",
	       t.sent, t.count[WIRE_OK], errors, t.count[WIRE_WARNING], unsent, opt.connections,
	       mix_name[opt.mix], opt.seed, opt.rate ? "open" : "closed", seconds,
	       seconds > 0 ? (double)t.sent / seconds : 0,
	       t.sent ? t.sum_ns / (double)t.sent / 1e3 : 0, quantile(t.ns, t.sent, 0.5),
	       quantile(t.ns, t.sent, 0.95), quantile(t.ns, t.sent, 0.99),
	       quantile(t.ns, t.sent, 1));
	for (unsigned i = 0; i < opt.connections; i++)
		if (conns[i].why[0])
			fprintf(stderr, "searchload: connection %u: %s\n", i, conns[i].why);
	free(t.ns);
	return errors || (unsent && !stop);
}

/* ---- command line ---- */

static const char usage_text[] =
	"usage: searchload (--sphinxql WHERE | --api WHERE)... [options]\n"
	"WHERE is ADDRESS:PORT or the path of a unix socket; connections take turns over them.\n"
	"  --connections N   threads, one connection each (4)\n"
	"  --queries N       send exactly N   --seconds S   or stop after S (default: 1000 "
	"queries)\n"
	"  --rate R          open loop: R queries a second, latency from the due time\n"
	"  --mix NAME        light, mixed, heavy, insert, deep (light)\n"
	"  --index NAME      (docs)   --seed N (1)   --words FILE   --vocabulary N\n"
	"  --out FILE        a line a query, tab-separated, times CLOCK_MONOTONIC ns\n"
	"  --ready FILE      written when all connections stand\n"
	"  --gate FIFO       first query only when the FIFO's writer closed it\n"
	"The summary is one JSON object on stdout. Exit 1 if any query failed.\n";

enum {
	O_QL = 256,
	O_API,
	O_CONNS,
	O_QUERIES,
	O_SECONDS,
	O_RATE,
	O_MIX,
	O_INDEX,
	O_SEED,
	O_WORDS,
	O_VOCABULARY,
	O_OUT,
	O_READY,
	O_GATE
};

static const struct option options[] = {
	{"sphinxql", 1, NULL, O_QL},
	{"api", 1, NULL, O_API},
	{"connections", 1, NULL, O_CONNS},
	{"queries", 1, NULL, O_QUERIES},
	{"seconds", 1, NULL, O_SECONDS},
	{"rate", 1, NULL, O_RATE},
	{"mix", 1, NULL, O_MIX},
	{"index", 1, NULL, O_INDEX},
	{"seed", 1, NULL, O_SEED},
	{"words", 1, NULL, O_WORDS},
	{"vocabulary", 1, NULL, O_VOCABULARY},
	{"out", 1, NULL, O_OUT},
	{"ready", 1, NULL, O_READY},
	{"gate", 1, NULL, O_GATE},
	{NULL, 0, NULL, 0},
};

static bool number(const char *s, uint64_t low, uint64_t high, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	return !errno && *s >= '0' && *s <= '9' && !*end && *out >= low && *out <= high;
}

static bool set_endpoint(const char *where, bool api)
{
	if (opt.endpoints == MAX_ENDPOINTS)
		return false;
	opt.endpoint[opt.endpoints++] = (struct endpoint){where, api};
	return true;
}

static bool set_mix(const char *name)
{
	for (int i = 0; i < MIX_COUNT; i++)
		if (!strcmp(name, mix_name[i])) {
			opt.mix = (enum mix)i;
			return true;
		}
	return false;
}

static bool set_text(int o, const char *v)
{
	const char **to[] = {[O_INDEX - O_INDEX] = &opt.index,
			     [O_WORDS - O_INDEX] = &opt.words,
			     [O_OUT - O_INDEX] = &opt.out,
			     [O_READY - O_INDEX] = &opt.ready,
			     [O_GATE - O_INDEX] = &opt.gate};

	if (o < O_INDEX || o > O_GATE || !to[o - O_INDEX])
		return false;
	*to[o - O_INDEX] = v;
	return true;
}

static bool set(int o, const char *v)
{
	switch (o) {
	case O_QL:
	case O_API:
		return set_endpoint(v, o == O_API);
	case O_CONNS:
		return number(v, 1, MAX_CONNECTIONS, &opt.connections);
	case O_QUERIES:
		return number(v, 1, MAX_QUERIES, &opt.queries);
	case O_SECONDS:
		return number(v, 1, MAX_SECONDS, &opt.seconds);
	case O_RATE:
		return number(v, 1, 1000000, &opt.rate);
	case O_SEED:
		return number(v, 0, UINT64_MAX, &opt.seed);
	case O_VOCABULARY:
		return number(v, 1000, 10000000, &opt.vocabulary);
	case O_MIX:
		return set_mix(v);
	default:
		return set_text(o, v);
	}
}

static bool parse(int argc, char **argv)
{
	bool good = true;
	int o;

	while (good && (o = getopt_long(argc, argv, "", options, NULL)) != -1)
		good = o != '?' && set(o, optarg);
	if (!opt.queries && !opt.seconds)
		opt.queries = 1000;
	for (unsigned i = 0; i < opt.endpoints; i++)
		if (opt.endpoint[i].api && opt.mix == MIX_INSERT)
			good = false; /* SphinxAPI cannot insert */
	return good && optind == argc && opt.endpoints;
}

static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

int main(int argc, char **argv)
{
	int err, status;

	if (!parse(argc, argv)) {
		fputs(usage_text, stderr);
		return 2;
	}
	err = words_load(&words, opt.words, opt.vocabulary);
	if (err) {
		fprintf(stderr, "searchload: cannot use %s: %s; install wamerican\n", opt.words,
			strerror(-err));
		return 1;
	}
	catch_signals();
	err = start_all();
	if (!err) {
		pthread_barrier_wait(&connected);
		err = hold_at_gate();
		start_ns = wire_now();
		pthread_barrier_wait(&started);
	}
	if (err) {
		fprintf(stderr, "searchload: cannot start: %s\n", strerror(-err));
		return 1;
	}
	for (unsigned i = 0; i < opt.connections; i++)
		pthread_join(conns[i].thread, NULL);
	status = summarise((double)(wire_now() - start_ns) / 1e9);
	err = opt.out ? write_records() : 0;
	if (err)
		fprintf(stderr, "searchload: cannot write %s: %s\n", opt.out, strerror(-err));
	return err ? 1 : status;
}
