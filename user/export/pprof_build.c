// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The profile's tables. Everything is named by number: strings, functions, mappings and locations
 * are each kept once, found again by a key. One list owns all messages.
 */
#include <errno.h>
#include <inttypes.h>

#include "core/hash.h"
#include "core/mem.h"
#include "export/pprof.pb-c.h"
#include "export/pprof_build.h"

#define FILE_BITS 40 /* of addresses, for each file */

/* Keys in the order of their numbers, from @first. */
struct index {
	char **keys;
	uint32_t *slots; /* position + 1 */
	size_t n, cap, n_slots;
};

struct list {
	void **v; /* messages, or strings */
	size_t n, cap;
};

struct sonde_profile {
	struct index strings, functions, mappings, locations;
	struct list mapping, location, function, sample;
	SondePprof__ValueType types[4], *type[4], period;
	SondePprof__Profile msg;
	bool has_live;
};

static uint32_t *slot_of(const struct index *x, uint32_t *slots, size_t n, const char *key)
{
	size_t i = sonde_fnv1a(SONDE_FNV1A_BASIS, key, strlen(key)) & (n - 1);

	while (slots[i] && strcmp(x->keys[slots[i] - 1], key))
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int index_grow(struct index *x)
{
	size_t n = x->n_slots ? x->n_slots * 2 : 256;
	uint32_t *slots;

	if (x->n * 2 < x->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < x->n; i++)
		*slot_of(x, slots, n, x->keys[i]) = (uint32_t)i + 1;
	free(x->slots);
	x->slots = slots;
	x->n_slots = n;
	return 0;
}

/* The position of @key; *added where it is new. 0 or -ENOMEM. */
static int find(struct index *x, const char *key, size_t *at, bool *added)
{
	uint32_t *slot;
	char *copy;

	if (index_grow(x))
		return -ENOMEM;
	slot = slot_of(x, x->slots, x->n_slots, key);
	*added = !*slot;
	if (!*slot) {
		copy = strdup(key);
		if (!copy || SONDE_GROW(x->keys, x->n, x->cap)) {
			free(copy);
			return -ENOMEM;
		}
		x->keys[x->n++] = copy;
		*slot = (uint32_t)x->n;
	}
	*at = *slot - 1;
	return 0;
}

static void index_fini(struct index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->keys[i]);
	free(x->keys);
	free(x->slots);
}

/* -1: no memory. */
static int64_t string(struct sonde_profile *p, const char *s)
{
	sonde_autostr struct sonde_str clean = {0};
	size_t at;
	bool added;

	if (sonde_str_add_utf8(&clean, s, strlen(s)) ||
	    find(&p->strings, sonde_str_get(&clean), &at, &added))
		return -1;
	return (int64_t)at;
}

/* A message of @size bytes at the end of @l, to be initialised. */
static void *append(struct list *l, size_t size)
{
	void *m = calloc(1, size);

	if (!m || SONDE_GROW(l->v, l->n, l->cap)) {
		free(m);
		return NULL;
	}
	l->v[l->n++] = m;
	return m;
}

static int get_mapping(struct sonde_profile *p, const char *module, uint64_t *id)
{
	SondePprof__Mapping *m;
	size_t at;
	bool added;

	if (find(&p->mappings, module, &at, &added))
		return -ENOMEM;
	*id = at + 1;
	if (!added)
		return 0;
	m = append(&p->mapping, sizeof(*m));
	if (!m)
		return -ENOMEM;
	sonde_pprof__mapping__init(m);
	m->id = *id;
	m->memory_start = *id << FILE_BITS;
	m->memory_limit = (*id + 1) << FILE_BITS;
	m->filename = string(p, *module ? module : "[no file]");
	m->has_functions = m->has_filenames = m->has_line_numbers = m->has_inline_frames = true;
	return m->filename < 0 ? -ENOMEM : 0;
}

static int get_function(struct sonde_profile *p, const struct sonde_frame *f, uint64_t *id)
{
	sonde_autostr struct sonde_str key = {0};
	SondePprof__Function *fn;
	char name[4096];
	size_t at;
	bool added;

	sonde_frame_text(name, sizeof(name), f);
	if (sonde_str_addf(&key, "%s\n%s\n%s", name, f->module, f->file) ||
	    find(&p->functions, key.s, &at, &added))
		return -ENOMEM;
	*id = at + 1;
	if (!added)
		return 0;
	fn = append(&p->function, sizeof(*fn));
	if (!fn)
		return -ENOMEM;
	sonde_pprof__function__init(fn);
	fn->id = *id;
	fn->name = fn->system_name = string(p, name);
	fn->filename = string(p, f->file);
	return fn->name < 0 || fn->filename < 0 ? -ENOMEM : 0;
}

static int add_line(struct sonde_profile *p, SondePprof__Location *loc, const struct sonde_frame *f)
{
	SondePprof__Line *line = calloc(1, sizeof(*line));
	SondePprof__Line **lines = reallocarray(loc->line, loc->n_line + 1, sizeof(*lines));

	if (lines)
		loc->line = lines;
	if (!line || !lines) {
		free(line);
		return -ENOMEM;
	}
	sonde_pprof__line__init(line);
	lines[loc->n_line++] = line;
	line->line = f->line;
	return get_function(p, f, &line->function_id);
}

/* The frames of one address, [from, to): inlined ones, then the function itself. */
static int get_location(struct sonde_profile *p, const struct sonde_frame *from,
			const struct sonde_frame *to, uint64_t *id)
{
	sonde_autostr struct sonde_str key = {0};
	SondePprof__Location *loc;
	size_t at;
	bool added;
	int err;

	if (sonde_str_addf(&key, "%" PRIx64 " %s", from->offset, from->module) ||
	    find(&p->locations, key.s, &at, &added))
		return -ENOMEM;
	*id = at + 1;
	if (!added)
		return 0;
	loc = append(&p->location, sizeof(*loc));
	if (!loc)
		return -ENOMEM;
	sonde_pprof__location__init(loc);
	loc->id = *id;
	err = get_mapping(p, from->module, &loc->mapping_id);
	loc->address = (loc->mapping_id << FILE_BITS) + (from->offset & ((1ull << FILE_BITS) - 1));
	for (; from < to && !err; from++)
		err = add_line(p, loc, from);
	return err;
}

/* Why a stack is not whole, as its outermost frame. */
static int get_end(struct sonde_profile *p, const struct sonde_stack_row *row, uint64_t *id)
{
	char text[64];
	struct sonde_frame f = {.function = text, .module = "", .file = ""};

	snprintf(text, sizeof(text), "[%s]",
		 row->defined ? sonde_stack_end_name(row->end) : "unnamed");
	f.offset = row->defined ? row->end : SONDE_STACK_END__MAX;
	return get_location(p, &f, &f + 1, id);
}

static int add_locations(struct sonde_profile *p, const struct sonde_stack_row *row,
			 SondePprof__Sample *s)
{
	int err = 0;

	for (size_t i = 0; i < row->n && !err;) {
		size_t last = i;

		while (last + 1 < row->n && row->frames[last].inlined)
			last++;
		err = get_location(p, &row->frames[i], &row->frames[last] + 1,
				   &s->location_id[s->n_location_id]);
		s->n_location_id += !err;
		i = last + 1;
	}
	if (!err && (!row->defined || row->end != SONDE_STACK_COMPLETE)) {
		err = get_end(p, row, &s->location_id[s->n_location_id]);
		s->n_location_id += !err;
	}
	return err;
}

static int add_sample(struct sonde_profile *p, const struct sonde_site_group *g)
{
	SondePprof__Sample *s = append(&p->sample, sizeof(*s));

	if (!s)
		return -ENOMEM;
	sonde_pprof__sample__init(s);
	s->location_id = calloc(g->row->n + 1, sizeof(*s->location_id));
	s->value = calloc(4, sizeof(*s->value));
	if (!s->location_id || !s->value)
		return -ENOMEM;
	s->n_value = p->has_live ? 4 : 2;
	s->value[0] = (int64_t)g->calls;
	s->value[1] = (int64_t)g->bytes;
	s->value[2] = (int64_t)g->live_calls;
	s->value[3] = (int64_t)g->live_bytes;
	return add_locations(p, g->row, s);
}

static int add_types(struct sonde_profile *p, enum sonde_lens_id lens)
{
	static const char *const allocs[4][2] = {{"alloc_objects", "count"},
						 {"alloc_space", "bytes"},
						 {"inuse_objects", "count"},
						 {"inuse_space", "bytes"}};
	/* Of page faults nothing is live: there are two. */
	static const char *const faults[4][2] = {
		{"faults", "count"}, {"fault_time", "nanoseconds"}, {"", ""}, {"", ""}};
	const char *const(*names)[2] = lens == SONDE_LENS_FAULT ? faults : allocs;

	if (string(p, ""))
		return -ENOMEM;
	for (int i = 0; i < 4; i++) {
		sonde_pprof__value_type__init(&p->types[i]);
		p->types[i].type = string(p, names[i][0]);
		p->types[i].unit = string(p, names[i][1]);
		p->type[i] = &p->types[i];
		if (p->types[i].type < 0 || p->types[i].unit < 0)
			return -ENOMEM;
	}
	return 0;
}

static void fill(struct sonde_profile *p)
{
	SondePprof__Profile *m = &p->msg;

	sonde_pprof__profile__init(m);
	m->sample_type = p->type;
	m->n_sample_type = p->has_live ? 4 : 2;
	m->sample = (SondePprof__Sample **)p->sample.v;
	m->n_sample = p->sample.n;
	m->mapping = (SondePprof__Mapping **)p->mapping.v;
	m->n_mapping = p->mapping.n;
	m->location = (SondePprof__Location **)p->location.v;
	m->n_location = p->location.n;
	m->function = (SondePprof__Function **)p->function.v;
	m->n_function = p->function.n;
	m->string_table = p->strings.keys;
	m->n_string_table = p->strings.n;
	m->default_sample_type = p->types[p->has_live ? 3 : 1].type;
}

int sonde_profile_new(struct sonde_profile **out, enum sonde_lens_id lens,
		      const struct sonde_site_group *g, size_t n)
{
	struct sonde_profile *p = calloc(1, sizeof(*p));
	int err = p ? add_types(p, lens) : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++)
		p->has_live |= g[i].has_live;
	for (size_t i = 0; i < n && !err; i++)
		err = add_sample(p, &g[i]);
	if (err) {
		sonde_profile_free(&p);
		return err;
	}
	fill(p);
	*out = p;
	return 0;
}

static void list_fini(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

void sonde_profile_free(struct sonde_profile **ref)
{
	struct sonde_profile *p = *ref;

	*ref = NULL;
	if (!p)
		return;
	for (size_t i = 0; i < p->sample.n; i++) {
		free(((SondePprof__Sample *)p->sample.v[i])->location_id);
		free(((SondePprof__Sample *)p->sample.v[i])->value);
	}
	for (size_t i = 0; i < p->location.n; i++) {
		SondePprof__Location *loc = p->location.v[i];

		for (size_t j = 0; j < loc->n_line; j++)
			free(loc->line[j]);
		free(loc->line);
	}
	list_fini(&p->sample);
	list_fini(&p->mapping);
	list_fini(&p->location);
	list_fini(&p->function);
	index_fini(&p->strings);
	index_fini(&p->functions);
	index_fini(&p->mappings);
	index_fini(&p->locations);
	free(p);
}

void sonde_profile_time(struct sonde_profile *p, uint64_t begin_ns, uint64_t length_ns)
{
	p->msg.time_nanos = (int64_t)begin_ns;
	p->msg.duration_nanos = (int64_t)length_ns;
}

int sonde_profile_pack(const struct sonde_profile *p, struct sonde_str *out)
{
	size_t n = sonde_pprof__profile__get_packed_size(&p->msg);
	sonde_autofree uint8_t *bytes = malloc(n ? n : 1);

	if (!bytes)
		return -ENOMEM;
	sonde_pprof__profile__pack(&p->msg, bytes);
	return sonde_str_add(out, (const char *)bytes, n);
}
