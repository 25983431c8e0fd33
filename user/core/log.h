/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages: one function, four levels, to stderr; stdout belongs to data. The level is process-wide
 * and set once by main.
 */
#ifndef SONDE_CORE_LOG_H
#define SONDE_CORE_LOG_H

#include <stdarg.h>

/* SONDE_LOG_NONE as the level silences errors too: for looking where a failure is an answer. */
enum sonde_log_level {
	SONDE_LOG_NONE = -1,
	SONDE_LOG_ERROR = 0,
	SONDE_LOG_WARN,
	SONDE_LOG_INFO,
	SONDE_LOG_DEBUG
};

void sonde_log_set_level(enum sonde_log_level level);
enum sonde_log_level sonde_log_get_level(void);

/* One line to stderr, "sonde: " in front, newline added. */
void sonde_log(enum sonde_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sonde_vlog(enum sonde_log_level level, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

#define sonde_warn(...)	 sonde_log(SONDE_LOG_WARN, __VA_ARGS__)
#define sonde_info(...)	 sonde_log(SONDE_LOG_INFO, __VA_ARGS__)
#define sonde_debug(...) sonde_log(SONDE_LOG_DEBUG, __VA_ARGS__)

/* One line into the system's journal (syslog(3), facility daemon): what was attached to or detached
 * from whom. Silent where no log daemon runs. */
void sonde_journal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
