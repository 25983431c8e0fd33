/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors: a function returns 0 or -errno, and leaves its outputs alone unless it succeeds. The place
 * that knows the cause logs it once with sonde_err() and returns its value; callers pass it up
 * without logging again. A message names the thing, the cause and the remedy.
 */
#ifndef SONDE_CORE_ERR_H
#define SONDE_CORE_ERR_H

/* Documented exit codes of every command. */
enum sonde_exit {
	SONDE_EXIT_OK = 0,
	SONDE_EXIT_FAILED = 1,
	SONDE_EXIT_USAGE = 2,
	SONDE_EXIT_NO_TARGET = 3,
	SONDE_EXIT_NOT_PERMITTED = 4,
	SONDE_EXIT_KERNEL_CANNOT = 5,
	SONDE_EXIT_DEGRADED = 6,
};

/* Error classes beyond errno's use: -ESRCH no such target, -EPERM or -EACCES not permitted,
 * -EOPNOTSUPP the kernel cannot, -EINVAL bad usage; anything else is a failure. */

/* Log one error line ("sonde: ...") and return -abs(code). @code: an errno, either sign, never 0. Where
 * the remedy follows from the errno alone (EMFILE) it is added to the message. */
int sonde_err(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The exit code for a command that ended with @err (0 or -errno). */
int sonde_exit_code(int err);

#endif
