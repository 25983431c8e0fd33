// SPDX-License-Identifier: GPL-2.0-or-later
/* What is read from an ELF file's sections beside symbols: the linkage table and constants. */
#include <errno.h>

#include "core/mem.h"
#include "target/elf_file.h"

/* Name of the symbol whose address the dynamic linker puts into the word at @slot. */
static const char *slot_symbol(struct sonde_elf *elf, uint64_t slot)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf->elf, scn))) {
		Elf_Data *data, *syms;
		GElf_Shdr sh, sym_sh;
		GElf_Rela rela;
		GElf_Sym sym;
		Elf_Scn *link;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_RELA)
			continue;
		data = elf_getdata(scn, NULL);
		link = elf_getscn(elf->elf, sh.sh_link);
		syms = link ? elf_getdata(link, NULL) : NULL;
		if (!data || !syms || !gelf_getshdr(link, &sym_sh))
			continue;
		for (int i = 0; gelf_getrela(data, i, &rela); i++)
			if (rela.r_offset == slot &&
			    gelf_getsym(syms, (int)GELF_R_SYM(rela.r_info), &sym))
				return elf_strptr(elf->elf, sym_sh.sh_link, sym.st_name);
	}
	return NULL;
}

static int offset_to_vaddr(const struct sonde_elf *elf, uint64_t off, uint64_t *vaddr)
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

int sonde_elf_plt_symbol(struct sonde_elf *elf, uint64_t off, const char **symbol)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t code[11], *p = code;
	const char *name;
	uint64_t vaddr;
	int32_t rel;

	if (offset_to_vaddr(elf, off, &vaddr) || sonde_elf_code(elf, off, code, sizeof(code)))
		return -ENOENT;
	if (!memcmp(p, endbr64, sizeof(endbr64)))
		p += sizeof(endbr64);
	if (*p == 0xf2) /* bnd, of linkers that supported MPX */
		p++;
	if (p + 6 > code + sizeof(code) || p[0] != 0xff || p[1] != 0x25)
		return -ENOENT;
	memcpy(&rel, p + 2, sizeof(rel));
	name = slot_symbol(elf, vaddr + (uint64_t)(p + 6 - code) + (uint64_t)(int64_t)rel);
	if (!name || !name[0])
		return -ENOENT;
	*symbol = name;
	return 0;
}

int sonde_elf_rodata(struct sonde_elf *elf, const char **out, size_t *len)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf->elf, &names))
		return -ENOENT;
	while ((scn = elf_nextscn(elf->elf, scn))) {
		GElf_Shdr sh;
		const char *name =
			gelf_getshdr(scn, &sh) ? elf_strptr(elf->elf, names, sh.sh_name) : NULL;
		Elf_Data *data;

		if (!name || strcmp(name, ".rodata"))
			continue;
		data = elf_getdata(scn, NULL);
		if (!data || !data->d_buf)
			return -ENOENT;
		*out = data->d_buf;
		*len = data->d_size;
		return 0;
	}
	return -ENOENT;
}
