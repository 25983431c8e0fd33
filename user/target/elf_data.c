// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data of an ELF file: symbols of objects, initial contents, what is writable. Addresses are the
 * file's own. The file may be hostile: sums of its numbers are not formed before they are known to
 * fit.
 */
#include <errno.h>
#include <limits.h>

#include "core/mem.h"
#include "target/elf_file.h"

static bool is_data(const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);

	return (type == STT_OBJECT || type == STT_TLS || type == STT_NOTYPE) &&
	       sym->st_shndx != SHN_UNDEF;
}

/* "name", "name@VERSION" or "name@@VERSION". */
static bool same_name(const char *sym, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(sym, name, len) && (!sym[len] || sym[len] == '@');
}

static int find_in(Elf *file, GElf_Word type, const char *name, GElf_Sym *out)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(file, scn))) {
		GElf_Shdr sh;
		Elf_Data *data;
		GElf_Sym sym;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != type)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 1; data && i < INT_MAX && gelf_getsym(data, i, &sym); i++) {
			const char *s =
				is_data(&sym) ? elf_strptr(file, sh.sh_link, sym.st_name) : NULL;

			if (!s || !same_name(s, name))
				continue;
			*out = sym;
			return 0;
		}
	}
	return -ENOENT;
}

/* Of a file without section headers. */
static int find_dynamic(struct sonde_elf *elf, const char *name, GElf_Sym *out)
{
	const struct sonde_elf_dynamic *d = sonde_elf_dynamic(elf);

	for (size_t i = 1; d && i < d->n; i++) {
		const char *s =
			is_data(&d->sym[i]) ? sonde_elf_dynamic_name(d, d->sym[i].st_name) : NULL;

		if (!s || strcmp(s, name))
			continue;
		*out = d->sym[i];
		return 0;
	}
	return -ENOENT;
}

int sonde_elf_find_data(struct sonde_elf *elf, const char *name, uint64_t *value, uint64_t *size)
{
	GElf_Sym sym;

	if (find_in(elf->elf, SHT_DYNSYM, name, &sym) && find_dynamic(elf, name, &sym) &&
	    find_in(elf->elf, SHT_SYMTAB, name, &sym))
		return -ENOENT;
	*value = sym.st_value;
	*size = sym.st_size;
	return 0;
}

static const struct sonde_elf_segment *segment_of(const struct sonde_elf *elf, uint64_t vaddr)
{
	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct sonde_elf_segment *s = &elf->segments[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->memsz)
			return s;
	}
	return NULL;
}

bool sonde_elf_is_writable(const struct sonde_elf *elf, uint64_t vaddr)
{
	const struct sonde_elf_segment *s = segment_of(elf, vaddr);

	return s && s->write;
}

bool sonde_elf_is_code(const struct sonde_elf *elf, uint64_t vaddr)
{
	const struct sonde_elf_segment *s = segment_of(elf, vaddr);

	return s && s->exec && vaddr - s->vaddr < s->filesz;
}

static int read_file(int fd, char *buf, size_t len, uint64_t off)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, buf + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ERANGE;
		got += (size_t)n;
	}
	return 0;
}

int sonde_elf_read(const struct sonde_elf *elf, uint64_t vaddr, void *buf, size_t len)
{
	const struct sonde_elf_segment *s = segment_of(elf, vaddr);
	uint64_t at, stored;
	int err;

	if (!s || len > s->memsz - (vaddr - s->vaddr))
		return -ERANGE;
	at = vaddr - s->vaddr;
	stored = at < s->filesz ? s->filesz - at : 0;
	stored = stored < len ? stored : len;
	err = read_file(elf->fd, buf, stored, s->offset + at);
	if (!err)
		memset((char *)buf + stored, 0, len - stored);
	return err;
}

int sonde_elf_offset(const struct sonde_elf *elf, uint64_t vaddr, uint64_t *off)
{
	return sonde_elf_vaddr_to_offset(elf, vaddr, off);
}

int sonde_elf_address(const struct sonde_elf *elf, uint64_t off, uint64_t *vaddr)
{
	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct sonde_elf_segment *s = &elf->segments[i];

		if (!s->exec || off < s->offset || off - s->offset >= s->filesz)
			continue;
		*vaddr = off - s->offset + s->vaddr;
		return 0;
	}
	return -ENOENT;
}

/* A mapping begins on a page, the segment perhaps within it. */
int sonde_elf_bias(const struct sonde_elf *elf, uint64_t text_start, uint64_t text_pgoff,
		   uint64_t *bias)
{
	const uint64_t page = 4096;

	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct sonde_elf_segment *s = &elf->segments[i];
		uint64_t first = s->offset & ~(page - 1);

		if (!s->exec || text_pgoff < first || text_pgoff - first >= s->filesz + page)
			continue;
		*bias = text_start - (s->vaddr - s->offset + text_pgoff);
		return 0;
	}
	return -ENOENT;
}

uint64_t sonde_elf_tls_size(const struct sonde_elf *elf)
{
	return elf->tls_size;
}
