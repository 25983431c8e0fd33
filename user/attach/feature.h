/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this kernel and this user can do. Three answers: yes, no (the kernel lacks it: a fall-back is
 * chosen) and denied (EPERM, lockdown: the user can mend it). Each row of features.def carries its
 * probe, since when kernels have it, and the remedy. The same table serves doctor, the plan and the
 * tests' skips.
 */
#ifndef SONDE_ATTACH_FEATURE_H
#define SONDE_ATTACH_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

enum sonde_answer { SONDE_NO = 0, SONDE_YES = 1, SONDE_DENIED = 2 };

/*        symbol         name              since   what for                             remedy      */
#define SONDE_FEATURES(X)                                                                          \
	X(HOST_PIDS, "host_pids", "2.6.24", "process numbers that are the kernel's",               \
	  "run sonde on the host, or in a container with `--pid=host`")                               \
	X(BPF, "bpf", "4.4", "loading any BPF program",                                            \
	  "run as root or with CAP_BPF and CAP_PERFMON")                                           \
	X(BTF, "btf", "5.4", "types of this kernel (/sys/kernel/btf/vmlinux)",                     \
	  "mount /sys, or use a kernel built with CONFIG_DEBUG_INFO_BTF")                          \
	X(RINGBUF, "ringbuf", "5.8", "the event ring", "use kernel 5.8 or later")                  \
	X(TASK_STORAGE, "task_storage", "5.11", "per-thread state", "use kernel 5.11 or later")    \
	X(SK_STORAGE, "sk_storage", "5.11", "per-socket state in tracing programs",                \
	  "use kernel 5.11 or later")                                                              \
	X(TP_BTF, "tp_btf", "5.5", "typed kernel tracepoints", "use kernel 5.5 or later with BTF") \
	X(SOCK_LENGTH, "sock_length", "6.3", "socket tracepoints (cheapest query source)",         \
	  "none needed: syscall tracepoints are used instead")                                     \
	X(SK_DATA_READY, "sk_data_ready", "6.3", "queue wait of a query", "use kernel 6.3 or later") \
	X(TRACEFS, "tracefs", "4.1", "classic (syscall) tracepoints",                              \
	  "mount -t tracefs tracefs /sys/kernel/tracing")                                          \
	X(PERF_UPROBE, "perf_uprobe", "4.17", "user probes, one link a site",                      \
	  "mount /sys, or use a kernel with CONFIG_UPROBE_EVENTS")                                 \
	X(UPROBE_MULTI, "uprobe_multi", "6.6", "user probes, one link for many sites",             \
	  "none needed: one perf link a site is used instead")                                     \
	X(UPROBE_SESSION, "uprobe_session", "6.13", "entry and return in one probe",               \
	  "none needed: a pair of links is used instead")                                          \
	X(PERF_SW, "perf_sw", "5.9", "the end of a page fault",                                    \
	  "lower kernel.perf_event_paranoid or use CAP_PERFMON")                                   \
	X(ITER_TASK_FILE, "iter_task_file", "5.8", "sockets open before attach",                   \
	  "none needed: such connections are picked up at their next request")                     \
	X(ITER_SLEEPABLE, "iter_sleepable", "5.18", "reading every thread's memory, stopping none", \
	  "use kernel 5.18 or later")                                                              \
	X(CONTENTION, "contention", "5.19", "waits for the kernel's own locks (mmap_lock)",        \
	  "use kernel 5.19 or later")                                                              \
	X(MAP_FILES, "map_files", "3.3", "opening the target's files by mapping",                  \
	  "run with CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE, or as root")                        \
	X(FIND_VMA, "find_vma", "5.17", "which purges can split a huge page",                      \
	  "none needed: every purge that is not aligned to 2 MiB is counted instead")              \
	X(MM_OWNER, "mm_owner", "2.6.29", "whose memory khugepaged works on",                      \
	  "none needed: the targets' address spaces are learned at attach")

enum sonde_feature {
#define SONDE_FEATURE_ENUM(sym, name, since, what, remedy) SONDE_FEAT_##sym,
	SONDE_FEATURES(SONDE_FEATURE_ENUM)
#undef SONDE_FEATURE_ENUM
	SONDE_FEAT__MAX,
	SONDE_FEAT_NONE = SONDE_FEAT__MAX /* an alternative that needs nothing */
};

struct sonde_features {
	enum sonde_answer have[SONDE_FEAT__MAX];
	int err[SONDE_FEAT__MAX]; /* errno that led to no or denied, 0 */
};

/* Probe everything. Takes some milliseconds; leaves nothing behind. Tests: features named in the
 * environment variable SONDE_WITHOUT (comma-separated) are answered "no", so that fall-backs run. */
void sonde_features_probe(struct sonde_features *f);
const char *sonde_feature_name(enum sonde_feature feat);
const char *sonde_feature_what(enum sonde_feature feat);
const char *sonde_feature_since(enum sonde_feature feat);
const char *sonde_feature_remedy(enum sonde_feature feat);
/* What to do about an answer that is not yes: more rights when denied, else the remedy. */
const char *sonde_feature_advice(enum sonde_feature feat, enum sonde_answer answer);
/* Is @feat "no" only because the kernel's types, by which it is asked for, cannot be had? */
bool sonde_features_typeless(const struct sonde_features *f, enum sonde_feature feat);
/* The advice, knowing the other answers: what stands on the kernel's types needs those first. */
const char *sonde_features_advice(const struct sonde_features *f, enum sonde_feature feat);
const char *sonde_answer_name(enum sonde_answer a);
/* -1 if there is none of that name. */
int sonde_feature_find(const char *name);
/* Does this kernel's BTF have tracepoint @event (typedef btf_trace_EVENT), with how many arguments?
 * Returns the number, or -ENOENT. */
int sonde_btf_tracepoint_args(const char *event);
/* Type of argument @i of tracepoint @event as C writes it ("struct mm_struct *", "bool", "gfp_t"), into
 * @buf. 0 or -ENOENT. */
int sonde_btf_tracepoint_param(const char *event, int i, char *buf, size_t size);
/* Name of the constant of `enum @name` that has @value, into @buf. 0 or -ENOENT. */
int sonde_btf_enum_name(const char *name, int value, char *buf, size_t size);
/* Has `struct @name` a member @member? */
bool sonde_btf_has_member(const char *name, const char *member);
/* Does it tell of a function @name? Those that BPF programs may call are among them. */
bool sonde_btf_has_function(const char *name);

#endif
