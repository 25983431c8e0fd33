// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sockets of a process: its descriptors joined with the tables of its own network namespace by
 * inode. Both change while they are read; a socket that only one side has is left out or stays
 * unmatched.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "target/proc.h"

#define TCP_STATE_ESTABLISHED 1 /* net/ipv4/tcp_states.h */
#define TCP_STATE_LISTEN      10
#define UNIX_FLAG_LISTENING   0x10000 /* __SO_ACCEPTCON, net/unix/af_unix.c prints it */
#define UNIX_STATE_CONNECTED  3	      /* SS_CONNECTED */

struct socks {
	struct sonde_proc_sock *s;
	size_t n, cap;
};

static int add_fd(struct socks *list, int dir, const char *fd)
{
	struct sonde_proc_sock sock = {0};
	char link[64];
	ssize_t n = readlinkat(dir, fd, link, sizeof(link) - 1);
	uint64_t number;
	int err;

	if (n <= 0 || sonde_parse_u64(fd, &number))
		return 0;
	link[n] = '\0';
	if (sscanf(link, "socket:[%" SCNu64 "]", &sock.inode) != 1)
		return 0;
	sock.fd = (int)number;
	err = SONDE_GROW(list->s, list->n, list->cap);
	if (!err)
		list->s[list->n++] = sock;
	return err;
}

static int read_fds(pid_t pid, struct socks *list)
{
	sonde_autoclosedir DIR *dir = NULL;
	struct dirent *entry;
	char path[64];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = add_fd(list, dirfd(dir), entry->d_name);
	return err;
}

/* "0100007F" or 32 digits: words as they lie in memory, so the bytes come out in network order. */
static bool parse_address(const char *hex, uint8_t out[16])
{
	size_t words = strlen(hex) / 8;

	if (strlen(hex) % 8 || words < 1 || words > 4)
		return false;
	memset(out, 0, 16);
	for (size_t i = 0; i < words; i++) {
		uint32_t word;

		if (sscanf(hex + 8 * i, "%8" SCNx32, &word) != 1)
			return false;
		memcpy(out + 4 * i, &word, 4);
	}
	return true;
}

/* One row of net/tcp or net/tcp6. */
static bool parse_tcp(const char *line, uint16_t family, struct sonde_proc_sock *out)
{
	char local[33], peer[33];
	struct sonde_proc_sock s = {.family = family};
	unsigned state;

	if (sscanf(line,
		   " %*[0-9]: %32[0-9A-F]:%4" SCNx16 " %32[0-9A-F]:%4" SCNx16
		   " %x %*s %*s %*s %*s %*s %" SCNu64,
		   local, &s.local_port, peer, &s.peer_port, &state, &s.inode) != 6 ||
	    !parse_address(local, s.local) || !parse_address(peer, s.peer))
		return false;
	s.listening = state == TCP_STATE_LISTEN;
	s.connected = state == TCP_STATE_ESTABLISHED;
	*out = s;
	return true;
}

/* One row of net/unix: "Num: RefCount Protocol Flags Type St Inode Path". */
static bool parse_unix(const char *line, uint16_t family, struct sonde_proc_sock *out)
{
	struct sonde_proc_sock s = {.family = family};
	unsigned flags, state;
	int path = 0;

	if (sscanf(line, " %*[0-9a-fA-F]: %*x %*x %x %*x %x %" SCNu64 "%n", &flags, &state,
		   &s.inode, &path) != 3)
		return false;
	s.listening = flags & UNIX_FLAG_LISTENING;
	s.connected = state == UNIX_STATE_CONNECTED;
	if (s.listening && line[path] == ' ')
		snprintf(s.path, sizeof(s.path), "%.*s", (int)strcspn(line + path + 1, "\n"),
			 line + path + 1);
	*out = s;
	return true;
}

static const struct table {
	const char *file;
	uint16_t family;
	bool (*parse)(const char *line, uint16_t family, struct sonde_proc_sock *out);
} tables[] = {
	{"tcp", AF_INET, parse_tcp},
	{"tcp6", AF_INET6, parse_tcp},
	{"unix", AF_UNIX, parse_unix},
};

static int by_inode(const void *a, const void *b)
{
	const struct sonde_proc_sock *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static int by_fd(const void *a, const void *b)
{
	return ((const struct sonde_proc_sock *)a)->fd - ((const struct sonde_proc_sock *)b)->fd;
}

/* A socket may stand behind several descriptors: fill every one that has the row's inode. */
static void fill_matching(struct socks *list, const struct sonde_proc_sock *row)
{
	struct sonde_proc_sock *s = bsearch(row, list->s, list->n, sizeof(*s), by_inode);

	if (!s)
		return;
	while (s > list->s && s[-1].inode == row->inode)
		s--;
	for (; s < list->s + list->n && s->inode == row->inode; s++) {
		int fd = s->fd;

		*s = *row;
		s->fd = fd;
	}
}

static void join_table(struct socks *list, const struct table *table, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		struct sonde_proc_sock row;
		char line[512];

		snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : 511), text);
		if (table->parse(line, table->family, &row))
			fill_matching(list, &row);
		text += len + (text[len] == '\n');
	}
}

int sonde_proc_sockets_join(struct sonde_proc_sock *socks, size_t n, const char *file,
			    const char *text)
{
	struct socks list = {.s = socks, .n = n};

	if (!n)
		return 0;
	qsort(socks, n, sizeof(*socks), by_inode);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(tables); i++)
		if (!strcmp(tables[i].file, file))
			join_table(&list, &tables[i], text);
	qsort(socks, n, sizeof(*socks), by_fd);
	return 0;
}

int sonde_proc_sockets(pid_t pid, struct sonde_proc_sock **out, size_t *n)
{
	struct socks list = {0};
	int err = read_fds(pid, &list);

	for (size_t i = 0; !err && list.n && i < SONDE_ARRAY_SIZE(tables); i++) {
		sonde_autofree char *text = NULL;

		/* A kernel without IPv6 has no tcp6. */
		if (!sonde_read_filef(&text, NULL, "/proc/%d/net/%s", pid, tables[i].file))
			sonde_proc_sockets_join(list.s, list.n, tables[i].file, text);
	}
	if (err) {
		free(list.s);
		return err;
	}
	*out = list.s;
	*n = list.n;
	return 0;
}
