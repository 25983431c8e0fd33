/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of the places in a target from which a call was made. Inside lens/ only. */
#ifndef SONDE_LENS_ASK_CALLER_H
#define SONDE_LENS_ASK_CALLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Return address @addr of @pid as text into @buf: "handle_query+0x1c (searchd)"; where the file has
 * no name for it the module and how far above its lowest address, "searchd+0x12f3"; where no file
 * is mapped the address. Never fails: of a process that went there are addresses only.
 */
void sonde_ask_caller_name(pid_t pid, uint64_t addr, char *buf, size_t size);

#endif
