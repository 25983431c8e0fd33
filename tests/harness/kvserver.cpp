// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A key-value server linked statically with tcmalloc, in the shape of those that ask it too often: one
 * thread a connection, memcached's text protocol (set and get). `kvserver PORT [ask]`: with `ask` each
 * request ends in a look at the memory in use, by charge_memory(). Prints "ready" and, when its standard
 * input ends, "requests N" and exits.
 * LIBS: -l:libtcmalloc_minimal.a
 */
#include <arpa/inet.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gperftools/malloc_extension.h>
#include <mutex>
#include <netinet/tcp.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>

static bool ask;
static std::atomic<unsigned long> requests{0};
static volatile size_t in_use;

__attribute__((noinline, noclone)) static void charge_memory()
{
	size_t v = 0;

	MallocExtension::instance()->GetNumericProperty("generic.current_allocated_bytes", &v);
	in_use = v;
}

struct Shard {
	std::mutex lock;
	std::unordered_map<std::string, std::string> map;
};
static Shard shards[64];

static Shard &shard_of(const std::string &key)
{
	return shards[std::hash<std::string>{}(key) % 64];
}

static bool put(FILE *in, FILE *out, const char *line)
{
	char key[256];
	size_t len;

	if (sscanf(line, "set %255s %*u %*u %zu", key, &len) != 2 || len > 1 << 20)
		return false;
	std::string value(len + 2, '\0');
	if (fread(&value[0], 1, len + 2, in) != len + 2)
		return false;
	value.resize(len);
	Shard &s = shard_of(key);
	{
		std::lock_guard<std::mutex> hold(s.lock);
		s.map[key] = std::move(value);
	}
	fputs("STORED\r\n", out);
	return true;
}

static bool get(FILE *out, const char *line)
{
	char key[256];

	if (sscanf(line, "get %255s", key) != 1)
		return false;
	Shard &s = shard_of(key);
	{
		std::lock_guard<std::mutex> hold(s.lock);
		auto found = s.map.find(key);

		if (found != s.map.end()) {
			fprintf(out, "VALUE %s 0 %zu\r\n", key, found->second.size());
			fwrite(found->second.data(), 1, found->second.size(), out);
			fputs("\r\n", out);
		}
	}
	fputs("END\r\n", out);
	return true;
}

static void serve(int fd)
{
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	char line[512];

	while (in && out && fgets(line, sizeof(line), in)) {
		if (!(line[0] == 's' ? put(in, out, line) : get(out, line)))
			break;
		if (ask)
			charge_memory();
		requests++;
		if (fflush(out))
			break;
	}
	if (in)
		fclose(in);
	if (out)
		fclose(out);
}

static void accept_all(int fd)
{
	for (int one = 1, peer; (peer = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
		setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		std::thread(serve, peer).detach();
	}
}

int main(int argc, char **argv)
{
	sockaddr_in at = {};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	char c;

	if (argc < 2)
		return 2;
	ask = argc > 2 && !strcmp(argv[2], "ask");
	at.sin_family = AF_INET;
	at.sin_port = htons(static_cast<uint16_t>(atoi(argv[1])));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at)) || listen(fd, 64)) {
		perror("kvserver");
		return 1;
	}
	std::thread(accept_all, fd).detach();
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	printf("requests %lu\n", requests.load());
	fflush(stdout);
	_exit(0);
}
