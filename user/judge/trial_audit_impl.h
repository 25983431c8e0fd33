/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the audit share; see trial_audit.h. */
#ifndef SONDE_JUDGE_TRIAL_AUDIT_IMPL_H
#define SONDE_JUDGE_TRIAL_AUDIT_IMPL_H

#include "judge/settings.h"
#include "judge/trial_audit.h"

/* One process of a server. */
struct audit_process {
	struct sonde_settings facts;
	uint64_t start_ns; /* UTC; 0: not known */
};

struct audit {
	struct sonde_trial *t;
	const struct sonde_audit_server *servers;
	const struct sonde_trial_queries *q;
	struct sonde_audit *out;
	struct audit_process *first, *last; /* [n_servers] */
	size_t *n;			    /* [n_servers] processes */
};

/* A sentence, by printf. 0 or -ENOMEM. */
int audit_say(struct audit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int audit_caution(struct audit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int audit_refuse(struct audit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* trial_audit_process.c: the servers' processes, in what they were changed, when they began. */
int audit_find_processes(struct audit *a);
int audit_check_changes(struct audit *a, size_t server);
int audit_check_restart(struct audit *a, size_t server);
int audit_check_ages(struct audit *a);

#endif
