/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1, of the query lens: what the arguments of a daemon's own function say, as its recipe
 * describes them. User memory that is not there is a drop; nothing is written beyond what was read.
 */
#ifndef SONDE_BPF_HANDLERARGS_H
#define SONDE_BPF_HANDLERARGS_H

#include "lib/base.bpf.h"
#include "sonde/handler.h"

/* The argument registers, copied: the context takes no variable offset. */
struct handler_args {
	__u64 reg[4];
};

/* Where the field is, or for a pointer where it points. 0: it has no place in memory. */
static __always_inline __u64 field_address(const struct handler_args *a,
					   const struct sonde_query_field *f)
{
	__u64 at = a->reg[f->arg & 3], to = 0;

	switch (f->kind) {
	case SONDE_FIELD_REGISTER:
		return at;
	case SONDE_FIELD_MEMORY:
		return at + f->offset;
	case SONDE_FIELD_POINTER:
		if (bpf_probe_read_user(&to, sizeof(to), (void *)(at + f->offset)))
			count_drop(SONDE_LENS_QUERY, SONDE_DROP_COPY_FAULT);
		return to;
	}
	return 0;
}

/* Into *dst, which stays as it is where the recipe does not say. */
static __always_inline void field_read(const struct handler_args *a,
				       const struct sonde_query_field *f, void *dst, __u32 size)
{
	__u64 value = f->kind == SONDE_FIELD_CONSTANT ? f->offset : a->reg[f->arg & 3], at;

	if (f->kind == SONDE_FIELD_UNSAID)
		return;
	if (f->kind == SONDE_FIELD_CONSTANT || f->kind == SONDE_FIELD_REGISTER) {
		__builtin_memcpy(dst, &value, size); /* little-endian: the low bytes */
		return;
	}
	at = field_address(a, f);
	if (!at || bpf_probe_read_user(dst, size, (void *)at))
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_COPY_FAULT);
}

/* More text than is kept: how long is it? Up to 64 KiB are looked at. */
struct text_walk {
	__u64 at;
	char piece[256];
	__u32 len;
};

static long text_step(__u32 i, void *ctx)
{
	struct text_walk *w = ctx;
	long n = bpf_probe_read_user_str(w->piece, sizeof(w->piece), (void *)w->at);

	(void)i;
	if (n <= 0)
		return 1;
	w->len += n - 1;
	w->at += n - 1;
	return n < (long)sizeof(w->piece);
}

static __always_inline __u32 text_full_length(__u64 at)
{
	struct text_walk w = {.at = at};

	bpf_loop(256, text_step, &w, 0);
	return w.len;
}

/* The query's text, by its length or up to a NUL. */
static __always_inline void handler_text(struct sonde_ev_span *s, const struct handler_args *a,
					 const struct sonde_query_handler *h)
{
	__u64 at = field_address(a, &h->text), n;
	__u32 len = 0;
	long got;

	if (!at) {
		s->flags |= SONDE_SPAN_F_NO_TEXT;
		return;
	}
	if (h->length.kind == SONDE_FIELD_UNSAID) {
		got = bpf_probe_read_user_str(s->text, sizeof(s->text), (void *)at);
		n = got > 0 ? got - 1 : 0;
		len = n == sizeof(s->text) - 1 ? text_full_length(at) : n;
	} else {
		field_read(a, &h->length, &len, sizeof(len));
		n = len < SONDE_TEXT_BYTES ? len : SONDE_TEXT_BYTES;
		__asm__ volatile("" : "+r"(n)); /* the register that is tested is the one used */
		if (n > SONDE_TEXT_BYTES)
			return;
		got = n ? bpf_probe_read_user(s->text, n, (void *)at) : 0;
	}
	if (got < 0) {
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_COPY_FAULT);
		s->flags |= SONDE_SPAN_F_NO_TEXT;
		return;
	}
	s->text_len = n;
	s->request_len = len;
	if (len > n)
		s->flags |= SONDE_SPAN_F_CUT;
}

#endif
