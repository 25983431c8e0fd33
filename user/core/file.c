// SPDX-License-Identifier: GPL-2.0-or-later
/* Small files read whole; see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"

#define MAX_FILE_BYTES (64u << 20)

int sonde_read_file(const char *path, char **out, size_t *len)
{
	sonde_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	sonde_autofree char *buf = NULL;
	size_t used = 0, cap = 4096;

	if (fd < 0)
		return -errno;
	for (;;) {
		char *bigger = realloc(buf, cap + 1);
		ssize_t n;

		if (!bigger)
			return -ENOMEM;
		buf = bigger;
		n = read(fd, buf + used, cap - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
		if (used == cap)
			cap *= 2;
		if (cap > MAX_FILE_BYTES)
			return -EFBIG;
	}
	buf[used] = '\0';
	if (len)
		*len = used;
	*out = SONDE_TAKE(buf);
	return 0;
}

int sonde_read_filef(char **out, size_t *len, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return sonde_read_file(path, out, len);
}

int sonde_read_line(char *buf, size_t size, const char *fmt, ...)
{
	sonde_autofree char *text = NULL;
	char path[PATH_MAX];
	va_list ap;
	int err;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	err = sonde_read_file(path, &text, NULL);
	if (err)
		return err;
	snprintf(buf, size, "%.*s", (int)strcspn(text, "\n"), text);
	return 0;
}
