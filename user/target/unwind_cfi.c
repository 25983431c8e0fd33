// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Call frame instructions (DWARF 5, section 6.4; the .eh_frame flavour of the x86-64 psABI) run for
 * the three rules that matter: where the frame begins, where rbp was saved, whether there is a
 * caller. libdw's own interpreter starts anew for every address asked, which is quadratic in a
 * function's rows.
 *
 * The invariant: what is not understood makes the rest of the entry HARD; no read is out of bounds.
 */
#include <dwarf.h>
#include <stdbool.h>

#include "core/mem.h"
#include "target/unwind_priv.h"

#define REG_RBP	   6
#define REG_RSP	   7
#define REG_RA	   16
#define STACK_MAX  8
#define NO_ADDRESS (~0ull)

enum saved { SAVED_NOT, SAVED_AT_CFA, SAVED_AT_RBP, SAVED_ODD };

/* The rules at one address. */
struct rules {
	enum sonde_unwind_kind kind;
	int64_t cfa;
	uint64_t cfa_reg;
	enum saved rbp;
	int64_t rbp_off; /* from the CFA */
	bool ra_odd, ra_none;
};

struct run {
	const uint8_t *p, *end;
	const Dwarf_CIE *cie;
	struct rules now, initial, stack[STACK_MAX];
	unsigned depth;
	uint64_t pc;
	bool bad, signal;
};

static uint64_t take_bytes(struct run *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	memcpy(&v, r->p, n);
	r->p += n;
	return v;
}

static uint64_t take_uleb(struct run *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		uint64_t byte = take_bytes(r, 1);

		v |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	r->bad = true;
	return 0;
}

static int64_t take_sleb(struct run *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		uint64_t byte = take_bytes(r, 1);

		v |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return (int64_t)(byte & 0x40 ? v | ~0ull << (shift + 7) : v);
	}
	r->bad = true;
	return 0;
}

/* Factored offsets: hostile ones may not overflow. */
static int64_t factored(const struct run *r, uint64_t n)
{
	return (int64_t)(n * (uint64_t)r->cie->data_alignment_factor);
}

static void set_cfa(struct run *r, uint64_t reg, int64_t off)
{
	r->now.kind = reg == REG_RSP   ? SONDE_UNWIND_RSP
		      : reg == REG_RBP ? SONDE_UNWIND_RBP
				       : SONDE_UNWIND_HARD;
	r->now.cfa_reg = reg;
	r->now.cfa = off;
}

static void set_saved(struct run *r, uint64_t reg, enum saved how, int64_t off)
{
	if (reg == REG_RBP) {
		r->now.rbp = how;
		r->now.rbp_off = off;
	} else if (reg == REG_RA) {
		r->now.ra_odd = how != SAVED_AT_CFA || off != -8;
		r->now.ra_none = false;
	} else if (reg == REG_RSP) {
		r->now.kind = SONDE_UNWIND_HARD;
	}
}

static void restore(struct run *r, uint64_t reg)
{
	if (reg == REG_RBP) {
		r->now.rbp = r->initial.rbp;
		r->now.rbp_off = r->initial.rbp_off;
	} else if (reg == REG_RA) {
		r->now.ra_odd = r->initial.ra_odd;
		r->now.ra_none = r->initial.ra_none;
	}
}

/* The stub of the linkage table, as every linker describes it: rsp + 8 + ((rip & 15) >= 11) * 8
 * (some say 10, where the stub is without endbr64 and its push two bytes shorter: the push is at 6,
 * its end at 11; a call is never made in between). */
static bool is_plt(const uint8_t *e, size_t len)
{
	static const uint8_t head[] = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t tail[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};

	return len == sizeof(head) + 1 + sizeof(tail) && !memcmp(e, head, sizeof(head)) &&
	       (e[sizeof(head)] == DW_OP_lit11 || e[sizeof(head)] == DW_OP_lit10) &&
	       !memcmp(e + sizeof(head) + 1, tail, sizeof(tail));
}

/* A function that realigns its stack keeps the CFA in memory: *(rbp - n), n below 64. */
static bool is_deref(const uint8_t *e, size_t len, int64_t *off)
{
	if (len != 3 || e[0] != DW_OP_breg6 || e[1] & 0x80 || !(e[1] & 0x40) || e[2] != DW_OP_deref)
		return false;
	*off = 0x80 - e[1];
	return true;
}

static const uint8_t *take_block(struct run *r, size_t *len)
{
	uint64_t n = take_uleb(r);
	const uint8_t *at = r->p;

	if (n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		n = 0;
	}
	r->p += n;
	*len = n;
	return at;
}

static void cfa_expression(struct run *r)
{
	size_t len;
	const uint8_t *e = take_block(r, &len);
	int64_t off = 0;

	r->now.kind = is_plt(e, len)	       ? SONDE_UNWIND_PLT
		      : is_deref(e, len, &off) ? SONDE_UNWIND_DEREF
					       : SONDE_UNWIND_HARD;
	r->now.cfa = off;
}

static void register_expression(struct run *r, bool is_value)
{
	uint64_t reg = take_uleb(r);
	size_t len;
	const uint8_t *e = take_block(r, &len);
	bool at_rbp = !is_value && len == 2 && e[0] == DW_OP_breg6 && !e[1];

	set_saved(r, reg, at_rbp ? SAVED_AT_RBP : SAVED_ODD, 0);
}

static void undefined(struct run *r, uint64_t reg)
{
	if (reg == REG_RA)
		r->now.ra_none = true;
	/* rbp undefined: the caller does not need it, as in a thread's first function. */
}

static void push_rules(struct run *r)
{
	if (r->depth == STACK_MAX)
		r->bad = true;
	else
		r->stack[r->depth++] = r->now;
}

static void pop_rules(struct run *r)
{
	if (!r->depth)
		r->bad = true;
	else
		r->now = r->stack[--r->depth];
}

static uint64_t advance_by(struct run *r, uint64_t n)
{
	return r->pc + n * r->cie->code_alignment_factor;
}

/* Instructions whose operand is in the low six bits. Returns whether it was one. */
static bool run_short(struct run *r, uint8_t op, uint64_t *to)
{
	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		*to = advance_by(r, op & 0x3f);
		return true;
	case DW_CFA_offset:
		set_saved(r, op & 0x3f, SAVED_AT_CFA, factored(r, take_uleb(r)));
		return true;
	case DW_CFA_restore:
		restore(r, op & 0x3f);
		return true;
	}
	return false;
}

/* Rules of where the frame begins. Returns whether it was one. */
static bool run_cfa(struct run *r, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = take_uleb(r);
		set_cfa(r, reg, (int64_t)take_uleb(r));
		return true;
	case DW_CFA_def_cfa_sf:
		reg = take_uleb(r);
		set_cfa(r, reg, factored(r, (uint64_t)take_sleb(r)));
		return true;
	case DW_CFA_def_cfa_register:
		set_cfa(r, take_uleb(r), r->now.cfa);
		return true;
	case DW_CFA_def_cfa_offset:
		set_cfa(r, r->now.cfa_reg, (int64_t)take_uleb(r));
		return true;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa(r, r->now.cfa_reg, factored(r, (uint64_t)take_sleb(r)));
		return true;
	case DW_CFA_def_cfa_expression:
		cfa_expression(r);
		return true;
	}
	return false;
}

/* Rules of a register. Returns whether it was one. */
static bool run_register(struct run *r, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_offset_extended:
		reg = take_uleb(r);
		set_saved(r, reg, SAVED_AT_CFA, factored(r, take_uleb(r)));
		return true;
	case DW_CFA_offset_extended_sf:
		reg = take_uleb(r);
		set_saved(r, reg, SAVED_AT_CFA, factored(r, (uint64_t)take_sleb(r)));
		return true;
	case DW_CFA_restore_extended:
		restore(r, take_uleb(r));
		return true;
	case DW_CFA_undefined:
		undefined(r, take_uleb(r));
		return true;
	case DW_CFA_same_value:
		set_saved(r, take_uleb(r), SAVED_NOT, 0);
		return true;
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf: /* the second operand's length does not depend on its sign */
		reg = take_uleb(r);
		take_uleb(r);
		set_saved(r, reg, SAVED_ODD, 0);
		return true;
	case DW_CFA_expression:
		register_expression(r, false);
		return true;
	case DW_CFA_val_expression:
		register_expression(r, true);
		return true;
	}
	return false;
}

static void run_other(struct run *r, uint8_t op, uint64_t *to)
{
	switch (op) {
	case DW_CFA_nop:
		return;
	case DW_CFA_set_loc: /* its encoding is the CIE's; compilers do not use it */
		r->bad = true;
		return;
	case DW_CFA_advance_loc1:
		*to = advance_by(r, take_bytes(r, 1));
		return;
	case DW_CFA_advance_loc2:
		*to = advance_by(r, take_bytes(r, 2));
		return;
	case DW_CFA_advance_loc4:
		*to = advance_by(r, take_bytes(r, 4));
		return;
	case DW_CFA_remember_state:
		push_rules(r);
		return;
	case DW_CFA_restore_state:
		pop_rules(r);
		return;
	case DW_CFA_GNU_args_size:
		take_uleb(r);
		return;
	default:
		r->bad = true;
	}
}

/* Up to the next advance, or the end. Returns the address it advances to, NO_ADDRESS at the end. */
static uint64_t run_stretch(struct run *r)
{
	while (r->p < r->end && !r->bad) {
		uint64_t to = NO_ADDRESS;
		uint8_t op = *r->p++;

		if (!run_short(r, op, &to) && !run_cfa(r, op) && !run_register(r, op))
			run_other(r, op, &to);
		if (to != NO_ADDRESS)
			return to;
	}
	return NO_ADDRESS;
}

/* The rules as a row's. */
static uint32_t pack(const struct run *r)
{
	const struct rules *n = &r->now;
	uint32_t hard = SONDE_UNWIND_RULE(SONDE_UNWIND_HARD, 0, 0), saved = 0;

	if (r->signal)
		return SONDE_UNWIND_RULE(SONDE_UNWIND_SIGNAL, 0, 0);
	if (n->ra_none)
		return SONDE_UNWIND_RULE(SONDE_UNWIND_END, 0, 0);
	if (r->bad || n->ra_odd || n->rbp == SAVED_ODD || n->kind == SONDE_UNWIND_HARD)
		return hard;
	if (n->cfa < 0 || n->cfa > SONDE_UNWIND_CFA_MAX || n->cfa % 8)
		return hard;
	if ((n->rbp == SAVED_AT_RBP) != (n->kind == SONDE_UNWIND_DEREF))
		return hard;
	if (n->rbp == SAVED_AT_CFA) {
		if (n->rbp_off >= 0 || n->rbp_off < -(int64_t)SONDE_UNWIND_SAVED_MAX ||
		    n->rbp_off % 8)
			return hard;
		saved = (uint32_t)-n->rbp_off;
	}
	return SONDE_UNWIND_RULE(n->kind, (uint32_t)n->cfa, saved);
}

int sonde_unwind_run(struct sonde_unwind_table *t, const struct sonde_elf_frame *f)
{
	struct run r = {.p = f->cie->initial_instructions,
			.end = f->cie->initial_instructions_end,
			.cie = f->cie,
			.pc = f->start,
			.now = {.kind = SONDE_UNWIND_HARD, .ra_odd = true}};
	int err = 0;

	r.signal = f->cie->augmentation && strchr(f->cie->augmentation, 'S');
	r.bad = f->cie->return_address_register != REG_RA;
	if (!r.bad && run_stretch(&r) != NO_ADDRESS)
		r.bad = true;
	r.initial = r.now;
	r.p = f->code;
	r.end = f->code_end;
	while (!err) {
		uint64_t to = run_stretch(&r), from = r.pc;

		/* Malformed in the middle: what holds from here is not known. */
		if (to != NO_ADDRESS && (to < from || to - f->start > f->size))
			r.bad = true;
		if (to == from && !r.bad)
			continue;
		err = sonde_unwind_add(t, from, pack(&r));
		if (to == NO_ADDRESS || r.bad || to - f->start == f->size)
			break;
		r.pc = to;
	}
	return err ? err : sonde_unwind_add(t, f->start + f->size, SONDE_UNWIND_NONE);
}
