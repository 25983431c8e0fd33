/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connection state machine outside the kernel: "user memory" is a buffer, and what is emitted
 * or dropped is kept for the test to look at. Reads are checked against the buffer that the call
 * gave.
 */
#ifndef SONDE_TESTS_CONN_ENV_H
#define SONDE_TESTS_CONN_ENV_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/drop.h"
#include "sonde/event.h"

struct sonde_conn;

#define ENV_SPANS 64

static struct {
	struct sonde_ev_span spans[ENV_SPANS];
	unsigned n_spans; /* all that were emitted; the last ENV_SPANS are kept, by number modulo */
	unsigned opened;
	unsigned drops[SONDE_DROP__MAX];
	uint64_t from, to; /* the readable bytes */
	bool fault;	   /* every read fails */
} env;

static int conn_env_read(void *dst, uint32_t size, uint64_t src)
{
	if (env.fault)
		return -14;
	assert(size > 0 && src >= env.from && src + size <= env.to);
	memcpy(dst, (const void *)(uintptr_t)src, size);
	return 0;
}

static void conn_env_emit(struct sonde_conn *c);
static void conn_env_open(struct sonde_conn *c);

static void conn_env_drop(enum sonde_drop cause)
{
	env.drops[cause]++;
}

#define conn_env_loop(n, step, walk)                                                               \
	do {                                                                                       \
		for (uint32_t env_i = 0; env_i < (n) && !step(env_i, walk); env_i++)               \
			;                                                                          \
	} while (0)
#define CONN_NOINLINE static __attribute__((noinline))
#define CONN_GLOBAL   static __attribute__((noinline))

#include "sonde/conn.h"

static void conn_env_emit(struct sonde_conn *c)
{
	env.spans[env.n_spans++ % ENV_SPANS] = c->span;
}

static void conn_env_open(struct sonde_conn *c)
{
	(void)c;
	env.opened++;
}

static inline void env_reset(struct sonde_conn *c, unsigned flags)
{
	memset(&env, 0, sizeof(env));
	memset(c, 0, sizeof(*c));
	c->flags = (sonde_u8)flags;
}

/* The server moved @len bytes, of which @seen can be looked at. */
static inline void env_io(struct sonde_conn *c, bool send, const void *bytes, uint32_t len,
			  uint32_t seen, uint64_t now)
{
	struct sonde_conn_io w = {
		.c = c,
		.base = (uint64_t)(uintptr_t)bytes,
		.now = now,
		.len = len,
		.seen = seen,
		.text_bytes = SONDE_TEXT_BYTES,
	};

	env.from = w.base;
	env.to = w.base + seen;
	if (send)
		conn_sent(&w);
	else
		conn_received(&w);
}

static inline void env_ready(struct sonde_conn *c, uint64_t now)
{
	if (!c->ready_ns)
		c->ready_ns = now;
	c->last_ready_ns = now;
}

#endif
