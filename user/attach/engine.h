/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The attach engine executes a plan. Its verbs, in order:
 *
 *   new -> open (per lens) -> load -> attach -> activate -> pause -> detach -> free
 *
 * `activate` and `pause` move only the gate in the control map: instant, but a trap is still paid.
 * `attach` and `detach` create and close links: slow (a close was measured at up to 0.8 s), but then
 * nothing is paid. Uprobe links live in a small child; for guarded hooks it has a kill timer, so that a
 * sonde that is killed, stopped or frozen loses them by the deadline. Targets are added before attach.
 */
#ifndef SONDE_ATTACH_ENGINE_H
#define SONDE_ATTACH_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/plan.h"
#include "sonde/config.h"
#include "sonde/drop.h"

struct bpf_object;
struct sonde_engine;

/* Shared maps, created before any lens and given to every object that declares a map of that name. */
struct sonde_engine_maps {
	/* fds, owned by the engine */
	int events, drops, control, guards, targets, span, anatomy, tls_places, window;
};

/* @ring_bytes: 0 for the default; else a power of two of whole pages. 0 or -errno (logged). */
int sonde_engine_new(struct sonde_engine **out, const struct sonde_config *config,
		     uint32_t ring_bytes);
void sonde_engine_free(struct sonde_engine **engine); /* detaches first */

const struct sonde_engine_maps *sonde_engine_maps(const struct sonde_engine *e);

/*
 * Open one lens's object from ELF bytes: shared maps are reused, `.rodata.sonde_cfg` is set, every
 * program's autoload is off until load. *obj is owned by the engine. 0 or -errno (logged).
 */
int sonde_engine_open(struct sonde_engine *e, int lens, const char *name, const void *elf,
		      size_t size, struct bpf_object **obj);

/*
 * Load every opened object with just the programs that @plan names (attach types set first), or with
 * those whose hook belongs to @lens when it is not -1 (a lens added later). A verifier's refusal
 * prints its last lines.
 */
int sonde_engine_load(struct sonde_engine *e, const struct sonde_plan *plan, int lens);

/*
 * Create the links of every item (or of lens's items). Items that are guarded go to the child, which
 * kills itself @guard_ns after the last sonde_engine_beat() and at the latest @guard_max_ns from now
 * (0: no such limit). Partial failure detaches what was attached. *took_ns (may be NULL) is how long
 * it took.
 */
int sonde_engine_attach(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
			uint64_t guard_ns, uint64_t guard_max_ns, uint64_t *took_ns);
/* The guard's heartbeat: call at least every guard_ns / 4. */
void sonde_engine_beat(struct sonde_engine *e);
/* True while the children that hold uprobe links live (or were never needed). */
bool sonde_engine_guard_alive(struct sonde_engine *e);
/* Lenses, a bit each, of which a child has ended by itself; until they are detached. */
uint32_t sonde_engine_guards_lost(struct sonde_engine *e);
/* When the guard of @lens began to exit, from which on the lens counts nothing; 0: it lives, or there is
 * none. CLOCK_MONOTONIC. */
uint64_t sonde_engine_lost_ns(const struct sonde_engine *e, int lens);
/* Close the links of one lens, or of all (-1). Blocks while the kernel works. */
int sonde_engine_detach(struct sonde_engine *e, int lens, uint64_t *took_ns);

int sonde_engine_activate(struct sonde_engine *e);
int sonde_engine_pause(struct sonde_engine *e);
/* Change control (ready is kept). */
int sonde_engine_control(struct sonde_engine *e, const struct sonde_control *control);

int sonde_engine_target_add(struct sonde_engine *e, uint32_t tgid, uint32_t index);
int sonde_engine_target_del(struct sonde_engine *e, uint32_t tgid);

/* Sum of the per-CPU drop counters into @out[lens][cause]; also adds each program's
 * recursion_misses to RECURSION of its lens. */
int sonde_engine_drops(struct sonde_engine *e, uint64_t out[SONDE_LENS__MAX][SONDE_DROP__MAX]);

/* Run an iterator program of @lens once and discard its output; its side effects are in maps. */
int sonde_engine_run_iter(struct sonde_engine *e, int lens, const char *program, uint32_t pid);

/* Switch the kernel's BPF run statistics on or off; they cost some 20 ns a run of every program on the
 * machine, so they are off until asked for, and off again when the engine goes. */
int sonde_engine_stats(struct sonde_engine *e, bool on);
/* Hits of each program so far: needs BPF statistics to be on; fills run_cnt and run_time_ns sums. */
struct sonde_prog_cost {
	uint64_t runs, run_ns;
};
int sonde_engine_prog_cost(struct sonde_engine *e, int lens, struct sonde_prog_cost *out);
/* Bytes of kernel memory that the engine's maps hold (memlock of fdinfo). */
uint64_t sonde_engine_map_bytes(const struct sonde_engine *e);

#endif
