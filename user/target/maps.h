/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The target's mappings. A mapped file is an inode: it is opened by its path where that still leads to
 * the inode, by the path in the target's mount namespace, or through /proc/PID/map_files/A-B, which
 * needs no path and so works for files that were deleted or replaced.
 */
#ifndef SONDE_TARGET_MAPS_H
#define SONDE_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sonde_map {
	uint64_t start, end, pgoff; /* bytes */
	bool r, w, x, shared;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	char *path; /* as the target sees it, " (deleted)" kept; "" anonymous, "[heap]" */
};

struct sonde_maps {
	struct sonde_map *m;
	size_t n, cap;
};

/* 0 or -errno (-ESRCH: gone). */
int sonde_maps_read(pid_t pid, struct sonde_maps *out);
/* The same of a text, for tests and fuzzing: 0, -EINVAL or -ENOMEM. */
int sonde_maps_parse(const char *text, struct sonde_maps *out);
void sonde_maps_fini(struct sonde_maps *maps);
/* One line, "7f00-7f10 r-xp 00001000 fe:01 1234   /path", of @len bytes and a NUL or newline. Free
 * out->path. 0, -EINVAL or -ENOMEM. */
int sonde_map_parse(const char *line, size_t len, struct sonde_map *out);

/* A file that is mapped executable, once however many segments it has, in order of address; the
 * executable itself is first. */
struct sonde_module {
	char *path;	 /* as the target sees it */
	char *open_path; /* a path by which sonde and the kernel can open that very inode now        */
	uint64_t inode;
	uint64_t dev;	 /* as major << 32 | minor */
	uint64_t base;	 /* lowest mapped address */
	uint64_t text_start, text_end, text_pgoff; /* its first executable segment */
	bool deleted;
	bool is_exe;
};
struct sonde_modules {
	struct sonde_module *m;
	size_t n, cap;
};
int sonde_modules_read(pid_t pid, struct sonde_modules *out);
void sonde_modules_fini(struct sonde_modules *mods);
/* Root of the file system that a module's process sees ("/proc/7/root", of open_path
 * "/proc/7/map_files/..."), where separate debug files are; "" where it is of none. */
void sonde_module_root(const struct sonde_module *m, char *root, size_t size);

#endif
