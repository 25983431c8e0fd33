// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Asks a MySQL server the same thing on several connections at once, and waits for each answer.
 *
 *   anatomyask PORT CONNECTIONS TIMES TEXT [PAUSE]
 *
 * PAUSE: ms between an answer and the next question, in which the server's threads go to sleep.
 * A TEXT with "forget" in it is not answered: it is asked once a connection, which is then closed.
 */
#include <pthread.h>
#include <time.h>

#include "wire.h"

#define MAX_CONNS 256

static void die(const char *what)
{
	perror(what);
	exit(1);
}

struct asker {
	char where[32];
	const char *text;
	unsigned times, pause_ms;
	pthread_t thread;
};

static void rest(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	if (ms)
		nanosleep(&t, NULL);
}

static void *ask_many(void *arg)
{
	struct asker *a = arg;
	struct wire *w = calloc(1, sizeof(*w));
	struct wire_out o;
	char why[512];

	if (!w || wire_socket(a->where, &w->fd) || mysql_login(w))
		die("login");
	for (unsigned i = 0; i < a->times; i++) {
		mysql_query(&o, a->text);
		if (send(w->fd, o.b, o.n, MSG_NOSIGNAL) != (ssize_t)o.n)
			die("send");
		if (strstr(a->text, "forget"))
			break;
		if (mysql_answer(w, why, sizeof(why)) != WIRE_OK) {
			fprintf(stderr, "no answer: %s\n", why);
			exit(1);
		}
		rest(a->pause_ms);
	}
	close(w->fd);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct asker askers[MAX_CONNS];
	unsigned n;

	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: anatomyask PORT CONNECTIONS TIMES TEXT [PAUSE]\n");
		return 2;
	}
	n = (unsigned)atoi(argv[2]);

	for (unsigned i = 0; i < n && i < MAX_CONNS; i++) {
		snprintf(askers[i].where, sizeof(askers[i].where), "127.0.0.1:%s", argv[1]);
		askers[i].times = (unsigned)atoi(argv[3]);
		askers[i].text = argv[4];
		askers[i].pause_ms = argc == 6 ? (unsigned)atoi(argv[5]) : 0;
		if (pthread_create(&askers[i].thread, NULL, ask_many, &askers[i]))
			die("pthread_create");
	}
	for (unsigned i = 0; i < n && i < MAX_CONNS; i++)
		pthread_join(askers[i].thread, NULL);
	return 0;
}
