/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `ps` and `doctor` say of a process: the same facts, read the same way. A fact that could not
 * be had is "" or -1, never a guess.
 */
#ifndef SONDE_CLI_FACTS_H
#define SONDE_CLI_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/str.h"
#include "target/target.h"

struct sonde_facts {
	pid_t pid, ppid;
	char name[46]; /* of the process, made harmless: 15 bytes, 3 each at most */
	char allocator[64]; /* "glibc 2.36"; "" where none was recognised                      */
	char thp[16];	    /* what holds for it: "always", "madvise", "never", "off by prctl" */
	int64_t rss_bytes;  /* -1: not known                                                   */
	uint64_t age_ns;    /* 0: not known                                                    */
	struct sonde_str listens; /* "127.0.0.1:9306 /run/x.sock" */
	size_t n_listens;
	const char *daemon; /* title of a daemon that sonde knows, or NULL */
	const char *speaks; /* of a known daemon: its protocols that are decoded, or NULL */
	char recipe[64]; /* file name of the recipe for its query handlers, or ""                */
};

/* The word in brackets of a sysfs choice ("always [madvise] never"), "" if there is none. */
void sonde_facts_thp_system(char *buf, size_t size);
/* Facts of an opened target. 0 or -errno (nothing logged). Free with the fini. */
int sonde_facts_read(const struct sonde_target *t, struct sonde_facts *out);
/* The user named @file (may be NULL) instead of what sonde brings. */
void sonde_facts_use_recipe(struct sonde_facts *f, const char *file);
void sonde_facts_fini(struct sonde_facts *f);

/* "4 d 3 h", "12 s" into @buf, returned; "?" for 0. */
const char *sonde_fmt_age(char *buf, size_t size, uint64_t ns);

#endif
