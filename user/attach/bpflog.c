// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libbpf's messages are for developers: they go one level lower than it says. When the verifier
 * refuses a program libbpf prints its whole log as one warning; the last lines of that are kept,
 * for they hold the reason.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <bpf/libbpf.h>

#include "attach/bpflog.h"
#include "core/log.h"
#include "core/mem.h"

enum { KEEP_LINES = 20 };

static char verifier_tail[4096];

static void keep_tail(const char *text)
{
	const char *end = text + strlen(text), *p = end;
	int lines = 0;

	while (p > text && end - p < (long)sizeof(verifier_tail) - 1) {
		if (p[-1] == '\n' && lines++ == KEEP_LINES)
			break;
		p--;
	}
	snprintf(verifier_tail, sizeof(verifier_tail), "%s", p);
}

static const enum sonde_log_level levels[] = {
	[LIBBPF_WARN] = SONDE_LOG_INFO,
	[LIBBPF_INFO] = SONDE_LOG_DEBUG,
	[LIBBPF_DEBUG] = SONDE_LOG_DEBUG,
};

static int print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	sonde_autofree char *text = NULL;
	int len;

	if (level == LIBBPF_DEBUG ||
	    (level == LIBBPF_INFO && sonde_log_get_level() < SONDE_LOG_DEBUG))
		return 0;
	len = vasprintf(&text, fmt, ap);
	if (len < 0) {
		text = NULL;
		return 0;
	}
	if (strstr(text, "-- BEGIN PROG LOAD LOG --"))
		keep_tail(text);
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = 0;
	sonde_log(levels[level], "%s", text);
	return len;
}

void sonde_bpflog_init(void)
{
	libbpf_set_print(print);
}

const char *sonde_bpflog_verifier(void)
{
	return verifier_tail;
}

void sonde_bpflog_forget(void)
{
	verifier_tail[0] = 0;
}
