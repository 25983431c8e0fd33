// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System-wide settings that decide about huge pages. Read at the beginning for the recording's meta
 * and again each interval (13 short files, some 60 us); a change is an event with its time. Nothing
 * here is ever written. Invariant: meta keeps what held when recording began.
 */
#include <errno.h>
#include <glob.h>

#include "core/file.h"
#include "core/mem.h"
#include "session/internal.h"
#include "target/proc.h"

#define THP_DIR	    "/sys/kernel/mm/transparent_hugepage"
#define MAX_WATCHED 16 /* targets whose own setting is looked at */
#define NOT_READ    (-2)

/* The word in brackets is the setting in force. Heap, caller frees; NULL: there is none. */
static char *read_setting(const char *path)
{
	char line[128], *open, *shut;

	if (sonde_read_line(line, sizeof(line), "%s", path))
		return NULL;
	open = strchr(line, '[');
	shut = open ? strchr(open, ']') : NULL;
	if (shut)
		*shut = '\0';
	return strdup(shut ? open + 1 : line);
}

static int add_setting(struct session *s, const char *key, const char *path)
{
	struct setting row = {.key = strdup(key), .value = read_setting(path)};
	int err = row.key ? SONDE_GROW(s->settings.row, s->settings.n, s->settings.cap) : -ENOMEM;

	if (!err && row.value)
		err = sonde_meta_set(&s->meta, key, "%s", row.value);
	if (err) {
		free(row.key);
		free(row.value);
		return err;
	}
	snprintf(row.path, sizeof(row.path), "%s", path);
	s->settings.row[s->settings.n++] = row;
	return 0;
}

/* "thp.hugepages-64kB.enabled", of kernels since 6.8. */
static int add_sizes(struct session *s)
{
	glob_t found = {0};
	int err = 0;

	if (!glob(THP_DIR "/hugepages-*/enabled", 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc && !err; i++) {
			char key[64], size[32];

			if (sscanf(found.gl_pathv[i], THP_DIR "/%31[^/]", size) != 1)
				continue;
			snprintf(key, sizeof(key), "thp.%s.enabled", size);
			err = add_setting(s, key, found.gl_pathv[i]);
		}
	}
	globfree(&found);
	return err;
}

int session_settings_read(struct session *s)
{
	static const struct {
		const char *key, *path;
	} rows[] = {
		{"thp.enabled", THP_DIR "/enabled"},
		{"thp.defrag", THP_DIR "/defrag"},
		{"thp.max_ptes_none", THP_DIR "/khugepaged/max_ptes_none"},
	};
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows) && !err; i++)
		err = add_setting(s, rows[i].key, rows[i].path);
	return err ? err : add_sizes(s);
}

static int check_row(struct session *s, struct setting *row)
{
	char *now = read_setting(row->path);
	int err;

	if (!now || (row->value && !strcmp(now, row->value))) {
		free(now); /* unreadable for a moment is no change */
		return 0;
	}
	err = session_note(s, SONDE_NOTE_EVENT, "", "%s changed from %s to %s", row->key,
			   row->value ? row->value : "nothing", now);
	free(row->value);
	row->value = now;
	return err;
}

/* A process may switch its own huge pages off at any time (redis does, mongod does not). */
static int check_target(struct session *s, size_t i)
{
	const struct sonde_target *t = &s->targets.t[i];
	struct sonde_proc_mem mem;
	int before = s->settings.thp[i];

	if (t->gone || sonde_proc_mem(t->pid, &mem) || mem.thp_enabled < 0)
		return 0;
	s->settings.thp[i] = mem.thp_enabled;
	if (before == NOT_READ || before == mem.thp_enabled)
		return 0;
	return session_note(s, SONDE_NOTE_EVENT, "",
			    "THP_enabled of %s (pid %d) changed from %d to %d", t->comm, t->pid,
			    before, mem.thp_enabled);
}

static int grow_thp(struct settings *w, size_t n)
{
	int *more = n > w->n_thp ? reallocarray(w->thp, n, sizeof(*more)) : w->thp;

	if (n && !more)
		return -ENOMEM;
	w->thp = more;
	while (w->n_thp < n)
		w->thp[w->n_thp++] = NOT_READ;
	return 0;
}

int session_settings_check(struct session *s)
{
	size_t n = s->targets.n < MAX_WATCHED ? s->targets.n : MAX_WATCHED;
	int err = grow_thp(&s->settings, n);

	for (size_t i = 0; i < s->settings.n && !err; i++)
		err = check_row(s, &s->settings.row[i]);
	for (size_t i = 0; i < n && !err; i++)
		err = check_target(s, i);
	return err;
}

void session_settings_fini(struct session *s)
{
	for (size_t i = 0; i < s->settings.n; i++) {
		free(s->settings.row[i].key);
		free(s->settings.row[i].value);
	}
	free(s->settings.row);
	free(s->settings.thp);
	s->settings = (struct settings){0};
}
