/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libbpf's messages, one level lower than it says, and the verifier's last words. */
#ifndef SONDE_ATTACH_BPFLOG_H
#define SONDE_ATTACH_BPFLOG_H

/* Route libbpf's messages through our log; idempotent. */
void sonde_bpflog_init(void);
/* The end of the last verifier log that libbpf printed, "" if none; valid until the next load. */
const char *sonde_bpflog_verifier(void);
void sonde_bpflog_forget(void);

#endif
