/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Something the reader of the figures must know: a fall-back taken, a target that restarted, a lens
 * that sees less than it could. Degraded is never silent.
 */
#ifndef SONDE_MODEL_NOTE_H
#define SONDE_MODEL_NOTE_H

#include <stdint.h>

/* Stored in recordings: append, never renumber. */
enum sonde_note_level {
	SONDE_NOTE_EVENT = 1,	 /* happened: attach, detach, restart, exec                            */
	SONDE_NOTE_INFO = 2,	 /* an alternative not taken, with the reason                          */
	SONDE_NOTE_DEGRADED = 3, /* figures are missing or weaker; `remedy` says what to do             */
	SONDE_NOTE_CAUTION = 4,	 /* figures are right but easily misread                               */
};

struct sonde_note {
	uint64_t ts_ns; /* CLOCK_MONOTONIC */
	enum sonde_note_level level;
	const char *lens;   /* "" for the session */
	const char *what;   /* one sentence */
	const char *remedy; /* or "" */
};

const char *sonde_note_level_name(enum sonde_note_level level);

#endif
