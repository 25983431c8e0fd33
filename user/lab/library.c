// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The dynamic linker's cache, in the format that glibc has written since 2.2 (a header, a table of
 * entries, their strings; offsets count from the header). ldconfig of glibc before 2.32 puts an
 * older table in front. Invariant: no offset of the file is followed before it is checked.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "lab/library.h"

#define CACHE	    "/etc/ld.so.cache"
#define MAGIC	    "glibc-ld.so.cache1.1"
#define LIB_X86_64  0x0303 /* an ELF library for libc6, x86-64 */
#define MAX_ENTRIES (1u << 20)

struct cache_header {
	char magic[20];
	uint32_t entries, string_bytes, flags, extension, unused[3];
};

struct cache_entry {
	int32_t flags;
	uint32_t key, value, os_version;
	uint64_t hwcap;
};

/* The string at @offset, or NULL where it is not wholly inside. */
static const char *text_at(const char *cache, size_t len, uint32_t offset)
{
	return offset < len && memchr(cache + offset, '\0', len - offset) ? cache + offset : NULL;
}

static int copy_path(char *buf, size_t size, const char *path)
{
	if (strlen(path) >= size)
		return -ENAMETOOLONG;
	strcpy(buf, path);
	return 0;
}

int sonde_library_in_cache(const char *cache, size_t len, const char *soname, char *buf,
			   size_t size)
{
	const char *start = len ? memmem(cache, len, MAGIC, strlen(MAGIC)) : NULL;
	struct cache_header head;

	if (!start)
		return -ENOENT;
	len -= (size_t)(start - cache);
	if (len < sizeof(head))
		return -ENOENT;
	memcpy(&head, start, sizeof(head));
	if (head.entries > MAX_ENTRIES ||
	    head.entries > (len - sizeof(head)) / sizeof(struct cache_entry))
		return -ENOENT;
	for (uint32_t i = 0; i < head.entries; i++) {
		struct cache_entry e;
		const char *key, *value;

		memcpy(&e, start + sizeof(head) + i * sizeof(e), sizeof(e));
		key = text_at(start, len, e.key);
		value = text_at(start, len, e.value);
		if (e.flags == LIB_X86_64 && !e.hwcap && key && value && value[0] == '/' &&
		    !strcmp(key, soname))
			return copy_path(buf, size, value);
	}
	return -ENOENT;
}

static int in_folders(const char *soname, char *buf, size_t size)
{
	static const char *const folders[] = {
		"/lib/x86_64-linux-gnu",
		"/usr/lib/x86_64-linux-gnu",
		"/lib64",
		"/usr/lib64",
		"/usr/local/lib",
		"/lib",
		"/usr/lib",
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(folders); i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", folders[i], soname);
		if (!access(path, R_OK))
			return copy_path(buf, size, path);
	}
	return -ENOENT;
}

int sonde_library_find(const char *soname, char *buf, size_t size)
{
	sonde_autofree char *cache = NULL;
	size_t len;

	/* The cache may be older than the folders: what it names must be there. */
	if (!sonde_read_file(CACHE, &cache, &len) &&
	    !sonde_library_in_cache(cache, len, soname, buf, size) && !access(buf, R_OK))
		return 0;
	return in_folders(soname, buf, size);
}
