/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the query lens's two halves share of the daemon's own handlers: where a handler's arguments
 * keep what, and the state of a connection whose queries the handlers tell. Nothing here reaches a
 * recording.
 */
#ifndef SONDE_HANDLER_H
#define SONDE_HANDLER_H

#include "conn_state.h"

/* Where queries come from; value of sonde_config.query_source. Append, never renumber. */
enum sonde_query_source {
	SONDE_SOURCE_AUTO = 0,	  /* the socket; the handler where the socket cannot be decoded    */
	SONDE_SOURCE_SOCKET = 1,  /* the socket alone; handlers are counted  */
	SONDE_SOURCE_HANDLER = 2, /* the handlers alone; the socket tells start, end and bytes */
};

/* What a call of a handler means: numbers of enum sonde_handler_role in target/daemon.h. */
enum sonde_role {
	SONDE_ROLE_EXECUTE = 1,
	SONDE_ROLE_LOG = 2,
	SONDE_ROLE_COMMAND = 3,
	SONDE_ROLE_YIELD = 4,
};

/* How a field is had from the argument registers. */
enum sonde_field_kind {
	SONDE_FIELD_UNSAID = 0,
	SONDE_FIELD_MEMORY,   /* in memory at register + offset   */
	SONDE_FIELD_POINTER,  /* where the pointer there points  */
	SONDE_FIELD_REGISTER, /* the register itself */
	SONDE_FIELD_CONSTANT, /* offset is it */
};

struct sonde_query_field {
	sonde_u32 kind; /* enum sonde_field_kind */
	sonde_s32 arg, offset;
};

#define SONDE_QUERY_HANDLERS 64 /* slots: handlers of all targets' recipes */

struct sonde_query_handler {
	struct sonde_query_field index, wall_ms, wall_us, found; /* of a log handler             */
	struct sonde_query_field text, length, command, version, socket;
	sonde_u32 sp_delta; /* the return address is at rsp + sp_delta where the probe sits       */
	sonde_u8 role;	    /* enum sonde_handler_role */
	sonde_u8 proto;	    /* enum sonde_proto        */
	sonde_u8 end_return; /* a query ends where the call returns, else on its socket           */
	sonde_u8 pad;
};

/* A handler probe's cookie: role (enum sonde_handler_role) and slot. */
#define SONDE_QUERY_COOKIE(role, slot) ((sonde_u64)(slot) << 8 | (role))

/*
 * Connections whose queries the handlers tell, keyed by connection id. A call of a handler without
 * a socket has a key of its own, made of process and stack pointer, with this bit.
 */
#define SONDE_HANDLER_NO_SOCKET (1ull << 62)

struct sonde_handled {
	sonde_u64 start_ns,
		arrival_ns; /* of a request that was read and no call has taken; 0: none */
	sonde_u64 bytes_in;
	sonde_u64 sp; /* stack pointer at the entry of the open call                             */
	sonde_u8 owned;	    /* the socket tells this connection's queries     */
	sonde_u8 by_return; /* the open call ends where it returns */
	sonde_u8 more; /* a request was read since the open call's entry                          */
	sonde_u8 returned; /* it did                                                               */
	sonde_u8 role;	   /* enum sonde_role of its handler */
	sonde_u8 pad[3];
	struct sonde_conn c; /* c.open: a call is being followed, c.span is its query */
};

/* A call in progress: key and value of `handler_calls`. */
struct sonde_handler_call {
	sonde_u64 sp; /* of its return address */
	sonde_u32 tgid, pad;
};

#endif
