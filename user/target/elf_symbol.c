// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names of an ELF file, from the cheapest table to the dearest: .dynsym, .symtab, the compressed
 * table embedded as .gnu_debugdata (libdwfl unpacks it), a separate debug file. Each is a source
 * that yields raw symbols; what makes one usable (a defined function in an executable segment) is
 * decided once.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include <elfutils/libdwelf.h>

#include "core/log.h"
#include "core/mem.h"
#include "target/elf_file.h"

#define VERSYM_HIDDEN 0x8000

struct raw_sym {
	const char *name;
	GElf_Sym sym;
	bool hidden; /* an old version of the name, kept for old programs */
};

typedef int (*raw_cb)(void *ctx, struct sonde_elf *elf, const struct raw_sym *raw,
		      const char *table);

static Elf_Data *find_section(Elf *file, GElf_Word type, GElf_Shdr *sh)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(file, scn)))
		if (gelf_getshdr(scn, sh) && sh->sh_type == type)
			return elf_getdata(scn, NULL);
	return NULL;
}

static int each_dynamic(struct sonde_elf *elf, const char *table, raw_cb cb, void *ctx)
{
	const struct sonde_elf_dynamic *d = sonde_elf_dynamic(elf);
	int ret = 0;

	for (size_t i = 1; d && i < d->n && !ret; i++) {
		const Elf64_Sym *sym = &d->sym[i];
		struct raw_sym raw = {
			.name = sonde_elf_dynamic_name(d, sym->st_name),
			.sym = *sym,
			.hidden = d->version[i] & VERSYM_HIDDEN,
		};

		if (raw.name && raw.name[0])
			ret = cb(ctx, elf, &raw, table);
	}
	return ret;
}

static int each_in_table(struct sonde_elf *elf, Elf *file, GElf_Word type, const char *table,
			 raw_cb cb, void *ctx)
{
	GElf_Shdr sh, version_sh;
	Elf_Data *syms = find_section(file, type, &sh), *versions = NULL;
	size_t n;

	if (!syms || !sh.sh_entsize)
		return type == SHT_DYNSYM && file == elf->elf ? each_dynamic(elf, table, cb, ctx)
							      : 0;
	if (type == SHT_DYNSYM)
		versions = find_section(file, SHT_GNU_versym, &version_sh);
	n = sh.sh_size / sh.sh_entsize;
	for (size_t i = 1; i < n && i < INT_MAX; i++) {
		struct raw_sym raw = {0};
		GElf_Versym version;
		int ret;

		if (!gelf_getsym(syms, (int)i, &raw.sym))
			break;
		raw.name = elf_strptr(file, sh.sh_link, raw.sym.st_name);
		if (!raw.name || !raw.name[0])
			continue;
		if (versions && gelf_getversym(versions, (int)i, &version))
			raw.hidden = version & VERSYM_HIDDEN;
		ret = cb(ctx, elf, &raw, table);
		if (ret)
			return ret;
	}
	return 0;
}

/* libdwfl asks here for a separate debug file: there is none, so that it takes the embedded data.
 */
static int no_debug_file(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base,
			 const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)mod, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
	(void)found;
	return -1;
}

static const Dwfl_Callbacks mini_callbacks = {
	.find_debuginfo = no_debug_file,
	.section_address = dwfl_offline_section_address,
};

static void open_mini(struct sonde_elf *elf)
{
	int fd;

	elf->tried_mini = true;
	fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 3);
	elf->mini = fd >= 0 ? dwfl_begin(&mini_callbacks) : NULL;
	if (!elf->mini) {
		if (fd >= 0)
			close(fd);
		return;
	}
	dwfl_report_begin(elf->mini);
	/* On success the module owns the descriptor. Base 0: its addresses are the file's own. */
	elf->mini_module = dwfl_report_elf(elf->mini, elf->path, elf->path, fd, 0, true);
	if (!elf->mini_module)
		close(fd);
	dwfl_report_end(elf->mini, NULL, NULL);
}

static bool has_mini(struct sonde_elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;

	if (elf_getshdrstrndx(elf->elf, &names))
		return false;
	while ((scn = elf_nextscn(elf->elf, scn))) {
		const char *name =
			gelf_getshdr(scn, &sh) ? elf_strptr(elf->elf, names, sh.sh_name) : NULL;

		if (name && !strcmp(name, ".gnu_debugdata"))
			return true;
	}
	return false;
}

static int each_in_mini(struct sonde_elf *elf, raw_cb cb, void *ctx)
{
	int n;

	if (!has_mini(elf))
		return 0;
	if (!elf->tried_mini)
		open_mini(elf);
	n = elf->mini_module ? dwfl_module_getsymtab(elf->mini_module) : 0;
	for (int i = 1; i < n; i++) {
		struct raw_sym raw = {0};
		GElf_Addr addr;
		int ret;

		raw.name = dwfl_module_getsym_info(elf->mini_module, i, &raw.sym, &addr, NULL, NULL,
						   NULL);
		if (!raw.name || !raw.name[0])
			continue;
		raw.sym.st_value = addr;
		ret = cb(ctx, elf, &raw, "mini");
		if (ret)
			return ret;
	}
	return 0;
}

/* A debug file of another build has other addresses: it must carry the same build-id. */
static bool same_build_id(const struct sonde_elf *elf, Elf *debug)
{
	const void *a, *b;
	ssize_t n = dwelf_elf_gnu_build_id(elf->elf, &a);

	return n > 0 && dwelf_elf_gnu_build_id(debug, &b) == n && !memcmp(a, b, (size_t)n);
}

static void open_debug(struct sonde_elf *elf)
{
	char path[PATH_MAX];

	elf->tried_debug = true;
	if (strlen(elf->build_id) < 3)
		return;
	snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", elf->root,
		 elf->build_id, elf->build_id + 2);
	elf->debug_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (elf->debug_fd < 0)
		return;
	elf->debug = elf_begin(elf->debug_fd, ELF_C_READ, NULL);
	if (elf->debug && !same_build_id(elf, elf->debug)) {
		sonde_warn("%s is of another build than %s: its symbols are not used", path,
			   elf->path);
		elf_end(elf->debug);
		elf->debug = NULL;
	}
}

Elf *sonde_elf_debug(struct sonde_elf *elf)
{
	if (!elf->tried_debug)
		open_debug(elf);
	return elf->debug;
}

static int each_raw(struct sonde_elf *elf, raw_cb cb, void *ctx)
{
	int ret = each_in_table(elf, elf->elf, SHT_DYNSYM, ".dynsym", cb, ctx);

	if (!ret)
		ret = each_in_table(elf, elf->elf, SHT_SYMTAB, ".symtab", cb, ctx);
	if (!ret)
		ret = each_in_mini(elf, cb, ctx);
	if (ret)
		return ret;
	return sonde_elf_debug(elf) ? each_in_table(elf, elf->debug, SHT_SYMTAB, "debug", cb, ctx)
				    : 0;
}

/* A raw symbol as a function with a file offset. */
static bool usable(const struct sonde_elf *elf, const struct raw_sym *raw, const char *table,
		   struct sonde_sym *out)
{
	struct sonde_sym sym = {
		.name = raw->name,
		.value = raw->sym.st_value,
		.size = raw->sym.st_size,
		.table = table,
	};

	if (GELF_ST_TYPE(raw->sym.st_info) != STT_FUNC || raw->sym.st_shndx == SHN_UNDEF ||
	    sonde_elf_vaddr_to_offset(elf, sym.value, &sym.offset))
		return false;
	*out = sym;
	return true;
}

struct finder {
	const char *name;
	size_t len;
	struct sonde_sym *out;
	struct sonde_sym old; /* a version that is not the default, if nothing better comes */
	const char *in;	      /* the table the search ends with */
	bool found, has_old;
};

/* In .symtab and debug files the version is part of the name: "memcpy@@GLIBC_2.14" is the default.
 */
static bool name_matches(const struct finder *f, const char *name, bool *hidden)
{
	if (strncmp(name, f->name, f->len))
		return false;
	if (!name[f->len])
		return true;
	if (name[f->len] != '@')
		return false;
	if (name[f->len + 1] != '@')
		*hidden = true;
	return true;
}

static int find_cb(void *ctx, struct sonde_elf *elf, const struct raw_sym *raw, const char *table)
{
	struct finder *f = ctx;
	struct sonde_sym sym;
	bool hidden = raw->hidden;

	/* A dearer table is opened only if the cheaper ones held no version of the name at all. */
	if (f->has_old && strcmp(table, f->in))
		return 1;
	if (!name_matches(f, raw->name, &hidden))
		return 0;
	if (!hidden && GELF_ST_TYPE(raw->sym.st_info) == STT_GNU_IFUNC) {
		/* What the name means is one of several functions; an old version of it is another.
		 */
		sonde_debug("%s: %s is chosen at run time (ifunc); not probed by name", elf->path,
			    f->name);
		f->has_old = false;
		return 1;
	}
	if (!usable(elf, raw, table, &sym))
		return 0;
	if (hidden) {
		f->old = f->has_old ? f->old : sym;
		f->has_old = true;
		f->in = table;
		return 0;
	}
	*f->out = sym;
	f->found = true;
	return 1;
}

int sonde_elf_find(struct sonde_elf *elf, const char *name, struct sonde_sym *out)
{
	struct finder f = {.name = name, .len = strlen(name), .out = out};

	each_raw(elf, find_cb, &f);
	if (!f.found && f.has_old) {
		*out = f.old;
		f.found = true;
	}
	return f.found ? 0 : -ENOENT;
}

struct each {
	int (*cb)(void *ctx, const struct sonde_sym *sym);
	void *ctx;
};

static int each_cb(void *ctx, struct sonde_elf *elf, const struct raw_sym *raw, const char *table)
{
	const struct each *each = ctx;
	struct sonde_sym sym;

	return usable(elf, raw, table, &sym) ? each->cb(each->ctx, &sym) : 0;
}

int sonde_elf_each(struct sonde_elf *elf, int (*cb)(void *ctx, const struct sonde_sym *sym),
		   void *ctx)
{
	struct each each = {cb, ctx};

	return each_raw(elf, each_cb, &each);
}

static int exports_cb(void *ctx, struct sonde_elf *elf, const struct raw_sym *raw,
		      const char *table)
{
	(void)elf, (void)table;
	return raw->sym.st_shndx != SHN_UNDEF && !strcmp(raw->name, ctx);
}

bool sonde_elf_has_dynamic_symbols(struct sonde_elf *elf)
{
	GElf_Shdr sh;

	return find_section(elf->elf, SHT_DYNSYM, &sh) || sonde_elf_dynamic(elf);
}

bool sonde_elf_exports(struct sonde_elf *elf, const char *name)
{
	return each_in_table(elf, elf->elf, SHT_DYNSYM, ".dynsym", exports_cb, (void *)name) == 1;
}
