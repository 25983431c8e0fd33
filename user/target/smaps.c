// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * /proc/PID/smaps as a list; see smaps.h. Read line by line: with the 65,530 mappings that a
 * process may have by default the text is some 50 MB. Rows that are not known are skipped: the
 * kernel adds some every year.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/mem.h"
#include "target/smaps.h"

#define READ_BYTES (256u << 10)

static const struct {
	const char *name;
	size_t offset;
} rows[] = {
	{"Rss", offsetof(struct sonde_smap, rss)},
	{"Anonymous", offsetof(struct sonde_smap, anonymous)},
	{"LazyFree", offsetof(struct sonde_smap, lazyfree)},
	{"AnonHugePages", offsetof(struct sonde_smap, anon_huge)},
	{"Swap", offsetof(struct sonde_smap, swap)},
	{"Shared_Hugetlb", offsetof(struct sonde_smap, hugetlb)},
	{"Private_Hugetlb", offsetof(struct sonde_smap, hugetlb)},
};

static const struct {
	char name[3];
	uint32_t flag;
} flags[] = {
	{"ht", SONDE_SMAP_HUGETLB},
	{"nh", SONDE_SMAP_NOHUGE},
	{"gd", SONDE_SMAP_GROWSDOWN},
	{"lo", SONDE_SMAP_LOCKED},
};

/* "rd wr mr mw me ac sd" */
static uint32_t parse_flags(const char *s)
{
	uint32_t mask = 0;

	while (*s) {
		size_t len;

		s += strspn(s, " \n");
		len = strcspn(s, " \n");
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(flags) && len == 2; i++)
			if (!strncmp(s, flags[i].name, 2))
				mask |= flags[i].flag;
		s += len;
	}
	return mask;
}

/* "Rss:                 123 kB" of the mapping it belongs to. */
static int parse_row(const char *line, size_t name_len, struct sonde_smap *m)
{
	if (name_len == 7 && !strncmp(line, "VmFlags", 7)) {
		m->flags = parse_flags(line + name_len + 1);
		return 0;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		uint64_t kib, *to;
		int end = 0;

		if (strlen(rows[i].name) != name_len || strncmp(line, rows[i].name, name_len))
			continue;
		errno = 0;
		if (sscanf(line + name_len + 1, " %" SCNu64 " kB%n", &kib, &end) != 1 || !end ||
		    errno || strchr(line, '-') || kib > UINT64_MAX >> 12)
			return -EINVAL;
		to = (uint64_t *)((char *)m + rows[i].offset);
		*to += kib << 10;
		return 0;
	}
	return 0;
}

/* A mapping's first line has a blank where a row has its colon. */
static int parse_line(struct sonde_smaps *s, const char *line, size_t len)
{
	size_t name_len = strcspn(line, ": ");
	int err;

	if (line[name_len] == ':')
		return s->n ? parse_row(line, name_len, &s->m[s->n - 1]) : -EINVAL;
	err = SONDE_GROW(s->m, s->n, s->cap);
	if (err)
		return err;
	s->m[s->n] = (struct sonde_smap){0};
	err = sonde_map_parse(line, len, &s->m[s->n].map);
	if (!err)
		s->n++;
	return err;
}

static int parse_stream(FILE *f, struct sonde_smaps *out)
{
	struct sonde_smaps s = {0};
	sonde_autofree char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	int err = 0;

	errno = 0;
	while (!err && (len = getline(&line, &cap, f)) > 0) {
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		err = strlen(line) == (size_t)len ? parse_line(&s, line, (size_t)len) : -EINVAL;
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	if (err)
		sonde_smaps_fini(&s);
	else
		*out = s;
	return err;
}

int sonde_smaps_parse(const char *text, size_t len, struct sonde_smaps *out)
{
	sonde_autofclose FILE *f = NULL;

	if (!len) {
		*out = (struct sonde_smaps){0};
		return 0;
	}
	f = fmemopen((void *)text, len, "r");
	return f ? parse_stream(f, out) : -errno;
}

int sonde_smaps_read(pid_t pid, struct sonde_smaps *out, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();
	sonde_autofree char *buf = malloc(READ_BYTES);
	sonde_autofclose FILE *f = NULL;
	char path[64];
	int err;

	if (!buf)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	setvbuf(f, buf, _IOFBF, READ_BYTES);
	err = parse_stream(f, out);
	if (!err && took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return err;
}

void sonde_smaps_fini(struct sonde_smaps *smaps)
{
	for (size_t i = 0; i < smaps->n; i++)
		free(smaps->m[i].map.path);
	free(smaps->m);
	*smaps = (struct sonde_smaps){0};
}
