// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Start a program in a box: namespaces, an empty root that holds only the files given, limits, no
 * privilege. The child is a copy of this process until it executes, so it allocates nothing and
 * tells on its standard error which step failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/mem.h"
#include "target/heap/scratch_box.h"

#define NOBODY	  65534
#define NOT_USER  (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
#define ROOT_OPTS "size=256m,nr_inodes=128,mode=755"

/* What the child has of its own; fds of the parent's ends are closed with all others. */
struct inside {
	const struct sonde_box *box;
	int go, in, out, err;
	bool user_ns;
};

static __attribute__((noreturn)) void fail(const char *step)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "%s: %s", step, strerror(errno));

	if (write(STDERR_FILENO, text, (size_t)n) != n)
		_exit(125);
	_exit(126);
}

#define STEP(call, what)                                                                           \
	do {                                                                                       \
		if (call)                                                                          \
			fail(what);                                                                \
	} while (0)

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int copy(int from, int to)
{
	static char buf[1 << 16];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(from, buf, sizeof(buf), at)) > 0) {
		if (write_all(to, buf, (size_t)n))
			return -1;
		at += n;
	}
	return n < 0 ? -1 : 0;
}

static void put_files(const struct sonde_box *box)
{
	for (size_t i = 0; i < box->n; i++) {
		const struct sonde_box_file *f = &box->file[i];
		int fd = open(f->name + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

		STEP(fd < 0, "create a file in the empty root");
		STEP(f->fd >= 0 ? copy(f->fd, fd) : write_all(fd, f->data, f->size),
		     "copy a library into the empty root");
		STEP(close(fd), "copy a library into the empty root");
	}
}

/* pivot_root refuses where the root is the initial ramfs: then the new root is moved over it. */
static void enter_root(void)
{
	if (!syscall(SYS_pivot_root, ".", ".")) {
		STEP(umount2(".", MNT_DETACH), "leave the old root");
	} else {
		STEP(mount(".", "/", NULL, MS_MOVE, NULL), "enter the empty root");
		STEP(chroot("."), "enter the empty root");
	}
	STEP(chdir("/"), "enter the empty root");
	STEP(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL),
	     "make the root read-only");
}

static void make_root(const struct sonde_box *box)
{
	STEP(mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL), "part from the system's mounts");
	/* Any directory will do, and this one is there. */
	STEP(mount("none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTS),
	     "mount an empty root");
	STEP(chdir("/proc"), "enter the empty root");
	umask(0022);
	put_files(box);
	enter_root();
}

static void become_nobody(bool user_ns)
{
	/* Where it may not be called the groups are not ours to drop, and mean nothing in the box.
	 */
	if (syscall(SYS_setgroups, 0, NULL) && !user_ns)
		fail("drop groups");
	/* Not by the C library, which would tell the threads that this copy does not have. */
	STEP(syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY), "become nobody");
	STEP(syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY), "become nobody");
}

static void drop_privilege(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	for (int cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EINVAL beyond the last there is */
	STEP(syscall(SYS_capset, &head, none), "drop capabilities");
	STEP(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges");
	STEP(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "end with sonde");
}

static void set_limits(void)
{
	static const struct {
		int what;
		rlim_t max;
	} limits[] = {
		{RLIMIT_CPU, SONDE_BOX_CPU_S},
		{RLIMIT_AS, 4ul << 30},
		{RLIMIT_DATA, 512ul << 20},
		{RLIMIT_STACK, 8ul << 20},
		{RLIMIT_CORE, 0},
		{RLIMIT_NOFILE, 64},
		{RLIMIT_FSIZE, 0},
		{RLIMIT_MEMLOCK, 0},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(limits); i++) {
		struct rlimit r = {limits[i].max, limits[i].max};

		STEP(setrlimit((__rlimit_resource_t)limits[i].what, &r), "set limits");
	}
}

static void close_others(void)
{
	if (!syscall(SYS_close_range, 3u, ~0u, 0u))
		return;
	for (int fd = 3; fd < 65536; fd++) /* before 5.9 */
		close(fd);
}

static __attribute__((noreturn)) void run_inside(const struct inside *in)
{
	sigset_t none;
	char go;

	dup2(in->err, STDERR_FILENO);
	STEP(read(in->go, &go, 1) != 1, "wait for the user map");
	/* Files are made by nobody; without a user namespace mounting needs root, so before. */
	if (in->user_ns)
		become_nobody(true);
	make_root(in->box);
	if (!in->user_ns)
		become_nobody(false);
	STEP(dup2(in->in, STDIN_FILENO) < 0 || dup2(in->out, STDOUT_FILENO) < 0, "set up streams");
	close_others();
	drop_privilege();
	set_limits();
	sigemptyset(&none);
	STEP(sigprocmask(SIG_SETMASK, &none, NULL), "unblock signals");
	STEP(sonde_box_restrict_calls(), "restrict system calls");
	execve(in->box->file[0].name, in->box->argv, in->box->envp);
	fail("run the target's dynamic linker");
}

/* ---- outside ---- */

static int write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = -errno;
	close(fd);
	return err;
}

/* Inside it is nobody; outside too if we are root, else it is us. */
static int map_users(pid_t pid)
{
	bool root = geteuid() == 0;
	char uids[48], gids[48];
	int err;

	snprintf(uids, sizeof(uids), "%u %u 1", NOBODY, root ? NOBODY : geteuid());
	snprintf(gids, sizeof(gids), "%u %u 1", NOBODY, root ? NOBODY : getegid());
	err = write_map(pid, "uid_map", uids);
	if (!err && !root)
		err = write_map(pid, "setgroups", "deny");
	return err ? err : write_map(pid, "gid_map", gids);
}

static void close_pair(int fd[2])
{
	for (int i = 0; i < 2; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

enum { P_GO, P_IN, P_OUT, P_ERR, PIPES };

static int start(const struct sonde_box *box, int fd[PIPES][2], bool user_ns)
{
	unsigned long flags = NOT_USER | (user_ns ? CLONE_NEWUSER : 0ul) | SIGCHLD;
	long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);

	if (!pid) {
		struct inside in = {box,	  fd[P_GO][0],	fd[P_IN][0],
				    fd[P_OUT][1], fd[P_ERR][1], user_ns};

		close(fd[P_GO][1]); /* so that our end is its end of file */
		run_inside(&in);
	}
	return pid < 0 ? -errno : (int)pid;
}

static int explain(int err, char *why, size_t size)
{
	snprintf(why, size, "no namespaces to run a scratch process in: %s%s", strerror(-err),
		 geteuid() ? "; run as root, or allow user namespaces "
			     "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)"
			   : "");
	return -EOPNOTSUPP;
}

static int start_with_map(const struct sonde_box *box, int fd[PIPES][2], pid_t *out, char *why,
			  size_t size)
{
	bool user_ns = true;
	int err = 0, pid = start(box, fd, true);

	if (pid < 0 && !geteuid()) {
		user_ns = false;
		pid = start(box, fd, false);
	}
	if (pid < 0)
		return explain(pid, why, size);
	if (user_ns)
		err = map_users(pid);
	if (!err && write(fd[P_GO][1], "g", 1) != 1)
		err = -errno;
	if (err) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return explain(err, why, size);
	}
	*out = pid;
	return 0;
}

int sonde_box_start(const struct sonde_box *box, struct sonde_box_child *out, char *why,
		    size_t size)
{
	int fd[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}, err = 0;
	pid_t pid;

	for (int i = 0; i < PIPES && !err; i++)
		/* A socket, where writing to one that is gone is an error and no signal. */
		if (i == P_IN ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd[i])
			      : pipe2(fd[i], O_CLOEXEC)) {
			err = -errno;
			snprintf(why, size, "cannot make a pipe: %s", strerror(errno));
		}
	if (!err)
		err = start_with_map(box, fd, &pid, why, size);
	if (!err) {
		*out = (struct sonde_box_child){
			.pid = pid,
			.in = SONDE_TAKE_FD(fd[P_IN][1]),
			.out = SONDE_TAKE_FD(fd[P_OUT][0]),
			.err = SONDE_TAKE_FD(fd[P_ERR][0]),
		};
	}
	for (int i = 0; i < PIPES; i++)
		close_pair(fd[i]);
	return err;
}
