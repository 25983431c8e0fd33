// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stands where the log daemon stands, on a machine that has none: binds /dev/log, prints "ready", then
 * each message as a line, and removes the socket at the end (SIGTERM, or stdin closed). Exit status 3
 * if somebody is there already.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct sockaddr_un where = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};

static void on_term(int sig)
{
	(void)sig;
	unlink(where.sun_path);
	_exit(0);
}

int main(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
	char line[4096];

	if (bind(fd, (const struct sockaddr *)&where, sizeof(where)))
		return errno == EADDRINUSE ? 3 : 1;
	signal(SIGTERM, on_term);
	puts("ready");
	fflush(stdout);
	while (poll(p, 2, -1) > 0) {
		if (p[0].revents) {
			ssize_t n = recv(fd, line, sizeof(line) - 1, 0);

			printf("%.*s\n", n > 0 ? (int)n : 0, line);
			fflush(stdout);
		} else if (p[1].revents && read(0, line, sizeof(line)) <= 0) {
			break;
		}
	}
	unlink(where.sun_path);
	return 0;
}
