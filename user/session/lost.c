// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes that went by themselves: their guard ended, since it had not heard of sonde for its time,
 * or by somebody else's doing. The kernel side has stopped all of a lens's counting at one moment,
 * before the first probe went. What counts up is right until then and is kept; what is a level
 * (live bytes) has no value after it. Whoever reads figures asks here first.
 */
#include <errno.h>

#include "core/mem.h"
#include "session/internal.h"

#define STARVED_SLACK_NS (100 * SONDE_NS_PER_MS)

/* A child without a timer is unknown to the kernel side: its end is when it was noticed. */
static uint64_t lost_since(const struct session *s, int lens)
{
	uint64_t ns = sonde_engine_lost_ns(s->engine, lens);

	return ns ? ns : sonde_mono_ns();
}

/* Of the lenses in *lost those that rest now and then anyway rest now; they leave the mask. */
static int rest_lost(struct session *s, uint32_t *lost)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++) {
		if (!(*lost & 1u << l) || !s->inited[l] || !s->ctx[l].lens->pulse)
			continue;
		*lost &= ~(1u << l);
		s->ctx[l].lost_ns = lost_since(s, l);
		err = sonde_engine_detach(s->engine, l, NULL);
		s->resting[l] = true;
		if (!err)
			err = session_note(s, SONDE_NOTE_INFO, "",
					   "%s: its probes were removed by their guard while sonde "
					   "was stopped or starved for 2 s; they are put back",
					   s->ctx[l].lens->name);
	}
	return err;
}

static bool was_starved(const struct session *s)
{
	return s->lost_ns + STARVED_SLACK_NS >= s->last_beat_ns + GUARD_NS;
}

static int note_lost(struct session *s)
{
	bool starved = was_starved(s);

	return session_note(
		s, SONDE_NOTE_DEGRADED,
		starved ? "observe when the machine is less busy"
			: "see what ended the process sonde-guard, such as the kernel's "
			  "out-of-memory killer",
		"%s: %s; calls and bytes are those until then, live bytes are not known after it",
		s->lost_why,
		starved ? "the guard removed the probes, since sonde was stopped or starved for 2 s"
			: "the guard removed the probes, since something ended it");
}

int session_check_guard(struct session *s)
{
	uint32_t lost = s->engine && !s->lost_ns ? sonde_engine_guards_lost(s->engine) : 0;
	int err = lost ? rest_lost(s, &lost) : 0;

	if (err || !lost)
		return err;
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		uint64_t since = lost & 1u << l ? lost_since(s, l) : 0;

		s->ctx[l].lost_ns = since;
		if (since && (!s->lost_ns || since < s->lost_ns))
			s->lost_ns = since;
	}
	snprintf(s->lost_why, sizeof(s->lost_why), "probes were removed at +%.1f s",
		 s->lost_ns > s->first_active_ns && s->first_active_ns
			 ? (double)(s->lost_ns - s->first_active_ns) / SONDE_NS_PER_SEC
			 : 0.0);
	for (int l = 0; l < SONDE_LENS__MAX; l++)
		s->ctx[l].lost_why = s->lost_why;
	s->ended = "probes lost";
	if (s->active_since_ns && s->lost_ns > s->active_since_ns)
		s->observed_ns += s->lost_ns - s->active_since_ns;
	s->active_since_ns = 0;
	return note_lost(s);
}
