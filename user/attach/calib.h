/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The child on which the cost of a probe is measured: it does a small piece of work N times and says how
 * long that took. Each probed function has a twin with the same bytes that is never probed.
 */
#ifndef SONDE_ATTACH_CALIB_H
#define SONDE_ATTACH_CALIB_H

#include <stdint.h>
#include <sys/types.h>

#include "target/site.h"

enum sonde_calib_work {
	SONDE_CALIB_PROBED,  /* call the probed function of one instruction kind                   */
	SONDE_CALIB_PLAIN,   /* call its twin                                                      */
	SONDE_CALIB_RENAME,  /* prctl(PR_SET_NAME): fires task_rename and sys_enter_prctl          */
	SONDE_CALIB_FAULT,   /* touch a page for the first time: a minor fault each                */
};

struct sonde_calib_child {
	pid_t pid;
	int sock;
};

/* 0 or -errno (nothing logged). The child dies with the calling thread. */
int sonde_calib_start(struct sonde_calib_child *out);
void sonde_calib_stop(struct sonde_calib_child *c);
/* ns that @n pieces of @work took; @insn for the first two kinds of work. 0 or -errno. */
int sonde_calib_run(const struct sonde_calib_child *c, enum sonde_calib_work work,
		    enum sonde_insn_kind insn, uint32_t n, uint64_t *ns);
/* File offset in /proc/self/exe of the function that SONDE_CALIB_PROBED calls. 0 or -errno. */
int sonde_calib_offset(enum sonde_insn_kind insn, uint64_t *offset);

#endif
