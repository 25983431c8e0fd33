// SPDX-License-Identifier: GPL-2.0-or-later
/* /proc/PID/maps as a list; see maps.h. A path may hold any byte but NUL; a newline is octal there.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "target/maps.h"

/* Hexadecimal number at *p, moved behind it; it must be followed by @end. */
static bool hex(const char **p, char end, uint64_t *out)
{
	char *stop;

	if (!isxdigit((unsigned char)**p))
		return false;
	errno = 0;
	*out = strtoull(*p, &stop, 16);
	if (errno || *stop != end)
		return false;
	*p = stop + 1;
	return true;
}

/* "\012" back to a newline: the only escape that the kernel writes here (seq_path with "\n"). */
static char *copy_path(const char *s, size_t len)
{
	char *path = malloc(len + 1), *to = path;

	if (!path)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (len - i >= 4 && !memcmp(s + i, "\\012", 4)) {
			*to++ = '\n';
			i += 3;
		} else {
			*to++ = s[i];
		}
	}
	*to = '\0';
	return path;
}

int sonde_map_parse(const char *line, size_t len, struct sonde_map *out)
{
	const char *p = line, *end = line + len;
	uint64_t major, minor;
	struct sonde_map m = {0};
	int digits = 0;

	if (!hex(&p, '-', &m.start) || !hex(&p, ' ', &m.end) || m.end <= m.start)
		return -EINVAL;
	if (end - p < 5 || p[4] != ' ' || !strchr("ps", p[3]))
		return -EINVAL;
	m.r = p[0] == 'r';
	m.w = p[1] == 'w';
	m.x = p[2] == 'x';
	m.shared = p[3] == 's';
	p += 5;
	if (!hex(&p, ' ', &m.pgoff) || !hex(&p, ':', &major) || !hex(&p, ' ', &minor) ||
	    !isdigit((unsigned char)*p))
		return -EINVAL;
	m.dev_major = (uint32_t)major;
	m.dev_minor = (uint32_t)minor;
	if (sscanf(p, "%" SCNu64 "%n", &m.inode, &digits) != 1)
		return -EINVAL;
	for (p += digits; p < end && *p == ' ';)
		p++;
	if (p > end)
		return -EINVAL;
	m.path = copy_path(p, (size_t)(end - p));
	if (!m.path)
		return -ENOMEM;
	*out = m;
	return 0;
}

int sonde_maps_parse(const char *text, struct sonde_maps *out)
{
	struct sonde_maps maps = {0};
	int err = 0;

	while (*text && !err) {
		size_t len = strcspn(text, "\n");
		struct sonde_map m;

		err = sonde_map_parse(text, len, &m);
		if (!err) {
			err = SONDE_GROW(maps.m, maps.n, maps.cap);
			if (err)
				free(m.path);
			else
				maps.m[maps.n++] = m;
		}
		text += len + (text[len] == '\n');
	}
	if (err)
		sonde_maps_fini(&maps);
	else
		*out = maps;
	return err;
}

int sonde_maps_read(pid_t pid, struct sonde_maps *out)
{
	sonde_autofree char *text = NULL;
	size_t len;
	int err = sonde_read_filef(&text, &len, "/proc/%d/maps", pid);

	if (err)
		return err == -ENOENT ? -ESRCH : err;
	return sonde_maps_parse(text, out);
}

void sonde_maps_fini(struct sonde_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->m[i].path);
	free(maps->m);
	*maps = (struct sonde_maps){0};
}
