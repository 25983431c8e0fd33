// SPDX-License-Identifier: GPL-2.0-or-later
/* /proc readers: recorded texts for what is rare, this process and its children for the rest. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "target/proc.h"
#include "unit/target/fixture.h"

static void stat_text(void **state)
{
	/* A command with blanks, parentheses and a newline, as prctl() allows it. */
	static const char text[] =
		"4711 (a) R 1 (b\n) S 17 4711 4711 0 -1 4194560 1234 56 7 8 250 125 9 10 20 0 13 0 "
		"987654 1000 10 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n";
	struct sonde_proc_stat s;
	uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	assert_int_equal(sonde_proc_stat_parse(text, &s), 0);
	assert_int_equal(s.pid, 4711);
	assert_int_equal(s.ppid, 17);
	assert_string_equal(s.comm, "a) R 1 (b\n");
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.minflt, 1234);
	assert_int_equal(s.majflt, 7);
	assert_int_equal(s.utime_ns, 250 * tick);
	assert_int_equal(s.stime_ns, 125 * tick);
	assert_int_equal(s.threads, 13);
	assert_int_equal(s.start_ticks, 987654);
	assert_false(s.kernel_thread);
	assert_int_equal(sonde_proc_stat_parse("4711 (a", &s), -EINVAL);
	assert_int_equal(sonde_proc_stat_parse("4711 (a) S 1", &s), -EINVAL);
	assert_int_equal(sonde_proc_stat_parse("", &s), -EINVAL);
}

static void stat_self(void **state)
{
	struct sonde_proc_stat s;

	(void)state;
	assert_int_equal(sonde_proc_stat(getpid(), &s), 0);
	assert_int_equal(s.pid, getpid());
	assert_int_equal(s.ppid, getppid());
	assert_int_equal(s.state, 'R');
	assert_int_equal(s.threads, 1);
	assert_false(s.kernel_thread);
	assert_true(sonde_proc_age_ns(getpid()) > 0);
	assert_int_equal(sonde_proc_stat(0x7ffffff0, &s), -ESRCH);
	/* kthreadd, where this pid namespace is the first. */
	if (!sonde_proc_stat(2, &s) && !strcmp(s.comm, "kthreadd"))
		assert_true(s.kernel_thread);
}

static void mem_text(void **state)
{
	struct sonde_proc_mem m;

	(void)state;
	assert_int_equal(
		sonde_proc_mem_parse("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n"
				     "RssAnon:\t 512 kB\nVmSwap:\t 0 kB\nTHP_enabled:\t1\n",
				     &m),
		0);
	assert_int_equal(m.rss, 1024 * 1024);
	assert_int_equal(m.hwm, 2048 * 1024);
	assert_int_equal(m.rss_anon, 512 * 1024);
	assert_int_equal(m.swap, 0);
	assert_int_equal(m.thp_enabled, 1);
	/* What the kernel does not say is not zero. */
	assert_int_equal(m.rss_file, -1);
	assert_int_equal(m.pte, -1);
}

/* Touching 32 MiB moves every way of reading RSS by at least that. */
static void mem_self(void **state)
{
	const size_t size = 32u << 20;
	struct sonde_proc_mem before, after;
	struct sonde_proc_rollup rollup;
	uint64_t rss0, rss1, took = 0;
	char *p;

	(void)state;
	assert_int_equal(sonde_proc_mem(getpid(), &before), 0);
	assert_int_equal(sonde_proc_rss(getpid(), &rss0), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, size);
	assert_int_equal(sonde_proc_mem(getpid(), &after), 0);
	assert_int_equal(sonde_proc_rss(getpid(), &rss1), 0);
	assert_int_equal(sonde_proc_rollup(getpid(), &rollup, &took), 0);
	/* Counters may lag by a batch of pages per CPU before 6.16. */
	assert_true(after.rss_anon - before.rss_anon >= (int64_t)size - (1 << 20));
	assert_true(rss1 - rss0 >= size - (1 << 20));
	assert_true(rollup.anonymous >= (int64_t)size);
	assert_true(rollup.rss >= rollup.anonymous);
	assert_true(took > 0);
	munmap(p, size);
	assert_int_equal(sonde_proc_mem(0x7ffffff0, &after), -ESRCH);
	assert_int_equal(sonde_proc_rss(0x7ffffff0, &rss1), -ESRCH);
}

static void *wait_for(void *fd)
{
	char c;

	if (read(*(int *)fd, &c, 1))
		return NULL;
	return NULL;
}

static void threads(void **state)
{
	sonde_autofree pid_t *tids = NULL;
	pthread_t t[3];
	int p[2];
	size_t n;

	(void)state;
	assert_int_equal(pipe(p), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, wait_for, &p[0]), 0);
	assert_int_equal(sonde_proc_threads(getpid(), &tids, &n), 0);
	assert_int_equal(n, 4);
	for (size_t i = 1; i < n; i++)
		assert_true(tids[i - 1] < tids[i]);
	close(p[1]);
	for (size_t i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	close(p[0]);
}

static void fork_below(void *ctx)
{
	pid_t *below = ctx;

	*below = fx_child(NULL, NULL);
}

static void descendants(void **state)
{
	pid_t *below = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sonde_autofree pid_t *pids = NULL;
	pid_t child = fx_child(fork_below, below);
	size_t n;

	(void)state;
	assert_int_equal(sonde_proc_descendants(getpid(), &pids, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(pids[0] + pids[1], child + *below);
	free(SONDE_TAKE(pids));
	assert_int_equal(sonde_proc_descendants(child, &pids, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], *below);
	kill(*below, SIGKILL);
	fx_stop(child);
	munmap(below, 4096);
}

static const struct sonde_proc_sock *by_fd(const struct sonde_proc_sock *s, size_t n, int fd)
{
	for (size_t i = 0; i < n; i++)
		if (s[i].fd == fd)
			return &s[i];
	fail_msg("descriptor %d was not found", fd);
	return NULL;
}

static void tcp_sockets(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static const uint8_t loopback[] = {127, 0, 0, 1};
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), s;
	sonde_autofree struct sonde_proc_sock *list = NULL;
	const struct sonde_proc_sock *ls, *cs, *ss;
	socklen_t len = sizeof(a);
	size_t n;

	(void)state;
	assert_int_equal(bind(l, (void *)&a, sizeof(a)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (void *)&a, &len), 0);
	assert_int_equal(connect(c, (void *)&a, sizeof(a)), 0);
	s = accept(l, NULL, NULL);
	assert_true(s >= 0);
	assert_int_equal(sonde_proc_sockets(getpid(), &list, &n), 0);
	ls = by_fd(list, n, l);
	cs = by_fd(list, n, c);
	ss = by_fd(list, n, s);
	assert_true(ls->listening && !ls->connected && ls->family == AF_INET);
	assert_int_equal(ls->local_port, ntohs(a.sin_port));
	assert_memory_equal(ls->local, loopback, 4);
	assert_true(cs->connected && ss->connected && !cs->listening);
	assert_int_equal(cs->peer_port, ls->local_port);
	assert_int_equal(ss->peer_port, cs->local_port);
	assert_int_equal(ss->local_port, ls->local_port);
	close(s);
	close(c);
	close(l);
}

static void unix_sockets(void **state)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	sonde_autofree struct sonde_proc_sock *list = NULL;
	int l = socket(AF_UNIX, SOCK_STREAM, 0), dup_fd, pair[2];
	size_t n;

	(void)state;
	fx_path(a.sun_path, sizeof(a.sun_path), "a socket");
	assert_int_equal(bind(l, (void *)&a, sizeof(a)), 0);
	assert_int_equal(listen(l, 1), 0);
	dup_fd = dup(l);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(sonde_proc_sockets(getpid(), &list, &n), 0);
	assert_true(by_fd(list, n, l)->listening);
	assert_string_equal(by_fd(list, n, l)->path, a.sun_path);
	assert_true(by_fd(list, n, dup_fd)->listening);
	assert_true(by_fd(list, n, pair[0])->connected);
	assert_int_equal(by_fd(list, n, pair[1])->family, AF_UNIX);
	for (size_t i = 1; i < n; i++)
		assert_true(list[i - 1].fd < list[i].fd);
	close(l);
	close(dup_fd);
	close(pair[0]);
	close(pair[1]);
}

static void tcp6_text(void **state)
{
	static const char text[] = "  sl  local_address                         remote_address     "
				   "                   st\n"
				   "   0: 00000000000000000000000001000000:0CEA "
				   "00000000000000000000000000000000:0000 0A "
				   "00000000:00000000 00:00000000 00000000     0        0 77 1 "
				   "0000000000000000 100 0 0 "
				   "10 0\n";
	struct sonde_proc_sock s[2] = {{.fd = 9, .inode = 77}, {.fd = 3, .inode = 5}};
	static const uint8_t loopback6[16] = {[15] = 1};

	(void)state;
	assert_int_equal(sonde_proc_sockets_join(s, 2, "tcp6", text), 0);
	assert_int_equal(s[0].fd, 3);
	assert_int_equal(s[0].family, 0);
	assert_int_equal(s[1].fd, 9);
	assert_true(s[1].listening);
	assert_int_equal(s[1].local_port, 3306);
	assert_memory_equal(s[1].local, loopback6, 16);
}

static void environment(void **state)
{
	pid_t pid;
	char path[128], buf[32];

	(void)state;
	fx_compile("env", "", FX_READY_MAIN);
	pid = fx_spawn(fx_path(path, sizeof(path), "env"), "MALLOC_CONF=narenas:2");
	assert_int_equal(sonde_proc_env(pid, "MALLOC_CONF", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "narenas:2");
	assert_int_equal(sonde_proc_env(pid, "MALLOC", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(sonde_proc_env(pid, "PATH", buf, sizeof(buf)), -ENOENT);
	fx_stop(pid);
}

/* Between two readings of our own clock, to the ns. */
static void cpu_is_the_clock(void **state)
{
	struct timespec before, after;
	uint64_t ns;

	(void)state;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	assert_int_equal(sonde_proc_cpu(getpid(), &ns), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	assert_true((uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec <= ns);
	assert_true((uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec >= ns);
}

/* Far less than a tick; a process that has exited is read until it is waited for. */
static void cpu_of_a_zombie(void **state)
{
	pid_t pid = fork();
	siginfo_t info;
	uint64_t ns = 0;

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(sonde_proc_cpu(pid, &ns), 0);
	assert_true(ns > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sonde_proc_cpu(pid, &ns), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_text),	   cmocka_unit_test(cpu_is_the_clock),
		cmocka_unit_test(cpu_of_a_zombie), cmocka_unit_test(stat_self),
		cmocka_unit_test(mem_text),	   cmocka_unit_test(mem_self),
		cmocka_unit_test(threads),	   cmocka_unit_test(descendants),
		cmocka_unit_test(tcp_sockets),	   cmocka_unit_test(unix_sockets),
		cmocka_unit_test(tcp6_text),	   cmocka_unit_test(environment),
	};

	return cmocka_run_group_tests(tests, fx_open, fx_close);
}
