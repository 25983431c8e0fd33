// SPDX-License-Identifier: GPL-2.0-or-later
/* Errors are logged where their cause is known and become exit codes in one table. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"

/* Causes whose remedy is the same wherever they strike. */
static const struct {
	int err;
	const char *word; /* a message that has it says the remedy already */
	const char *remedy;
} remedies[] = {
	{EMFILE, "ulimit -n", "raise the limit, for example by `ulimit -n 4096`"},
	{ENFILE, "fs.file-max", "raise the machine's limit, sysctl fs.file-max"},
};

static const char *remedy_of(int code, const char *text)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(remedies); i++)
		if (abs(code) == remedies[i].err && !strstr(text, remedies[i].word))
			return remedies[i].remedy;
	return NULL;
}

int sonde_err(int code, const char *fmt, ...)
{
	sonde_autofree char *text = NULL;
	const char *remedy;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	remedy = text ? remedy_of(code, text) : NULL;
	sonde_log(SONDE_LOG_ERROR, "%s%s%s", text ? text : "out of memory", remedy ? "; " : "",
		  remedy ? remedy : "");
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
