/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the treatment all that differs? What each server was changed in from its first recorded
 * process to its last, when it was restarted, for how much of the time it was recorded and by what,
 * and what it was asked: told where it is not as the experiment says.
 */
#ifndef SONDE_JUDGE_TRIAL_AUDIT_H
#define SONDE_JUDGE_TRIAL_AUDIT_H

#include "judge/trial_queries.h"
#include "model/snapshot.h"

/* What is known of one server; recordings in order of time. */
struct sonde_audit_server {
	const struct sonde_reader **files; /* borrowed */
	size_t n, cap;
	const struct sonde_snapshot *snap; /* its notes; borrowed */
};

struct sonde_audit {
	char **lines; /* what was changed, and when: as the experiment says                      */
	size_t n_lines, cap_lines;
	char **cautions;
	size_t n_cautions, cap_cautions;
	/* Settings that a server was changed in, as the experiment says; owned by the recordings.
	 */
	struct sonde_audit_change {
		size_t server;
		const char *what;
	} * changes;
	size_t n_changes, cap_changes;
	char **refused; /* what cannot be compared, and why                                      */
	size_t n_refused, cap_refused;
};

/* A recording of @server (an index of the trial); they come in order of time. 0 or -ENOMEM. */
int sonde_audit_add(struct sonde_audit_server *server, const struct sonde_reader *r);
/*
 * Before figures are judged: metrics that cannot be compared leave the trial. 0, -ENOMEM, or
 * -EINVAL (logged) where nothing can.
 */
int sonde_audit_make(struct sonde_trial *t, const struct sonde_audit_server *servers,
		     const struct sonde_trial_queries *q, struct sonde_audit *out);
void sonde_audit_fini(struct sonde_audit *a);
/* Is it known in what this server was changed, and is this of it? */
bool sonde_audit_knows_changes(const struct sonde_audit *a, size_t server);
bool sonde_audit_is_change(const struct sonde_audit *a, size_t server, const char *what);
void sonde_audit_server_fini(struct sonde_audit_server *s);

/* The last process of a server that was recorded: the number of its target, as text. */
void sonde_audit_last_target(const struct sonde_audit_server *s, char *buf, size_t size);

#endif
