// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages to stderr and to the journal. A line is written with one call, so lines do not
 * interleave. */
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "core/log.h"
#include "core/str.h"

static enum sonde_log_level log_level = SONDE_LOG_WARN;

void sonde_log_set_level(enum sonde_log_level level)
{
	log_level = level;
}

enum sonde_log_level sonde_log_get_level(void)
{
	return log_level;
}

void sonde_vlog(enum sonde_log_level level, const char *fmt, va_list ap)
{
	sonde_autostr struct sonde_str clean = {0};
	char line[2048];

	if (level > log_level)
		return;
	vsnprintf(line, sizeof(line), fmt, ap);
	/* It may quote a name that the target chose. */
	sonde_str_add_utf8(&clean, line, strlen(line));
	fprintf(stderr, "sonde: %s%s\n", level == SONDE_LOG_WARN ? "warning: " : "",
		sonde_str_get(&clean));
}

void sonde_log(enum sonde_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sonde_vlog(level, fmt, ap);
	va_end(ap);
}

void sonde_journal(const char *fmt, ...)
{
	va_list ap;

	openlog("sonde", LOG_PID, LOG_DAEMON);
	va_start(ap, fmt);
	vsyslog(LOG_NOTICE, fmt, ap);
	va_end(ap);
}
