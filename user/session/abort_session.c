// SPDX-License-Identifier: GPL-2.0-or-later
/* --abort-if in a session: what was before attach, each interval's queries, and the end of it. */
#include "core/num.h"
#include "session/internal.h"

static bool asked(const struct session *s)
{
	return s->opts->abort_if.n > 0;
}

int session_abort_begin(struct session *s)
{
	const char *figure = "";

	if (!asked(s) || sonde_abort_has_baseline(&s->abort, &figure))
		return 0;
	return session_note(
		s, SONDE_NOTE_DEGRADED,
		"give a bound of its own (p99>5ms), or attach when there is more traffic",
		"--abort-if %s: only %llu queries were seen before everything was attached, "
		"too few to compare with: that condition never holds",
		figure, (unsigned long long)s->abort.before.count);
}

static int end_by(struct session *s, const struct sonde_abort_rule *r, double is, double was)
{
	char a[40], b[40];

	s->ended = "abort-if";
	if (r->relative)
		return session_note(
			s, SONDE_NOTE_CAUTION, "look again with fewer lenses, or loosen --abort-if",
			"detached as --abort-if asked: %s of queries is %s, before attach it "
			"was %s",
			sonde_abort_name(r->figure), sonde_abort_fmt(a, sizeof(a), r->figure, is),
			sonde_abort_fmt(b, sizeof(b), r->figure, was));
	return session_note(
		s, SONDE_NOTE_CAUTION, "look again with fewer lenses, or loosen --abort-if",
		"detached as --abort-if asked: %s of queries is %s, the bound is %s",
		sonde_abort_name(r->figure), sonde_abort_fmt(a, sizeof(a), r->figure, is),
		sonde_abort_fmt(b, sizeof(b), r->figure, r->bound));
}

int session_abort_check(struct session *s)
{
	const struct sonde_abort_rule *r;
	double is = 0, was = 0;
	struct sonde_hist h;

	if (!asked(s) || sonde_hist_init(&h))
		return 0;
	sonde_snapshot_hist_total(s->snap, "query.latency", "", true, &h);
	r = sonde_abort_update(&s->abort, &h, sonde_snapshot_interval_ns(s->snap), &is, &was);
	sonde_hist_fini(&h);
	return r ? end_by(s, r, is, was) : 0;
}
