// SPDX-License-Identifier: GPL-2.0-or-later
/* Errors are logged where their cause is known and become exit codes in one table. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"

int sonde_err(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sonde_vlog(SONDE_LOG_ERROR, fmt, ap);
	va_end(ap);
	return -abs(code);
}

static const struct {
	int err;
	enum sonde_exit code;
} exit_codes[] = {
	{0, SONDE_EXIT_OK},
	{EINVAL, SONDE_EXIT_USAGE},
	{ESRCH, SONDE_EXIT_NO_TARGET},
	{EPERM, SONDE_EXIT_NOT_PERMITTED},
	{EACCES, SONDE_EXIT_NOT_PERMITTED},
	{EOPNOTSUPP, SONDE_EXIT_KERNEL_CANNOT},
};

int sonde_exit_code(int err)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(exit_codes); i++)
		if (abs(err) == exit_codes[i].err)
			return exit_codes[i].code;
	return SONDE_EXIT_FAILED;
}
