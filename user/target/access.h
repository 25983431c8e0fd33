/* SPDX-License-Identifier: GPL-2.0-or-later */
/* May this process be looked into, and what to do if not. Inside target/ only. */
#ifndef SONDE_TARGET_ACCESS_H
#define SONDE_TARGET_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Does the kernel refuse it? A process that is gone is not denied. */
bool sonde_access_denied(pid_t pid);
/* Why we are refused, to stand behind "PID (name) ": cause and remedy by what we are. */
void sonde_access_denial(char *buf, size_t size);
/* The same for a given user and set of effective capabilities. */
const char *sonde_access_reason(bool is_root, uint64_t caps);

#endif
