/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose memory a mapping is. The kernel gives hardly any anonymous mapping a name, so most kinds are told by
 * shape: glibc's arenas begin at multiples of 64 MiB and reserve the rest of theirs, stacks have a
 * guard below them and a thread's stack pointer inside. A kind is a whole mapping's: the kernel merges
 * neighbours of equal rights, and nothing in smaps says where one ends.
 */
#ifndef SONDE_TARGET_MAPKIND_H
#define SONDE_TARGET_MAPKIND_H

#include "target/smaps.h"

/* name: label in outputs; title: for people. Anonymous kinds first, then RssShmem's, then RssFile's. */
#define SONDE_MAP_KINDS(X)                                                                         \
	X(HEAP, "heap", "brk heap")                                                                \
	X(ARENA, "arenas", "malloc arenas")                                                        \
	X(EXTENT, "named", "allocator's named mappings")                                           \
	X(LARGE, "large", "malloc's own mappings")                                                 \
	X(MMAP, "mapped", "other mappings")                                                        \
	X(STACK, "stacks", "stacks")                                                               \
	X(DATA, "data", "program data")                                                            \
	X(SHARED, "shared", "anonymous shared")                                                    \
	X(MEMFD, "memfd", "memfd")                                                                 \
	X(SYSV, "sysv", "SysV")                                                                    \
	X(TMPFS, "tmpfs", "files on tmpfs")                                                        \
	X(FILE, "file", "files")

enum sonde_map_kind {
#define SONDE_MAP_KIND_ENUM(sym, ...) SONDE_MAP_##sym,
	SONDE_MAP_KINDS(SONDE_MAP_KIND_ENUM)
#undef SONDE_MAP_KIND_ENUM
	SONDE_MAP__MAX
};

const char *sonde_map_kind_name(enum sonde_map_kind kind);
static inline bool sonde_map_kind_is_anon(enum sonde_map_kind kind)
{
	return kind <= SONDE_MAP_DATA;
}
static inline bool sonde_map_kind_is_shmem(enum sonde_map_kind kind)
{
	return kind >= SONDE_MAP_SHARED && kind <= SONDE_MAP_TMPFS;
}

/* What else is known of the process; sorted lists. */
struct sonde_mapkind_hints {
	bool glibc_malloc; /* its allocator is glibc's: it has arenas                             */
	const uint64_t *sp; /* stack pointers of threads that wait                                */
	size_t n_sp;
	const uint64_t *shmem_dev; /* devices (major << 32 | minor) whose pages are RssShmem       */
	size_t n_shmem_dev;
};

/*
 * The kind of every mapping into @kinds (room for maps->n). A file's or shared mapping's kind is that of
 * its unwritten pages; its private copies (`anonymous`) are SONDE_MAP_DATA.
 */
void sonde_mapkind(const struct sonde_smaps *maps, const struct sonde_mapkind_hints *hints,
		   enum sonde_map_kind *kinds);

/* What the name of a shared-memory or file mapping is in outputs: "anonymous", "memfd:NAME",
 * "SYSV00000000", or its path without " (deleted)". Into @buf, returned. */
const char *sonde_map_label(const struct sonde_map *map, enum sonde_map_kind kind, char *buf,
			    size_t size);
/* ".spd" of "/x/docs.spd", ".so" of "/lib/libc.so.6", "(none)"; into @buf, returned. */
const char *sonde_path_ext(const char *path, char *buf, size_t size);

/*
 * The stack pointers of the threads that wait in the kernel, sorted; *out heap. One read of
 * /proc/PID/task/TID/syscall a thread, 5 us; nothing is stopped. 0 or -errno.
 */
int sonde_stack_pointers(pid_t pid, uint64_t **out, size_t *n);
/* The same of one text: "230 0x1 ... SP PC"; "running" is -EAGAIN. */
int sonde_stack_pointer_parse(const char *text, uint64_t *sp);
/* Devices of tmpfs and devtmpfs as the process has them mounted; sorted, *out heap. 0 or -errno. */
int sonde_shmem_devices(pid_t pid, uint64_t **out, size_t *n);
int sonde_shmem_devices_parse(const char *text, uint64_t **out, size_t *n);

#endif
