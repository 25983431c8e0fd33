/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ownership that can be seen in one function: attributes free a local when it goes out of scope, and
 * SONDE_TAKE hands it over. A file descriptor is born -1.
 */
#ifndef SONDE_CORE_MEM_H
#define SONDE_CORE_MEM_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>

static inline void sonde_cleanup_free(void *p)
{
	free(*(void **)p);
}

/* close() may clobber errno; a cleanup must not. */
static inline void sonde_cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void sonde_cleanup_fclose(FILE **f)
{
	int saved = errno;

	if (*f)
		fclose(*f);
	errno = saved;
}

static inline void sonde_cleanup_closedir(DIR **d)
{
	int saved = errno;

	if (*d)
		closedir(*d);
	errno = saved;
}

#define sonde_autofree	  __attribute__((cleanup(sonde_cleanup_free)))
#define sonde_autoclose	  __attribute__((cleanup(sonde_cleanup_close)))
#define sonde_autofclose  __attribute__((cleanup(sonde_cleanup_fclose)))
#define sonde_autoclosedir __attribute__((cleanup(sonde_cleanup_closedir)))

/* Give up ownership of pointer @p: its value, and NULL stays behind. */
#define SONDE_TAKE(p)                                                                              \
	({                                                                                         \
		__typeof__(p) sonde_taken = (p);                                                   \
		(p) = NULL;                                                                        \
		sonde_taken;                                                                       \
	})

#define SONDE_TAKE_FD(fd)                                                                          \
	({                                                                                         \
		int sonde_taken = (fd);                                                            \
		(fd) = -1;                                                                         \
		sonde_taken;                                                                       \
	})

#define SONDE_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Grow a heap array so that one more element fits: @arr pointer, @n used, @cap room (size_t lvalues).
 * 0 or -ENOMEM; on failure the array is as it was.
 */
#define SONDE_GROW(arr, n, cap)                                                                    \
	({                                                                                         \
		int sonde_grow_err = 0;                                                            \
		if ((n) >= (cap)) {                                                                \
			size_t sonde_cap = (cap) ? (cap) * 2 : 8;                                  \
			void *sonde_p = reallocarray((arr), sonde_cap, sizeof(*(arr)));            \
			if (sonde_p) {                                                             \
				(arr) = sonde_p;                                                   \
				(cap) = sonde_cap;                                                 \
			} else {                                                                   \
				sonde_grow_err = -ENOMEM;                                          \
			}                                                                          \
		}                                                                                  \
		sonde_grow_err;                                                                    \
	})

#endif
