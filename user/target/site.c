// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Choosing a probe site; see site.h for why. The proof that a later instruction is executed exactly
 * once a call has three parts: the walk from the entry meets no branch, no branch of the function
 * aims between entry and site (the whole function is decoded for that), and none of the rest of the
 * segment does either (its cold parts lie elsewhere). Where any part is missing the entry is taken.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/elf.h"
#include "target/insn.h"

#define MAX_SLIDE    64		  /* bytes: prologues are shorter */
#define SHORT_REACH  130	  /* bytes: an 8-bit displacement and the jump itself */
#define MAX_FUNCTION (4u << 20)	  /* bytes decoded of one function */
#define MAX_TEXT     (512u << 20) /* bytes searched for jumps from elsewhere */

/* Does anything in code[0, len) jump into (0, slide]? Also if it cannot be decoded. */
static bool jumped_into(const uint8_t *code, size_t len, uint32_t slide)
{
	struct sonde_insn insn;

	for (size_t at = 0; at < len; at += insn.length) {
		int64_t to;

		if (sonde_insn_decode(code + at, len - at, &insn, NULL, 0))
			return true;
		/* A switch's table is data that is not read here: its labels could be anywhere. */
		if (insn.flow == SONDE_FLOW_JMP_REGISTER)
			return true;
		if (insn.flow != SONDE_FLOW_JCC && insn.flow != SONDE_FLOW_JMP &&
		    insn.flow != SONDE_FLOW_CALL)
			continue;
		to = (int64_t)at + insn.target;
		if (to > 0 && to <= slide)
			return true;
	}
	return false;
}

/* What the walk from the entry found. */
struct walk {
	uint32_t slide, sp_delta;
	bool found;
};

/* The first emulated instruction on the straight line, with the arguments still in place. */
static void walk_prologue(const uint8_t *code, size_t len, unsigned args, struct walk *out)
{
	struct walk w = {0};
	int64_t sp = 0;

	while (w.slide < len && w.slide <= MAX_SLIDE) {
		struct sonde_insn insn;

		if (sonde_insn_decode(code + w.slide, len - w.slide, &insn, NULL, 0))
			return;
		/*
		 * 6.18 to 7.1 turn a probed 5-byte nop into a call, which in the middle of a
		 * function overwrites its red zone: never slide onto one.
		 */
		if (insn.kind == SONDE_INSN_EMULATED && !(insn.nop5 && w.slide)) {
			w.sp_delta = (uint32_t)sp;
			w.found = true;
			*out = w;
			return;
		}
		if (insn.flow != SONDE_FLOW_NEXT || !insn.sp_known || (insn.args_written & args))
			return;
		sp += insn.sp_grows;
		if (sp < 0 || sp > INT32_MAX)
			return;
		w.slide += insn.length;
	}
}

static int fill(const uint8_t *code, size_t len, uint32_t slide, uint32_t sp_delta,
		struct sonde_site *out)
{
	struct sonde_site site = {.offset = slide, .slide = slide, .sp_delta = sp_delta};
	struct sonde_insn insn;
	int err = sonde_insn_decode(code + slide, len - slide, &insn, site.insn, sizeof(site.insn));

	if (err)
		return err;
	if (insn.refused)
		return -EOPNOTSUPP;
	site.kind = insn.kind;
	*out = site;
	return 0;
}

int sonde_site_choose_code(const uint8_t *code, size_t len, unsigned args, bool entry_only,
			   struct sonde_site *out)
{
	struct walk w = {0};

	if (!entry_only)
		walk_prologue(code, len, args, &w);
	if (w.found && w.slide && jumped_into(code, len, w.slide))
		w = (struct walk){0};
	return fill(code, len, w.slide, w.sp_delta, out);
}

/* Could the bytes before @next be a jump or call with a 32-bit displacement? */
static bool looks_like_jump(const uint8_t *text, size_t next)
{
	uint8_t op = text[next - 5];

	return op == 0xe9 || op == 0xe8 ||
	       (next >= 6 && op >= 0x80 && op <= 0x8f && text[next - 6] == 0x0f);
}

/*
 * Does the segment's code jump into (function, function + slide] by a 32-bit displacement? Every
 * byte is tried as the end of one, so nothing is missed for want of knowing where instructions
 * begin; bytes that only look like a jump cost the slide, never the truth.
 */
static bool text_jumps_into(const uint8_t *text, size_t len, uint64_t function, uint32_t slide)
{
	for (size_t next = 5; next <= len; next++) {
		int32_t rel;
		uint64_t to;

		memcpy(&rel, text + next - 4, sizeof(rel));
		to = next + (uint64_t)(int64_t)rel;
		if (to > function && to <= function + slide && looks_like_jump(text, next))
			return true;
	}
	return false;
}

/* Does the function at text[start, start + size) jump there, by displacements of any size? */
static bool neighbour_jumps_into(const uint8_t *text, uint64_t start, uint64_t size,
				 uint64_t function, uint32_t slide)
{
	struct sonde_insn insn;

	for (uint64_t at = start; at < start + size; at += insn.length) {
		uint64_t to;

		if (sonde_insn_decode(text + at, start + size - at, &insn, NULL, 0))
			return false;
		to = at + (uint64_t)insn.target;
		if ((insn.flow == SONDE_FLOW_JCC || insn.flow == SONDE_FLOW_JMP) && to > function &&
		    to <= function + slide)
			return true;
	}
	return false;
}

/* An 8-bit displacement reaches 128 bytes: the functions that lie so near are decoded. */
static bool neighbours_jump_into(struct sonde_elf *elf, const uint8_t *text, size_t len,
				 uint64_t base, uint64_t function, uint32_t slide)
{
	uint64_t from = function - base < SHORT_REACH ? base : function - SHORT_REACH;
	uint64_t last = 0;

	for (uint64_t at = from; at < function + slide + SHORT_REACH && at - base < len; at++) {
		uint64_t start, size;

		if (sonde_elf_function_at(elf, at, &start, &size) || start == function ||
		    start == last || start < base || start - base + size > len ||
		    size > MAX_FUNCTION)
			continue;
		last = start;
		if (neighbour_jumps_into(text, start - base, size, function - base, slide))
			return true;
	}
	return false;
}

static bool jumped_into_from_afar(struct sonde_elf *elf, uint64_t function, uint32_t slide)
{
	sonde_autofree uint8_t *text = NULL;
	uint64_t start, size;

	if (sonde_elf_text(elf, function, &start, &size) || size > MAX_TEXT)
		return true;
	text = malloc(size);
	if (!text || sonde_elf_code(elf, start, text, size))
		return true;
	return text_jumps_into(text, size, function - start, slide) ||
	       neighbours_jump_into(elf, text, size, start, function, slide);
}

/* Extent of the function: the greater of what the caller and what the file's tables say. */
static int function_size(struct sonde_elf *elf, uint64_t function, uint64_t *size)
{
	uint64_t start, found;

	if (sonde_elf_function_at(elf, function, &start, &found) || start != function)
		return *size ? 0 : -ENOENT;
	if (found > *size)
		*size = found;
	return 0;
}

/* Size unknown or unreadable: the first instruction alone, so that the entry is the answer. */
static int choose_entry(struct sonde_elf *elf, uint64_t function, struct sonde_site *out)
{
	uint8_t code[16];
	size_t len = sizeof(code);
	int err;

	while ((err = sonde_elf_code(elf, function, code, len)) == -ERANGE && len > 1)
		len--;
	return err ? err : sonde_site_choose_code(code, len, 0, true, out);
}

int sonde_site_choose(struct sonde_elf *elf, uint64_t function, uint64_t size, unsigned args,
		      bool entry_only, struct sonde_site *out)
{
	struct sonde_site site = {0};
	int err = choose_entry(elf, function, &site);

	if (err && err != -EOPNOTSUPP)
		return err;
	if ((err || site.kind != SONDE_INSN_EMULATED) && !entry_only &&
	    !function_size(elf, function, &size) && size <= MAX_FUNCTION) {
		sonde_autofree uint8_t *code = malloc(size);
		struct sonde_site slid;

		if (!code)
			return -ENOMEM;
		if (!sonde_elf_code(elf, function, code, size) &&
		    !sonde_site_choose_code(code, size, args, false, &slid) && slid.slide &&
		    !jumped_into_from_afar(elf, function, slid.slide)) {
			site = slid;
			err = 0;
		}
	}
	if (err)
		return err;
	site.function = function;
	site.offset = function + site.slide;
	*out = site;
	return 0;
}
