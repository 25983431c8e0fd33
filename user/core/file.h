/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Small files read whole: /proc and /sys. */
#ifndef SONDE_CORE_FILE_H
#define SONDE_CORE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Read the whole of @path: *out is a NUL-terminated heap buffer, caller frees; *len (may be NULL)
 * excludes the NUL. 0 or -errno, nothing logged. Stops with -EFBIG at 64 MiB.
 */
int sonde_read_file(const char *path, char **out, size_t *len);
/* The same for a path made by printf. */
int sonde_read_filef(char **out, size_t *len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* First line of the file without its newline, into @buf. 0 or -errno. */
int sonde_read_line(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
