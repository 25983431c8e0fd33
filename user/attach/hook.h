/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Descriptor types: what a lens wants attached. A hook is one event; its alternatives are tried in
 * order by the plan and the first whose needs are met is taken. These are plain data: lenses make
 * them, plan.c chooses, engine.c executes.
 */
#ifndef SONDE_ATTACH_HOOK_H
#define SONDE_ATTACH_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "attach/feature.h"
#include "target/site.h"

/* How a program is linked. */
enum sonde_link_kind {
	SONDE_LINK_NONE = 0,
	SONDE_LINK_TP_BTF,	   /* event = "sock_recv_length"                                    */
	SONDE_LINK_RAW_TP,	   /* event = "sock_recv_length"                                    */
	SONDE_LINK_TRACEPOINT,	   /* event = "syscalls/sys_enter_recvfrom"                          */
	SONDE_LINK_PERF_SW,	   /* event = "minor-faults" or "major-faults"                      */
	SONDE_LINK_ITER,	   /* event = "task_file"; run on demand, nothing stays attached     */
	SONDE_LINK_UPROBE_MULTI,   /* entry programs, one link for all sites of a file               */
	SONDE_LINK_URETPROBE_MULTI, /* return programs, likewise                                     */
	SONDE_LINK_UPROBE_SESSION, /* one program, entry and return                                  */
	SONDE_LINK_UPROBE_PERF,	   /* one perf link a site                                           */
	SONDE_LINK_URETPROBE_PERF,
	SONDE_LINK__MAX
};
const char *sonde_link_kind_name(enum sonde_link_kind kind);

/* A place in a file of the target to probe. Strings are owned by the hook list. */
struct sonde_probe_site {
	char *path;	   /* openable now: /proc/PID/map_files/... or /proc/PID/root/...            */
	char *shown;	   /* as the target sees it, for people                                     */
	char *symbol;
	uint64_t dev, inode;
	struct sonde_site site;
	uint64_t cookie;   /* what the program reads with bpf_get_attach_cookie()                   */
	pid_t pid;	   /* the target it belongs to                                              */
	bool want_return;  /* the lens wants this function's return as well                          */
};

/* One way of serving a hook. Up to two programs: an event pair needs entry and return. */
struct sonde_alternative {
	enum sonde_link_kind kind;
	const char *program;	 /* BPF program (function) name                                     */
	const char *ret_program; /* for pairs of links: the return side, else NULL                  */
	const char *event;
	enum sonde_feature needs[3]; /* unused: SONDE_FEAT_NONE                                     */
	const char *weaker;	 /* non-NULL: taking this one is degraded, and this says how         */
};

struct sonde_hook {
	const char *name;     /* "query.recv"                                                       */
	int lens;	      /* enum sonde_lens_id                                                 */
	bool required;	      /* no alternative left: the lens cannot work                           */
	bool guarded;	      /* slows the target: its links live in the child with the kill timer   */
	const struct sonde_alternative *alts;
	size_t n_alts;
	struct sonde_probe_site *sites; /* uprobe kinds only                                        */
	size_t n_sites;
	const char *purpose;  /* for doctor: "request read"                                         */
};

struct sonde_hook_list {
	struct sonde_hook *h;
	size_t n, cap;
};

/*
 * Append a hook (shallow copy of *hook; `alts` must be static). The list owns the sites array and its
 * strings from then. 0 or -ENOMEM.
 */
int sonde_hook_list_add(struct sonde_hook_list *list, const struct sonde_hook *hook);
void sonde_hook_list_fini(struct sonde_hook_list *list);

#endif
