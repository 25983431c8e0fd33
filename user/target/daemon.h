/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Daemons that sonde knows by name, and the recipes that say where their query handlers are. A recipe
 * is a text file in recipes/, found by build-id or by symbol: data, no code.
 */
#ifndef SONDE_TARGET_DAEMON_H
#define SONDE_TARGET_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/site.h"

struct sonde_daemon {
	const char *name;	/* "searchd"                                                        */
	const char *title;	/* "Sphinx or Manticore search daemon"                              */
	const char *const *exe; /* basenames of the executable, NULL-terminated                     */
	const char *speaks;	/* protocols that are decoded, or NULL: none of its queries are      */
	bool coroutines;	/* may switch stacks inside a handler: never a return probe          */
};
extern const struct sonde_daemon sonde_daemons[];
extern const size_t sonde_daemon_count;
const struct sonde_daemon *sonde_daemon_match(const char *exe_path);

/* What a handler's entry tells. Reaches BPF in the cookie: append, never renumber. */
enum sonde_handler_role {
	SONDE_HANDLER_EXECUTE = 1, /* a statement begins                                            */
	SONDE_HANDLER_LOG = 2,	   /* a search ended; its arguments hold the daemon's own figures    */
	SONDE_HANDLER_COMMAND = 3, /* a request that is no statement begins                          */
	SONDE_HANDLER_YIELD = 4,   /* a coroutine is left here, and gone on with at the return       */
};

/* Where a field is: in memory at the argument register (0 = rdi, 1 = rsi, 2 = rdx, 3 = rcx) plus offset,
 * or, with @deref, where the pointer found there points. offset < 0: the recipe does not say. */
struct sonde_handler_field {
	int arg, offset;
	bool deref; /* the word at arg + offset is a pointer to the text */
	bool is_value; /* the register itself is it */
	bool is_constant; /* @offset is it, whatever the call's arguments are */
};

/* Where a query that a handler begins is over. */
enum sonde_handler_end {
	SONDE_HANDLER_END_SOCKET = 0, /* with the last thing sent before the next request is read    */
	SONDE_HANDLER_END_RETURN = 1, /* where the call returns: a probe on each of its `ret`        */
};

struct sonde_handler {
	enum sonde_handler_role role;
	char *symbol;	 /* mangled, for messages; also how to find it when the build-id differs     */
	uint64_t offset; /* file offset of the function's entry                                      */
	struct sonde_site site;
	uint64_t size;	 /* of the function, 0 unknown                                               */
	uint8_t proto;	 /* enum sonde_proto: how text and command are to be read                    */
	enum sonde_handler_end end;
	struct sonde_handler_field text, index; /* bytes up to a NUL, or as many as length says */
	struct sonde_handler_field length;	/* uint32_t, bytes of text */
	struct sonde_handler_field command, version; /* uint32_t, the protocol's number */
	struct sonde_handler_field socket;	/* int, descriptor of the connection */
	struct sonde_handler_field wall_ms;	/* int, ms */
	struct sonde_handler_field wall_us;	/* int64_t, us, of builds that keep it so */
	struct sonde_handler_field found;	/* int64_t, documents */
};

struct sonde_recipe {
	char *file;	 /* the recipe's path */
	char *title;
	struct sonde_handler *handlers;
	size_t n;
};

/*
 * The recipe for an executable: first row whose build-id is @build_id, else symbols that @elf has.
 * @dir: recipe directory, NULL for the installed one. 0, -ENOENT (nothing known, not logged), or
 * -errno (logged: a recipe that cannot be parsed names file and line).
 */
int sonde_recipe_find(const char *dir, const char *build_id, struct sonde_elf *elf,
		      struct sonde_recipe *out);
/* The same from one file that the user named. Nothing in it that fits is an error, logged with what was
 * looked for; @exe is for that message, NULL: none. */
int sonde_recipe_load(const char *file, const char *exe, const char *build_id,
		      struct sonde_elf *elf, struct sonde_recipe *out);
void sonde_recipe_fini(struct sonde_recipe *r);

#endif
