// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SIGBUS of cut off files; see bus.h. The handler puts a page of zeros where the fault was and lets
 * the instruction run again: nothing jumps, so no lock is left held and no store half done. Any
 * other SIGBUS (failing memory) is as deadly as ever.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/mman.h>

#include "core/bus.h"

static unsigned int count;
static uintptr_t page_bytes;

static void on_bus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr & ~(page_bytes - 1);
	int saved = errno;

	(void)context;
	if (info->si_code != BUS_ADRERR ||
	    mmap((void *)at, page_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		signal(sig, SIG_DFL); /* the instruction runs again, and kills */
	else
		__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	errno = saved;
}

void sonde_bus_survive(void)
{
	struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};

	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&act.sa_mask);
	sigaction(SIGBUS, &act, NULL);
}

unsigned int sonde_bus_count(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}
