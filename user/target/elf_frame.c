// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * .eh_frame entry by entry: every function (and every split-off cold part) with the instructions by
 * which its frames are unwound. Nothing in the section is trusted.
 */
#include <errno.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "core/mem.h"
#include "target/elf_file.h"

/* The CIE that entries refer to: nearly always the one just before, so it is kept. */
struct cie {
	Dwarf_Off off;
	Dwarf_CIE cie;
	uint8_t encoding; /* of addresses: what augmentation letter 'R' stands for */
};

/* Encoding of an FDE's addresses. */
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
	return strchr(cie->augmentation, 'R') ? DW_EH_PE_omit : DW_EH_PE_absptr;
}

/* Start and size as every x86-64 compiler writes them: 4 signed bytes relative to their own place,
 * or 8 absolute bytes. Other encodings are passed over. */
static bool fde_extent(const Dwarf_FDE *fde, uint8_t encoding, uint64_t place,
		       struct sonde_elf_frame *f)
{
	size_t left = (size_t)(fde->end - fde->start);
	int32_t rel;
	uint32_t len;

	if (encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4) && left >= 8) {
		memcpy(&rel, fde->start, 4);
		memcpy(&len, fde->start + 4, 4);
		f->start = place + (uint64_t)(int64_t)rel;
		f->size = len;
		f->code = fde->start + 8;
	} else if (encoding == DW_EH_PE_absptr && left >= 16) {
		memcpy(&f->start, fde->start, 8);
		memcpy(&f->size, fde->start + 8, 8);
		f->code = fde->start + 16;
	} else {
		return false;
	}
	f->code_end = fde->end;
	return f->size != 0;
}

/* Augmentation data of the entry stands before its instructions. */
static void skip_augmentation(struct sonde_elf_frame *f, const Dwarf_CIE *cie)
{
	uint64_t len = 0;
	unsigned shift = 0;
	uint8_t byte = 0x80;

	if (!cie->augmentation || cie->augmentation[0] != 'z')
		return;
	while (byte & 0x80 && f->code < f->code_end && shift < 63) {
		byte = *f->code++;
		len |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	}
	f->code = len > (uint64_t)(f->code_end - f->code) ? f->code_end : f->code + len;
}

static bool load_cie(const unsigned char *ident, Elf_Data *data, Dwarf_Off off, struct cie *c)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (c->off == off)
		return true;
	if (dwarf_next_cfi(ident, data, true, off, &next, &entry) || !dwarf_cfi_cie_p(&entry))
		return false;
	*c = (struct cie){off, entry.cie, fde_encoding(&entry.cie)};
	return true;
}

static int read_section(struct sonde_elf *elf, Elf_Data *data, uint64_t vaddr,
			sonde_elf_frame_cb cb, void *ctx)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(elf->elf, NULL);
	Dwarf_Off off = 0, next;
	struct cie c = {.off = (Dwarf_Off)-1};
	Dwarf_CFI_Entry entry;
	int err = 0;

	while (!err && dwarf_next_cfi(ident, data, true, off, &next, &entry) == 0) {
		struct sonde_elf_frame f = {.cie = &c.cie};
		uint64_t place;

		if (!dwarf_cfi_cie_p(&entry) && load_cie(ident, data, entry.fde.CIE_pointer, &c)) {
			place = vaddr + (uint64_t)(entry.fde.start - (const uint8_t *)data->d_buf);
			if (fde_extent(&entry.fde, c.encoding, place, &f)) {
				skip_augmentation(&f, &c.cie);
				err = cb(ctx, &f);
			}
		}
		if (next == (Dwarf_Off)-1 || next <= off)
			break;
		off = next;
	}
	return err;
}

int sonde_elf_each_frame(struct sonde_elf *elf, sonde_elf_frame_cb cb, void *ctx)
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
		return data && data->d_buf ? read_section(elf, data, sh.sh_addr, cb, ctx) : 0;
	}
	return 0;
}
