/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tiny programs from raw instructions, and this kernel's types: for feature probes and calibration.
 */
#ifndef SONDE_ATTACH_PROG_H
#define SONDE_ATTACH_PROG_H

#include <stddef.h>
#include <stdint.h>

#include "attach/hook.h"

struct bpf_insn;
struct btf;

/* Types of the running kernel, read once and kept; NULL with *err = -errno when they cannot be had.
 */
struct btf *sonde_kernel_btf(int *err);
/* Can they be read once more, now? libbpf reads a copy of its own. 0 or -errno, never -ESRCH. */
int sonde_kernel_btf_check(void);
/* BTF id to load a tp_btf program for @event, or an iterator for @target; -ENOENT, -errno. */
int sonde_btf_tracepoint_id(const char *event);
int sonde_btf_iter_id(const char *target);

/* Load a program that returns 0 for links of @kind (@event: TP_BTF and ITER): fd or -errno. */
int sonde_prog_empty(enum sonde_link_kind kind, const char *event);
/* The same with instructions of one's own. */
int sonde_prog_load(enum sonde_link_kind kind, const char *event, const struct bpf_insn *insns,
		    size_t n);

/* The same, of a program that may sleep. */
int sonde_prog_load_sleepable(enum sonde_link_kind kind, const char *event,
			      const struct bpf_insn *insns, size_t n);

/* File offset, within /proc/self/exe, of a function of this program. 0 or -errno. */
int sonde_self_offset(const void *function, uint64_t *offset);

#endif
