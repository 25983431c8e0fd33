/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of one server-side connection: the state that conn.h's machine moves. The kernel's
 * programs own it; user space only looks at what is left when recording is over.
 */
#ifndef SONDE_CONN_STATE_H
#define SONDE_CONN_STATE_H

#include "event.h"

#define SONDE_CONN_QUEUE                                                                           \
	8 /* pipelined requests kept behind the one being answered                 */
#define SONDE_CONN_PACKETS                                                                         \
	64 /* response packets walked in one send; beyond, only its tail is looked at */
#define SONDE_CONN_WINDOW 512 /* bytes of a send that are read at once; a power of two */
#define SONDE_CONN_MISSES                                                                          \
	8 /* reads on a connection that fit no protocol before it is given up       */

enum sonde_conn_flag {
	SONDE_CONN_FRESH = 1 << 0, /* seen from its first byte                                    */
	SONDE_CONN_LISTENER =
		1 << 1,		   /* storage of a listening socket: its children inherit a copy  */
	SONDE_CONN_DEAD = 1 << 2,  /* given up: encrypted, or no known protocol                   */
	SONDE_CONN_LOGIN = 1 << 3, /* MySQL: no command seen yet                                  */
	SONDE_CONN_UNSURE = 1 << 4, /* the packet walk went wrong once: ends are found by tail */
	SONDE_CONN_UNIX = 1 << 5,
};

enum sonde_conn_rx { SONDE_RX_HEAD = 0, SONDE_RX_BODY };

/* Whose bytes the body being read are. */
enum sonde_conn_body { SONDE_BODY_REQUEST = 0, SONDE_BODY_QUEUED, SONDE_BODY_OTHER };

enum sonde_conn_open { SONDE_OPEN_NONE = 0, SONDE_OPEN_READING, SONDE_OPEN_READ };

/* What the next packet of a MySQL response is. */
enum sonde_conn_tx {
	SONDE_TX_FIRST = 0, /* OK, ERR, EOF or a column count */
	SONDE_TX_DEFS,
	SONDE_TX_DEFS_END, /* EOF, or with DEPRECATE_EOF the first row */
	SONDE_TX_ROWS,
	SONDE_TX_TO_EOF,
	SONDE_TX_STRING,
	SONDE_TX_PREPARE,
	SONDE_TX_PREPARE_DEFS,
	SONDE_TX_AUTH,
	SONDE_TX_LOST, /* not known: look for an end in the tail of each send */
};

/* Who tells the connection's queries, as far as handlers know it. */
enum sonde_conn_by { SONDE_BY_NOBODY = 0, SONDE_BY_SOCKET, SONDE_BY_HANDLER };

struct sonde_conn_queued {
	sonde_u64 start_ns, arrival_ns;
	sonde_u32 len;
	sonde_u16 command, version;
};

struct sonde_conn {
	sonde_u64 ready_ns; /* first data ready since the last read, 0: none (softirq writes)    */
	sonde_u64 last_ready_ns; /* latest data ready */
	sonde_u64 arrival_ns;	 /* of the bytes now being read    */
	sonde_u64 prev_end_ns;	 /* end of the span before   */
	sonde_u64 seq;
	sonde_u32 rx_left, tx_left; /* bytes of the current body still to come */
	sonde_u32 tx_defs;
	sonde_u8 flags, proto, misses;
	sonde_u8 rx, rx_have, rx_body, rx_command_due, rx_more;
	sonde_u8 open, tx, tx_have, tx_final;
	sonde_u8 queued, handshaken, by_handler, pad; /* by_handler: enum sonde_conn_by */
	sonde_u32 runs;	  /* program runs since the last span; not exact */
	sonde_u32 reader; /* the thread that read from it last */
	sonde_u8 rx_head[16], tx_head[32];
	sonde_u8 tx_window[SONDE_CONN_WINDOW + 16];
	struct sonde_conn_queued queue[SONDE_CONN_QUEUE];
	struct sonde_ev_span span;
	/* Never written: lets the verifier see that text offset + length stays inside the value. */
	char spill[SONDE_TEXT_BYTES];
};

#endif
