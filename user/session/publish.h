/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The writer's side of sonde/consumption.h: a file of one page, made so that no other file can be
 * overwritten, and gone when its writer ends in order.
 */
#ifndef SONDE_SESSION_PUBLISH_H
#define SONDE_SESSION_PUBLISH_H

#include <stdint.h>
#include <sys/types.h>

#include "sonde/consumption.h"

struct sonde_publisher;

/*
 * Make @path, readable by all, with a @first value. A page that a publisher left which no longer
 * runs is replaced; any other file, a symbolic link or the page of one that runs is refused. 0 or
 * -errno (logged).
 */
int sonde_publisher_open(struct sonde_publisher **out, const char *path, uint64_t interval_ns,
			 pid_t target, const struct sonde_consumption *first);
/* Show a new value: no system call. */
void sonde_publisher_write(struct sonde_publisher *p, const struct sonde_consumption *value);
/* What somebody else has done to the file, so that no reader finds what is written; NULL: nothing.
 */
const char *sonde_publisher_damage(const struct sonde_publisher *p);
/* Say that no newer value will come, and remove the file. */
void sonde_publisher_close(struct sonde_publisher **p);

#endif
