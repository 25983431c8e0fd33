// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which function holds an offset. Symbols say it best; a stripped file still has .eh_frame, whose
 * entries give start and size of every function (and of every split-off cold part) for unwinding.
 */
#include <errno.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "core/mem.h"
#include "target/elf_file.h"

struct extents {
	struct sonde_elf_extent *e;
	size_t n, cap;
};

static int add_extent(struct extents *list, uint64_t start, uint64_t size)
{
	int err = SONDE_GROW(list->e, list->n, list->cap);

	if (!err)
		list->e[list->n++] = (struct sonde_elf_extent){start, size};
	return err;
}

/* Encoding of an FDE's addresses: the byte that augmentation letter 'R' stands for. */
static uint8_t fde_encoding(const Dwarf_CIE *cie)
{
	const uint8_t *data = cie->augmentation_data;
	size_t left = cie->augmentation_data_size;

	if (!cie->augmentation || cie->augmentation[0] != 'z')
		return DW_EH_PE_absptr;
	for (const char *a = cie->augmentation + 1; *a && left; a++) {
		static const uint8_t widths[16] = {
			[DW_EH_PE_absptr] = 8, [DW_EH_PE_udata2] = 2, [DW_EH_PE_udata4] = 4,
			[DW_EH_PE_udata8] = 8, [DW_EH_PE_sdata2] = 2, [DW_EH_PE_sdata4] = 4,
			[DW_EH_PE_sdata8] = 8,
		};
		size_t skip = 1;

		if (*a == 'R')
			return *data;
		if (*a == 'P')
			skip = 1 + widths[*data & 0xf];
		else if (*a != 'L')
			continue;
		if (skip > left)
			break;
		data += skip;
		left -= skip;
	}
	return DW_EH_PE_omit;
}

/* Start and size as every x86-64 compiler writes them: 4 signed bytes relative to their own place,
 * or 8 absolute bytes. Other encodings are passed over. */
static bool fde_extent(const Dwarf_FDE *fde, uint8_t encoding, uint64_t place, uint64_t *start,
		       uint64_t *size)
{
	size_t left = (size_t)(fde->end - fde->start);
	int32_t rel;
	uint32_t len;

	if (encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4) && left >= 8) {
		memcpy(&rel, fde->start, 4);
		memcpy(&len, fde->start + 4, 4);
		*start = place + (uint64_t)(int64_t)rel;
		*size = len;
		return true;
	}
	if (encoding == DW_EH_PE_absptr && left >= 16) {
		memcpy(start, fde->start, 8);
		memcpy(size, fde->start + 8, 8);
		return true;
	}
	return false;
}

static int read_eh_frame(struct sonde_elf *elf, Elf_Data *data, uint64_t vaddr,
			 struct extents *list)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf->elf, NULL);
	Dwarf_Off off = 0, next, cie_off = (Dwarf_Off)-1;
	uint8_t encoding = DW_EH_PE_omit;
	Dwarf_CFI_Entry entry;

	while (dwarf_next_cfi(ident, data, true, off, &next, &entry) == 0) {
		uint64_t start, size, place;
		int err = 0;

		if (dwarf_cfi_cie_p(&entry)) {
			cie_off = off;
			encoding = fde_encoding(&entry.cie);
		} else {
			Dwarf_CFI_Entry cie;
			Dwarf_Off ignored;

			/* Nearly always the CIE just before; else it is read again. */
			if (entry.fde.CIE_pointer != cie_off &&
			    dwarf_next_cfi(ident, data, true, entry.fde.CIE_pointer, &ignored,
					   &cie) == 0 &&
			    dwarf_cfi_cie_p(&cie)) {
				cie_off = entry.fde.CIE_pointer;
				encoding = fde_encoding(&cie.cie);
			}
			place = vaddr + (uint64_t)(entry.fde.start - (const uint8_t *)data->d_buf);
			if (fde_extent(&entry.fde, encoding, place, &start, &size) && size &&
			    !sonde_elf_vaddr_to_offset(elf, start, &start))
				err = add_extent(list, start, size);
		}
		if (err)
			return err;
		if (next == (Dwarf_Off)-1 || next <= off)
			break;
		off = next;
	}
	return 0;
}

static int add_frames(struct sonde_elf *elf, struct extents *list)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf->elf, &names))
		return 0;
	while ((scn = elf_nextscn(elf->elf, scn))) {
		const char *name;
		Elf_Data *data;
		GElf_Shdr sh;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf->elf, names, sh.sh_name);
		if (!name || strcmp(name, ".eh_frame"))
			continue;
		data = elf_getdata(scn, NULL);
		return data && data->d_buf ? read_eh_frame(elf, data, sh.sh_addr, list) : 0;
	}
	return 0;
}

static int add_symbol(void *ctx, const struct sonde_sym *sym)
{
	return sym->size ? add_extent(ctx, sym->offset, sym->size) : 0;
}

static int by_start(const void *a, const void *b)
{
	const struct sonde_elf_extent *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

static int build_extents(struct sonde_elf *elf)
{
	struct extents list = {0};
	int err = sonde_elf_each(elf, add_symbol, &list);

	if (!err)
		err = add_frames(elf, &list);
	if (err) {
		free(list.e);
		return err;
	}
	if (list.n)
		qsort(list.e, list.n, sizeof(*list.e), by_start);
	elf->extents = list.e;
	elf->n_extents = list.n;
	elf->tried_extents = true;
	return 0;
}

int sonde_elf_function_at(struct sonde_elf *elf, uint64_t off, uint64_t *start, uint64_t *size)
{
	size_t lo = 0, hi;
	int err = elf->tried_extents ? 0 : build_extents(elf);

	if (err)
		return err;
	for (hi = elf->n_extents; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;

		if (elf->extents[mid].start <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Extents nest now and then (a symbol over several frames): look a few back. */
	for (size_t i = lo, tries = 0; i-- > 0 && tries < 8; tries++) {
		const struct sonde_elf_extent *e = &elf->extents[i];

		if (off - e->start >= e->size)
			continue;
		*start = e->start;
		*size = e->size;
		return 0;
	}
	return -ENOENT;
}
