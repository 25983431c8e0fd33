// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The calibration child. What is timed is timed inside it, so that neither the socket nor the
 * scheduler's choice between two processes is in the figure.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "attach/calib.h"
#include "attach/prog.h"
#include "core/clock.h"
#include "core/mem.h"

/* One instruction that the kernel emulates, one that it must single-step; the twins are not probed.
 */
#define PUSH_FIRST "push %rbp; pop %rbp; ret"
#define TEST_FIRST "test %edi, %edi; ret"
#define CALIB_FUNCTION(name, code)                                                                 \
	static __attribute__((naked, noinline, used)) void name(void)                              \
	{                                                                                          \
		__asm__ volatile(code);                                                            \
	}
CALIB_FUNCTION(push_probed, PUSH_FIRST)
CALIB_FUNCTION(push_plain, PUSH_FIRST)
CALIB_FUNCTION(test_probed, TEST_FIRST)
CALIB_FUNCTION(test_plain, TEST_FIRST)

static void (*const functions[2][2])(void) = {
	[SONDE_INSN_EMULATED] =
		{[SONDE_CALIB_PROBED] = push_probed, [SONDE_CALIB_PLAIN] = push_plain},
	[SONDE_INSN_STEPPED] =
		{[SONDE_CALIB_PROBED] = test_probed, [SONDE_CALIB_PLAIN] = test_plain},
};

enum { FAULT_PAGES = 1024 };

struct order {
	enum sonde_calib_work work;
	enum sonde_insn_kind insn;
	uint32_t n;
};

static uint64_t time_calls(void (*function)(void), uint32_t n)
{
	uint64_t begin = sonde_mono_ns();

	for (uint32_t i = 0; i < n; i++)
		function();
	return sonde_mono_ns() - begin;
}

static uint64_t time_renames(uint32_t n)
{
	uint64_t begin = sonde_mono_ns();

	for (uint32_t i = 0; i < n; i++)
		prctl(PR_SET_NAME, "sonde-calib");
	return sonde_mono_ns() - begin;
}

static uint64_t time_faults(char *region, long page, uint32_t n)
{
	uint64_t begin;

	madvise(region, (size_t)(FAULT_PAGES * page), MADV_DONTNEED);
	begin = sonde_mono_ns();
	for (uint32_t i = 0; i < n && i < FAULT_PAGES; i++)
		*(volatile char *)(region + (long)i * page) = 1;
	return sonde_mono_ns() - begin;
}

static __attribute__((noreturn)) void child_main(int sock, pid_t parent)
{
	long page = sysconf(_SC_PAGESIZE);
	char *region = mmap(NULL, (size_t)(FAULT_PAGES * page), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct order o;
	uint64_t ns;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || region == MAP_FAILED)
		_exit(1);
	madvise(region, (size_t)(FAULT_PAGES * page), MADV_NOHUGEPAGE);
	while (recv(sock, &o, sizeof(o), 0) == sizeof(o)) {
		if (o.work == SONDE_CALIB_RENAME)
			ns = time_renames(o.n);
		else if (o.work == SONDE_CALIB_FAULT)
			ns = time_faults(region, page, o.n);
		else
			ns = time_calls(functions[o.insn][o.work], o.n);
		if (send(sock, &ns, sizeof(ns), MSG_NOSIGNAL) != sizeof(ns))
			break;
	}
	_exit(0);
}

int sonde_calib_start(struct sonde_calib_child *out)
{
	pid_t parent = getpid(), pid;
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid = fork();
	if (!pid) {
		close(pair[0]);
		child_main(pair[1], parent);
	}
	err = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (err) {
		close(pair[0]);
		return err;
	}
	*out = (struct sonde_calib_child){.pid = pid, .sock = pair[0]};
	return 0;
}

void sonde_calib_stop(struct sonde_calib_child *c)
{
	close(c->sock);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}

int sonde_calib_run(const struct sonde_calib_child *c, enum sonde_calib_work work,
		    enum sonde_insn_kind insn, uint32_t n, uint64_t *ns)
{
	struct order o = {.work = work, .insn = insn, .n = n};
	uint64_t took;
	ssize_t len;

	if (send(c->sock, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o))
		return -errno;
	do {
		len = recv(c->sock, &took, sizeof(took), 0);
	} while (len < 0 && errno == EINTR);
	if (len != sizeof(took))
		return len < 0 ? -errno : -ECHILD;
	*ns = took;
	return 0;
}

int sonde_calib_offset(enum sonde_insn_kind insn, uint64_t *offset)
{
	return sonde_self_offset((const void *)functions[insn][SONDE_CALIB_PROBED], offset);
}
