// SPDX-License-Identifier: GPL-2.0-or-later
/* Facts of a process, gathered from target/. Looking at one takes some milliseconds: its ELF files.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/facts.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "target/allocator.h"
#include "target/daemon.h"
#include "target/elf.h"
#include "target/proc.h"

#define MAX_LISTENS 4 /* shown; the rest is counted */

void sonde_facts_thp_system(char *buf, size_t size)
{
	char line[128], *from, *to;

	buf[0] = '\0';
	if (sonde_read_line(line, sizeof(line), "/sys/kernel/mm/transparent_hugepage/enabled"))
		return;
	from = strchr(line, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to)
		snprintf(buf, size, "%.*s", (int)(to - from - 1), from + 1);
}

static void format_socket(const struct sonde_proc_sock *s, char *buf, size_t size)
{
	static const uint8_t any[16];
	char addr[INET6_ADDRSTRLEN] = "*";
	size_t len = s->family == AF_INET ? 4 : 16;

	if (s->family == AF_UNIX) {
		sonde_plain(buf, size, s->path);
		return;
	}
	if (memcmp(s->local, any, len))
		inet_ntop(s->family, s->local, addr, sizeof(addr));
	snprintf(buf, size, strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, s->local_port);
}

/* A port that is open for both families is one listener to a reader. */
static bool listed(const struct sonde_str *list, const char *name)
{
	const char *hit = sonde_str_get(list);
	size_t len = strlen(name);

	while ((hit = strstr(hit, name))) {
		bool starts = hit == list->s || hit[-1] == ' ';

		if (starts && (hit[len] == '\0' || hit[len] == ' '))
			return true;
		hit += len;
	}
	return false;
}

static int read_listens(struct sonde_facts *f)
{
	struct sonde_proc_sock *socks sonde_autofree = NULL;
	size_t n = 0;
	int err = sonde_proc_sockets(f->pid, &socks, &n);

	for (size_t i = 0; i < n && !err; i++) {
		char name[128];

		if (!socks[i].listening)
			continue;
		format_socket(&socks[i], name, sizeof(name));
		if (!*name || listed(&f->listens, name))
			continue;
		f->n_listens++;
		if (f->n_listens <= MAX_LISTENS)
			err = sonde_str_addf(&f->listens, "%s%s", f->listens.len ? " " : "", name);
	}
	if (!err && f->n_listens > MAX_LISTENS)
		err = sonde_str_addf(&f->listens, " +%zu", f->n_listens - MAX_LISTENS);
	return err;
}

void sonde_facts_use_recipe(struct sonde_facts *f, const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;

	if (file)
		snprintf(f->recipe, sizeof(f->recipe), "%s", slash ? slash + 1 : file);
}

static void read_recipe(const struct sonde_target *t, struct sonde_facts *f)
{
	struct sonde_recipe recipe = {0};
	struct sonde_elf *elf = NULL;
	char path[64], root[64];

	if (!t->daemon)
		return;
	snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
	snprintf(root, sizeof(root), "/proc/%d/root", t->pid);
	if (sonde_elf_open(&elf, path, root))
		return;
	if (!sonde_recipe_find(NULL, t->build_id, elf, &recipe)) {
		sonde_facts_use_recipe(f, recipe.file);
		sonde_recipe_fini(&recipe);
	}
	sonde_elf_free(&elf);
}

static void read_memory(struct sonde_facts *f)
{
	struct sonde_proc_mem mem;

	f->rss_bytes = -1;
	sonde_facts_thp_system(f->thp, sizeof(f->thp));
	if (sonde_proc_mem(f->pid, &mem))
		return;
	f->rss_bytes = mem.rss;
	if (mem.thp_enabled == 0 && *f->thp)
		snprintf(f->thp, sizeof(f->thp), "off by prctl");
}

int sonde_facts_read(const struct sonde_target *t, struct sonde_facts *out)
{
	struct sonde_proc_stat st;
	int err;

	*out = (struct sonde_facts){.pid = t->pid};
	if (!sonde_proc_stat(t->pid, &st))
		out->ppid = st.ppid;
	sonde_plain(out->name, sizeof(out->name), t->comm);
	if (t->allocator)
		snprintf(out->allocator, sizeof(out->allocator), "%s%s%s", t->allocator->name,
			 *t->allocator_version ? " " : "", SONDE_PLAIN(t->allocator_version));
	out->daemon = t->daemon ? t->daemon->title : NULL;
	out->speaks = t->daemon ? t->daemon->speaks : NULL;
	out->age_ns = sonde_proc_age_ns(t->pid);
	read_memory(out);
	read_recipe(t, out);
	err = read_listens(out);
	if (err)
		sonde_facts_fini(out);
	return err;
}

void sonde_facts_fini(struct sonde_facts *f)
{
	sonde_str_fini(&f->listens);
}

const char *sonde_fmt_age(char *buf, size_t size, uint64_t ns)
{
	uint64_t s = ns / SONDE_NS_PER_SEC;

	if (!ns)
		snprintf(buf, size, "?");
	else if (s < 120)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 7200)
		snprintf(buf, size, "%" PRIu64 " min", s / 60);
	else if (s < 48 * 3600)
		snprintf(buf, size, "%" PRIu64 " h", s / 3600);
	else
		snprintf(buf, size, "%" PRIu64 " d", s / 86400);
	return buf;
}
