/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds a shared library by its soname, as the dynamic linker would: its cache, then its usual
 * folders. Only 64-bit x86 libraries are found.
 */
#ifndef SONDE_LAB_LIBRARY_H
#define SONDE_LAB_LIBRARY_H

#include <stddef.h>

/* Path into @buf: 0, -ENOENT or -ENAMETOOLONG; nothing logged. */
int sonde_library_find(const char *soname, char *buf, size_t size);
/* The same in the bytes of a cache file (/etc/ld.so.cache), which are not trusted. */
int sonde_library_in_cache(const char *cache, size_t len, const char *soname, char *buf,
			   size_t size);

#endif
