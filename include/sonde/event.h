/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records that cross the event ring. The kind comes first, every record starts with the header, times
 * are CLOCK_MONOTONIC ns (bpf_ktime_get_ns), and numbers are explicit: append, never renumber.
 */
#ifndef SONDE_EVENT_H
#define SONDE_EVENT_H

#include "config.h"
#include "part.h"

#ifdef __bpf__
typedef __u8 sonde_u8;
typedef __u16 sonde_u16;
typedef __s32 sonde_s32;
typedef __s64 sonde_s64;
#else
typedef uint8_t sonde_u8;
typedef uint16_t sonde_u16;
typedef int32_t sonde_s32;
typedef int64_t sonde_s64;
#endif

enum sonde_event_kind {
	SONDE_EV_SPAN = 1, /* struct sonde_ev_span: a query, from arrival to its last byte         */
	SONDE_EV_PROC = 2, /* struct sonde_ev_proc: a target forked, exec'ed or exited             */
	SONDE_EV__MAX
};

struct sonde_ev_hdr {
	sonde_u16 kind; /* enum sonde_event_kind */
	sonde_u16 lens; /* enum sonde_lens_id    */
	sonde_u32 size; /* bytes of the whole record, header included */
	sonde_u32 tgid;
	sonde_u32 tid;
	sonde_u64 ts_ns;
};

enum sonde_proc_what { SONDE_PROC_FORK = 1, SONDE_PROC_EXEC = 2, SONDE_PROC_EXIT = 3 };

struct sonde_ev_proc {
	struct sonde_ev_hdr h;
	sonde_u32 what;	 /* enum sonde_proc_what */
	sonde_u32 child; /* FORK: tgid of the new process */
	char comm[SONDE_COMM_BYTES];
};

enum sonde_proto {
	SONDE_PROTO_UNKNOWN = 0,
	SONDE_PROTO_MYSQL = 1,
	SONDE_PROTO_SPHINXAPI = 2,
	SONDE_PROTO_HTTP = 3,
	SONDE_PROTO__MAX
};

/* What a span's response said. */
enum sonde_span_status {
	SONDE_SPAN_OK = 0,
	SONDE_SPAN_ERROR = 1,	/* error carries the protocol's code                               */
	SONDE_SPAN_WARNING = 2, /* SphinxAPI only                                                  */
	SONDE_SPAN_RETRY = 3,	/* SphinxAPI only                                                  */
	SONDE_SPAN_NO_REPLY = 4, /* the protocol answers nothing to this command                   */
	SONDE_SPAN_ABORTED = 5, /* the connection closed before the response was complete: last_ns is
				 * when it closed, where that was seen                              */
	SONDE_SPAN_UNFINISHED = 6, /* still being answered when the observation ended; no last_ns  */
};

enum sonde_span_flag {
	SONDE_SPAN_F_NO_WAIT = 1 << 0,	  /* arrival unknown: wait is absent, not 0                */
	SONDE_SPAN_F_CUT = 1 << 1,	  /* text is shorter than the request                      */
	SONDE_SPAN_F_DISTURBED = 1 << 2,  /* overlapped an allocation probe: no latency statistics */
	SONDE_SPAN_F_END_GUESSED = 1 << 3, /* end = last send before the next request              */
	SONDE_SPAN_F_HANDLER = 1 << 4,	  /* handler fields below are filled                       */
	SONDE_SPAN_F_UNIX = 1 << 5,	  /* came over a unix socket                               */
	SONDE_SPAN_F_PIPELINED = 1 << 6,  /* arrived while its predecessor was being answered      */
	SONDE_SPAN_F_NO_TEXT = 1 << 7,	  /* request bytes could not be read                       */
	SONDE_SPAN_F_HOPPED = 1 << 8,	  /* answered by another thread than read it: what its thread
					   * did (allocation, faults, handler) is not known        */
	SONDE_SPAN_F_HEAP = 1 << 9,	  /* heap fields below are filled                          */
	SONDE_SPAN_F_PARTS = 1 << 10,	  /* part_ns and fault_count are filled                    */
	SONDE_SPAN_F_BY_HANDLER = 1 << 16, /* told by the daemon's handler, not decoded from the socket:
					    * whether it failed is not known                       */
};

/*
 * One query. Times: arrival <= start <= request_end <= first <= last wherever both are known; 0 means
 * not known. `text` holds the request body (MySQL: after the command byte; SphinxAPI: after the
 * 8-byte header), text_len bytes of request_len.
 */
struct sonde_ev_span {
	struct sonde_ev_hdr h;
	sonde_u64 conn;	      /* connection id, unique in the session (the kernel's socket cookie)     */
	sonde_u64 seq;	      /* number of this query on its connection, from 1                      */
	sonde_u64 arrival_ns; /* data was ready in the kernel                                        */
	sonde_u64 start_ns;   /* the server began to read the request                                */
	sonde_u64 request_end_ns; /* the server had read the whole request                           */
	sonde_u64 first_ns;   /* first byte of the response handed to the kernel                     */
	sonde_u64 last_ns;    /* last byte of the response handed to the kernel                      */
	sonde_u64 bytes_in;   /* request, protocol headers included                                  */
	sonde_u64 bytes_out;  /* response                                                            */
	sonde_u64 alloc_bytes; /* requested by the query's thread while it ran (exact mode only)     */
	sonde_u64 alloc_calls;
	sonde_u64 faults;
	sonde_u64 fault_ns;
	sonde_u64 heap_allocated; /* what the allocator counted for the query's thread while it ran */
	sonde_u64 heap_freed;
	sonde_u64 handler_ns; /* the handler's entry, or 0                                           */
	sonde_u64 found;      /* handler: total rows found                                           */
	sonde_u64 part_ns[SONDE_PART__MAX]; /* disjoint, and their sum is the duration               */
	sonde_u32 handler_wall_ms;
	sonde_u32 handler_hits; /* LogQuery hits inside this query (a batch has several)             */
	sonde_u32 request_len;	/* bytes of the body on the wire                                     */
	sonde_u32 text_len;
	sonde_u32 error; /* protocol's error code when status is ERROR; the statement's id when a
			  * PREPARE succeeded                                                        */
	sonde_u32 flags; /* enum sonde_span_flag                                                     */
	sonde_u16 command; /* the protocol's number (MySQL COM_*, SphinxAPI SEARCHD_COMMAND_*)       */
	sonde_u16 version; /* SphinxAPI: version of the command                                      */
	sonde_u8 proto;	   /* enum sonde_proto                                                       */
	sonde_u8 status;   /* enum sonde_span_status                                                 */
	sonde_u16 statements; /* result sets in the response (MySQL multi-statement), at least 1     */
	sonde_u16 family;  /* peer: AF_INET, AF_INET6, AF_UNIX                                       */
	sonde_u16 peer_port;
	sonde_u16 local_port;
	sonde_u16 pad;
	sonde_u8 peer_addr[16];
	sonde_u32 fault_count[SONDE_PART_FAULTS]; /* by class, from SONDE_PART_FAULT_BASE           */
	char index[SONDE_INDEX_BYTES]; /* as the handler gave it, NUL-terminated, or empty           */
	char text[SONDE_TEXT_BYTES];
};

#endif
