// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Questions to the running kernel's types (BTF): what a tracepoint's arguments are, what a constant
 * is called, which members a structure has. Between versions arguments come, go and change places;
 * their types tell which it is, where a version number would be wrong for kernels with backports.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/btf.h>

#include "attach/feature.h"
#include "attach/prog.h"

/* Type number of a tracepoint. The latest is kept: finding a name walks all types (about 1 ms), and
 * whoever asks for one argument asks for another of the same tracepoint next. */
static int tracepoint_id(const char *event)
{
	static char latest[96];
	static int id;

	if (!*latest || strcmp(latest, event)) {
		snprintf(latest, sizeof(latest), "%s", event);
		id = sonde_btf_tracepoint_id(event);
	}
	return id;
}

/* The function type behind tracepoint @event; its first parameter is private data. */
static const struct btf_type *tracepoint_proto(const struct btf **btf, const char *event)
{
	int err = 0, id = tracepoint_id(event);
	const struct btf_type *t;

	if (id < 0)
		return NULL;
	*btf = sonde_kernel_btf(&err);
	t = btf__type_by_id(*btf, btf__type_by_id(*btf, (uint32_t)id)->type);
	if (!t || !btf_is_ptr(t))
		return NULL;
	t = btf__type_by_id(*btf, t->type);
	return t && btf_is_func_proto(t) && btf_vlen(t) ? t : NULL;
}

int sonde_btf_tracepoint_args(const char *event)
{
	const struct btf *btf = NULL;
	const struct btf_type *t = tracepoint_proto(&btf, event);

	return t ? btf_vlen(t) - 1 : -ENOENT;
}

/* "struct ", "enum " or nothing, by what @t is. */
static const char *tag_of(const struct btf_type *t)
{
	if (btf_is_struct(t))
		return "struct ";
	if (btf_is_union(t))
		return "union ";
	if (btf_is_any_enum(t))
		return "enum ";
	return "";
}

int sonde_btf_tracepoint_param(const char *event, int i, char *buf, size_t size)
{
	const struct btf *btf = NULL;
	const struct btf_type *t = tracepoint_proto(&btf, event);
	const char *name, *star = "";

	if (!t || i < 0 || i + 1 >= btf_vlen(t))
		return -ENOENT;
	t = btf__type_by_id(btf, btf_params(t)[i + 1].type);
	while (t && (btf_is_ptr(t) || btf_is_mod(t))) {
		if (btf_is_ptr(t))
			star = " *";
		t = t->type ? btf__type_by_id(btf, t->type) : NULL;
	}
	name = t ? btf__name_by_offset(btf, t->name_off) : "void";
	snprintf(buf, size, "%s%s%s", t ? tag_of(t) : "", name ? name : "", star);
	return 0;
}

int sonde_btf_enum_name(const char *name, int value, char *buf, size_t size)
{
	int err = 0, id;
	struct btf *btf = sonde_kernel_btf(&err);
	const struct btf_type *t;

	id = btf ? btf__find_by_name_kind(btf, name, BTF_KIND_ENUM) : -ENOENT;
	if (id < 0)
		return -ENOENT;
	t = btf__type_by_id(btf, (uint32_t)id);
	for (int i = 0; i < btf_vlen(t); i++)
		if (btf_enum(t)[i].val == value) {
			snprintf(buf, size, "%s",
				 btf__name_by_offset(btf, btf_enum(t)[i].name_off));
			return 0;
		}
	return -ENOENT;
}

/* Members of nameless structures and unions inside count as the outer one's. */
static bool has_member(const struct btf *btf, const struct btf_type *t, const char *member)
{
	for (int i = 0; t && i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		const char *name = btf__name_by_offset(btf, m->name_off);
		const struct btf_type *inner = btf__type_by_id(btf, m->type);

		if (name && *name ? !strcmp(name, member)
				  : btf_is_composite(inner) && has_member(btf, inner, member))
			return true;
	}
	return false;
}

bool sonde_btf_has_member(const char *name, const char *member)
{
	int err = 0, id;
	struct btf *btf = sonde_kernel_btf(&err);

	id = btf ? btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT) : -ENOENT;
	return id > 0 && has_member(btf, btf__type_by_id(btf, (uint32_t)id), member);
}

bool sonde_btf_has_function(const char *name)
{
	int err = 0;
	struct btf *btf = sonde_kernel_btf(&err);

	return btf && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}
