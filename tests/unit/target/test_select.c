// SPDX-License-Identifier: GPL-2.0-or-later
/* Choosing targets: families of processes made for the purpose, with names that nobody else has. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "core/log.h"
#include "target/allocator.h"
#include "target/daemon.h"
#include "target/target.h"
#include "unit/target/fixture.h"

/* Pids of a family that children fill in; shared memory. */
static struct family {
	pid_t watchdog, server, worker, helper;
} * fam;

static void set_name(void)
{
	prctl(PR_SET_NAME, "fxdaemon");
}

static int do_listen(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (void *)&a, sizeof(a)) || listen(fd, 8))
		exit(1);
	return fd;
}

/* Enough that the clock of the process, 10 ms coarse, shows it. */
static void work(void)
{
	struct timespec ts;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	while (ts.tv_nsec < 60000000);
}

static void be_named(void *ctx)
{
	(void)ctx;
	set_name();
}

static void be_server(void *ctx)
{
	(void)ctx;
	set_name();
	do_listen();
}

/* searchd: a parent that waits, a child that listens. */
static void be_watchdog(void *ctx)
{
	(void)ctx;
	set_name();
	fam->server = fx_child(be_server, NULL);
}

/* A server that has worked, and the child that it forked for one connection. */
static void be_forking(void *ctx)
{
	(void)ctx;
	set_name();
	do_listen();
	work();
	fam->worker = fx_child(be_named, NULL);
}

static void be_working(void *ctx)
{
	(void)ctx;
	set_name();
	work();
}

/* A manager that opens the sockets, and the child that serves on them. */
static void be_manager(void *ctx)
{
	(void)ctx;
	set_name();
	do_listen();
	fam->worker = fx_child(be_working, NULL);
}

/* nginx: a master and workers that all hold the listening socket. */
static void be_master(void *ctx)
{
	(void)ctx;
	set_name();
	do_listen();
	fam->worker = fx_child(be_named, NULL);
	fam->helper = fx_child(be_named, NULL);
}

static int select_by(struct sonde_target_query q, struct sonde_target_list *list)
{
	*list = (struct sonde_target_list){0};
	return sonde_target_select(&q, list);
}

static pid_t only_by_name(const char *name)
{
	struct sonde_target_list list;
	pid_t pid;

	assert_int_equal(select_by((struct sonde_target_query){.name = name}, &list), 0);
	assert_int_equal(list.n, 1);
	pid = list.t[0].pid;
	assert_true(sonde_target_alive(&list.t[0]));
	sonde_target_list_fini(&list);
	return pid;
}

static void stop_family(pid_t top)
{
	pid_t below[] = {fam->server, fam->worker, fam->helper};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(below); i++)
		if (below[i])
			kill(below[i], SIGKILL);
	fx_stop(top);
	memset(fam, 0, sizeof(*fam));
}

static void the_one_that_serves(void **state)
{
	pid_t top = fx_child(be_watchdog, NULL);

	(void)state;
	assert_int_equal(only_by_name("fxdaemon"), fam->server);
	stop_family(top);
	top = fx_child(be_manager, NULL);
	assert_int_equal(only_by_name("fxdaemon"), fam->worker);
	stop_family(top);
	top = fx_child(be_forking, NULL);
	assert_int_equal(only_by_name("fxdaemon"), top);
	stop_family(top);
	top = fx_child(be_master, NULL);
	assert_int_equal(only_by_name("fxdaemon"), top);
	stop_family(top);
}

static void independent(void **state)
{
	pid_t a = fx_child(be_server, NULL), b = fx_child(be_server, NULL);
	struct sonde_target_list list;

	(void)state;
	assert_int_equal(select_by((struct sonde_target_query){.name = "fxdaemon"}, &list),
			 -EINVAL);
	fx_stop(b);
	assert_int_equal(only_by_name("fxdaemon"), a);
	fx_stop(a);
	assert_int_equal(select_by((struct sonde_target_query){.name = "fxdaemon"}, &list), -ESRCH);
	/* A beginning of a name is not the name. */
	a = fx_child(be_server, NULL);
	assert_int_equal(select_by((struct sonde_target_query){.name = "fxdaemo"}, &list), -ESRCH);
	assert_int_equal(select_by((struct sonde_target_query){.name = "fxdaemons"}, &list),
			 -ESRCH);
	fx_stop(a);
}

static void by_file_name(void **state)
{
	char path[128];
	pid_t pid;

	(void)state;
	fx_compile("fx-a-name-longer-than-comm", "", FX_READY_MAIN);
	pid = fx_spawn(fx_path(path, sizeof(path), "fx-a-name-longer-than-comm"), NULL);
	assert_int_equal(only_by_name("fx-a-name-longer-than-comm"), pid);
	fx_run("rm fx-a-name-longer-than-comm");
	assert_int_equal(only_by_name("fx-a-name-longer-than-comm"), pid);
	fx_stop(pid);
}

static void with_children(void **state)
{
	pid_t top = fx_child(be_master, NULL), pids[] = {top};
	struct sonde_target_list list;

	(void)state;
	assert_int_equal(
		select_by((struct sonde_target_query){.pids = pids, .n_pids = 1, .children = true},
			  &list),
		0);
	assert_int_equal(list.n, 3);
	assert_int_equal(list.t[0].pid, top);
	assert_false(list.t[0].is_child);
	for (size_t i = 1; i < 3; i++) {
		assert_true(list.t[i].is_child);
		assert_true(list.t[i].pid == fam->worker || list.t[i].pid == fam->helper);
	}
	assert_int_equal(sonde_target_list_find(&list, fam->helper) > 0, 1);
	sonde_target_list_fini(&list);
	stop_family(top);
}

static void by_cgroup(void **state)
{
	static const char unit[] = "sonde-unit-test.service";
	static const char *const mounts[] = {"/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified",
					     "/sys/fs/cgroup"};
	char dir[128], sub[160], command[256];
	struct sonde_target_list list;
	pid_t pid, below;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(mounts); i++) {
		snprintf(dir, sizeof(dir), "%s/%s", mounts[i], unit);
		if (!mkdir(dir, 0755))
			break;
		dir[0] = '\0';
	}
	if (!dir[0]) {
		print_message("# SKIP no cgroup can be made here\n");
		skip();
	}
	pid = fx_child(be_named, NULL);
	below = fx_child(be_named, NULL);
	snprintf(sub, sizeof(sub), "%s/below", dir);
	assert_int_equal(mkdir(sub, 0755), 0);
	snprintf(command, sizeof(command), "echo %d >%s/cgroup.procs && echo %d >%s/cgroup.procs",
		 pid, dir, below, sub);
	assert_int_equal(system(command), 0);
	assert_int_equal(select_by((struct sonde_target_query){.unit = "sonde-unit-test"}, &list),
			 0);
	assert_int_equal(list.n, 2);
	assert_true(sonde_target_list_find(&list, pid) >= 0);
	assert_true(sonde_target_list_find(&list, below) >= 0);
	sonde_target_list_fini(&list);
	assert_int_equal(select_by((struct sonde_target_query){.cgroup = sub}, &list), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.t[0].pid, below);
	sonde_target_list_fini(&list);
	assert_int_equal(
		select_by((struct sonde_target_query){.cgroup = "sonde-unit-test.service"}, &list),
		0);
	assert_int_equal(list.n, 2);
	sonde_target_list_fini(&list);
	fx_stop(pid);
	fx_stop(below);
	assert_int_equal(select_by((struct sonde_target_query){.unit = unit}, &list), -ESRCH);
	assert_int_equal(select_by((struct sonde_target_query){.unit = "no-such"}, &list), -ESRCH);
	assert_int_equal(select_by((struct sonde_target_query){.cgroup = "no/such"}, &list),
			 -ESRCH);
	rmdir(sub);
	assert_int_equal(rmdir(dir), 0);
}

static void opening(void **state)
{
	pid_t pid = fx_child(be_named, NULL);
	struct sonde_target t;

	(void)state;
	assert_int_equal(sonde_target_open(&t, pid), 0);
	assert_string_equal(t.comm, "fxdaemon");
	assert_non_null(strstr(t.exe, "test_select"));
	assert_int_equal(strlen(t.build_id), 40);
	assert_null(t.daemon);
	assert_true(t.pidfd >= 0 && t.start_ticks > 0);
	assert_true(sonde_target_alive(&t));
	kill(pid, SIGKILL);
	/* Dead already while it still is a zombie. */
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	assert_false(sonde_target_alive(&t));
	sonde_target_fini(&t);
	assert_int_equal(sonde_target_open(&t, pid), -ESRCH);
	waitpid(pid, NULL, 0);
	assert_int_equal(sonde_target_open(&t, pid), -ESRCH);
	assert_int_equal(sonde_target_open(&t, 0), -ESRCH);
	assert_int_equal(sonde_target_open(&t, -5), -ESRCH);
}

static void *sleeper(void *tid)
{
	__atomic_store_n((pid_t *)tid, gettid(), __ATOMIC_RELEASE);
	pause();
	return NULL;
}

static void not_a_process(void **state)
{
	struct sonde_target t;
	pid_t tid = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &tid), 0);
	while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_int_equal(sonde_target_open(&t, tid), -ESRCH);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	if (!access("/proc/2/exe", F_OK) || errno != ENOENT)
		return;
	assert_int_equal(sonde_target_open(&t, 2), -ESRCH);
}

/* Assembled and linked without a C library, which 64-bit machines seldom have for it. */
static void of_32_bits(void **state)
{
	static const char source[] =
		".globl _start\n_start: mov $4,%eax; mov $3,%ebx; mov $msg,%ecx\n"
		"mov $1,%edx; int $0x80\n1: mov $29,%eax; int $0x80; jmp 1b\n"
		".data\nmsg: .ascii \"r\"\n";
	struct sonde_target t;
	char path[128], command[256];
	pid_t pid;

	(void)state;
	fx_write("m32.s", source);
	fx_run("as --32 -o m32.o m32.s && ld -m elf_i386 -o m32 m32.o");
	snprintf(command, sizeof(command), "cd '%s' && timeout 0.1 ./m32 3>/dev/null", fx_dir);
	if (WEXITSTATUS(system(command)) != 124) {
		print_message("# SKIP this kernel runs no 32-bit programs\n");
		skip();
	}
	pid = fx_spawn(fx_path(path, sizeof(path), "m32"), NULL);
	assert_int_equal(sonde_target_open(&t, pid), -EOPNOTSUPP);
	fx_stop(pid);
}

static void after_exec(void **state)
{
	char path[128];
	struct sonde_target t;
	int ready[2];
	pid_t pid;
	char c;

	(void)state;
	fx_compile("searchd", "", FX_READY_MAIN);
	fx_path(path, sizeof(path), "searchd");
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		dup2(ready[1], 3);
		execl(path, path, NULL);
		exit(1);
	}
	close(ready[1]);
	waitpid(pid, NULL, WUNTRACED);
	assert_int_equal(sonde_target_open(&t, pid), 0);
	assert_null(t.daemon);
	kill(pid, SIGCONT);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(sonde_target_refresh(&t), 0);
	assert_non_null(t.daemon);
	assert_string_equal(t.daemon->name, "searchd");
	assert_true(t.daemon->coroutines);
	assert_non_null(t.allocator);
	assert_string_equal(t.allocator->name, "glibc");
	assert_string_equal(t.exe, path);
	assert_true(sonde_target_alive(&t));
	sonde_target_fini(&t);
	close(ready[0]);
	fx_stop(pid);
}

static void daemons(void **state)
{
	(void)state;
	assert_string_equal(sonde_daemon_match("/usr/sbin/mysqld")->name, "mariadbd");
	assert_string_equal(sonde_daemon_match("/usr/bin/searchd (deleted)")->name, "searchd");
	assert_string_equal(sonde_daemon_match("redis-server")->name, "redis");
	assert_null(sonde_daemon_match("/usr/bin/searchd-backup"));
	assert_null(sonde_daemon_match(""));
}

static int setup(void **state)
{
	sonde_log_set_level(SONDE_LOG_ERROR);
	fam = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return fam == MAP_FAILED ? -1 : fx_open(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_one_that_serves),
		cmocka_unit_test(independent),
		cmocka_unit_test(by_file_name),
		cmocka_unit_test(with_children),
		cmocka_unit_test(by_cgroup),
		cmocka_unit_test(opening),
		cmocka_unit_test(not_a_process),
		cmocka_unit_test(after_exec),
		cmocka_unit_test(daemons),
		cmocka_unit_test(of_32_bits),
	};

	return cmocka_run_group_tests(tests, setup, fx_close);
}
