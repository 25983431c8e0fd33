/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client of tests/harness/handlerwork.cpp, and what both sides know of its protocol: a header, and
 * as many bytes as it says. Invariant: a query is sent only when the one before was answered.
 */
#ifndef HARNESS_HANDLERCLIENT_H
#define HARNESS_HANDLERCLIENT_H

#include <arpa/inet.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t magic = 0xf4f3f2f1;
static std::atomic<uint64_t> answered;

struct header {
	uint32_t magic, len;
};

[[noreturn]] static void die(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned own_port(int fd)
{
	struct sockaddr_in a = {};
	socklen_t len = sizeof(a);

	getsockname(fd, (struct sockaddr *)&a, &len);
	return ntohs(a.sin_port);
}

static void ask(unsigned port, unsigned from, unsigned step, unsigned n, const std::string &text)
{
	struct sockaddr_in a = {};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char reply[sizeof(header) + 9];

	a.sin_family = AF_INET;
	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (unsigned i = from; i < n; i += step) {
		std::string q = text + " " + std::to_string(own_port(fd)) + " " + std::to_string(i);
		header h = {magic, (uint32_t)q.size()};
		std::string out = std::string((char *)&h, sizeof(h)) + q;

		if (send(fd, out.data(), out.size(), MSG_NOSIGNAL) != (ssize_t)out.size() ||
		    recv(fd, reply, sizeof(reply), MSG_WAITALL) != (ssize_t)sizeof(reply))
			die("query");
		answered++;
	}
	close(fd);
}

#endif
