/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that sonde failed to see, by cause. A cause is one row here; its enum, its name in every
 * output and its help text derive from the row. Values reach recordings: append, never renumber.
 */
#ifndef SONDE_DROP_H
#define SONDE_DROP_H

/*
 * loses: 1 where a figure is too low by what was dropped, 0 where counts are right all the same.
 */
/* clang-format off */
/*      id  symbol     name       loses  what it means                                             */
#define SONDE_DROP_CAUSES(X)                                                                       \
	X(0, RING_FULL, "ring_full", 1, "the event ring was full: the reader fell behind")         \
	X(1, MAP_FULL, "map_full", 1,                                                              \
	  "a kernel map was full: state for this operation was not kept")                          \
	X(2, COPY_FAULT, "copy_fault", 1,                                                          \
	  "user memory could not be read (paged out or unmapped)")                                 \
	X(3, NO_ENTRY, "no_entry", 1,                                                              \
	  "an end was seen without its begin (it began before attach)")                            \
	X(4, NO_END, "no_end", 1,                                                                  \
	  "a begin was seen without its end (it was overtaken or aged out)")                       \
	X(5, UNDECODED, "undecoded", 1, "bytes on a connection fitted no known protocol")          \
	X(6, ENCRYPTED, "encrypted", 1,                                                            \
	  "a connection switched to TLS or compression: not decoded")                              \
	X(7, GAP, "gap", 1,                                                                        \
	  "bytes were missed on a connection (sendfile, io_uring, attach mid-way)")                \
	X(8, UNMATCHED, "unmatched", 1, "a response without a request, or the reverse")            \
	X(9, RECURSION, "recursion", 0,                                                            \
	  "the kernel skipped a program that another task was in on that CPU, most often for "     \
	  "another process: details may be missing, counts are not")                               \
	X(10, UNFINISHED, "unfinished", 0,                                                         \
	  "the kernel gave up what it had begun, such as a refused access or one put off for a "   \
	  "signal: the counts are right, nothing need be done")
/* clang-format on */

enum sonde_drop {
#define SONDE_DROP_ENUM(id, sym, name, loses, help) SONDE_DROP_##sym = (id),
	SONDE_DROP_CAUSES(SONDE_DROP_ENUM)
#undef SONDE_DROP_ENUM
	SONDE_DROP__MAX
};

/* A lens owns one row of the drop map. Numbers reach recordings: append, never renumber. */
#define SONDE_LENS_IDS(X)                                                                          \
	X(0, PROC, "proc")                                                                         \
	X(1, RSS, "rss")                                                                           \
	X(2, QUERY, "query")                                                                       \
	X(3, ALLOC, "alloc")                                                                       \
	X(4, FAULT, "fault")                                                                       \
	X(5, THP, "thp")                                                                           \
	X(6, STALL, "stall")                                                                       \
	X(7, ASK, "ask")

enum sonde_lens_id {
#define SONDE_LENS_ENUM(id, sym, name) SONDE_LENS_##sym = (id),
	SONDE_LENS_IDS(SONDE_LENS_ENUM)
#undef SONDE_LENS_ENUM
	SONDE_LENS__MAX
};

#define SONDE_DROP_ROWS (SONDE_LENS__MAX * SONDE_DROP__MAX)

static inline unsigned sonde_drop_row(enum sonde_lens_id lens, enum sonde_drop cause)
{
	return (unsigned)lens * SONDE_DROP__MAX + (unsigned)cause;
}

#endif
