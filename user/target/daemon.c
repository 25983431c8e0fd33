// SPDX-License-Identifier: GPL-2.0-or-later
/* Daemons by the name of their executable; the table is daemons.def. */
#include "core/mem.h"
#include "target/daemon.h"

#define SONDE_DAEMON(name_, title_, coroutines_, speaks_, ...)                                     \
	{.name = (name_),                                                                          \
	 .title = (title_),                                                                        \
	 .coroutines = (coroutines_),                                                              \
	 .speaks = (speaks_),                                                                      \
	 .exe = (const char *const[]){__VA_ARGS__, NULL}},
const struct sonde_daemon sonde_daemons[] = {
#include "target/daemons.def"
};
#undef SONDE_DAEMON
const size_t sonde_daemon_count = SONDE_ARRAY_SIZE(sonde_daemons);

/* A replaced executable reads "/usr/bin/searchd (deleted)". */
static bool is_named(const char *base, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(base, name, len) && (!base[len] || !strcmp(base + len, " (deleted)"));
}

const struct sonde_daemon *sonde_daemon_match(const char *exe_path)
{
	const char *slash = strrchr(exe_path, '/'), *base = slash ? slash + 1 : exe_path;

	for (size_t i = 0; i < sonde_daemon_count; i++)
		for (const char *const *exe = sonde_daemons[i].exe; *exe; exe++)
			if (is_named(base, *exe))
				return &sonde_daemons[i];
	return NULL;
}
