// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions by address. Symbols are sorted once; an address belongs to the last symbol that begins
 * at or before it and, where the symbol says how long it is, holds it.
 */
#include <errno.h>
#include <string.h>

#include "core/mem.h"
#include "target/names_priv.h"

/* Of the C++ runtime (Itanium C++ ABI); libstdc++ has no C header for it. */
extern char *__cxa_demangle(const char *mangled, char *buf, size_t *len, int *status);

struct symbol {
	uint64_t start, size;
	const char *name; /* owned by the file */
};

struct answer {
	uint64_t vaddr;
	struct sonde_name_list list; /* v NULL: free */
};

struct sonde_names {
	struct sonde_elf *elf;
	struct sonde_dwarf *dwarf;
	struct symbol *symbols;
	size_t n, cap;
	struct answer *answers; /* open addressing, at most half full */
	size_t n_answers, n_slots;
};

char *sonde_demangle(const char *symbol)
{
	const char *version = strchr(symbol, '@');
	char *plain = version ? strndup(symbol, (size_t)(version - symbol)) : strdup(symbol), *full;
	int status;

	if (!plain || strncmp(plain, "_Z", 2))
		return plain;
	full = __cxa_demangle(plain, NULL, NULL, &status);
	if (!full)
		return plain;
	free(plain);
	return full;
}

static int add_symbol(void *ctx, const struct sonde_sym *sym)
{
	struct sonde_names *names = ctx;

	if (SONDE_GROW(names->symbols, names->n, names->cap))
		return -ENOMEM;
	names->symbols[names->n++] = (struct symbol){sym->value, sym->size, sym->name};
	return 0;
}

/* Of those that begin together the one to show last: with a size, of the fewest underscores in
 * front (malloc, not __libc_malloc), the shortest. */
static int by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	size_t x_under, y_under, x_len, y_len;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (!x->size != !y->size)
		return x->size ? 1 : -1;
	x_under = strspn(x->name, "_");
	y_under = strspn(y->name, "_");
	if (x_under != y_under)
		return x_under < y_under ? 1 : -1;
	x_len = strlen(x->name);
	y_len = strlen(y->name);
	return (x_len < y_len) - (x_len > y_len);
}

int sonde_names_new(struct sonde_names **out, struct sonde_elf *elf)
{
	struct sonde_names *names = calloc(1, sizeof(*names));
	int err;

	if (!names)
		return -ENOMEM;
	names->elf = elf;
	err = sonde_elf_each(elf, add_symbol, names);
	if (err) {
		sonde_names_free(&names);
		return err;
	}
	if (names->n)
		qsort(names->symbols, names->n, sizeof(*names->symbols), by_start);
	names->dwarf = sonde_dwarf_open(elf);
	*out = names;
	return 0;
}

static void list_fini(struct sonde_name_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->v[i].function);
		free(list->v[i].file);
	}
	free(list->v);
	*list = (struct sonde_name_list){0};
}

void sonde_names_free(struct sonde_names **ref)
{
	struct sonde_names *names = *ref;

	*ref = NULL;
	if (!names)
		return;
	for (size_t i = 0; i < names->n_slots; i++)
		list_fini(&names->answers[i].list);
	free(names->answers);
	free(names->symbols);
	sonde_dwarf_free(&names->dwarf);
	free(names);
}

static const char *symbol_at(const struct sonde_names *names, uint64_t vaddr)
{
	size_t lo = 0, hi = names->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (names->symbols[mid].start <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* A symbol within another's extent may end before the address: look a few back. */
	for (size_t i = lo, tries = 0; i-- > 0 && tries < 8; tries++) {
		const struct symbol *s = &names->symbols[i];

		if (!s->size ? i + 1 == lo : vaddr - s->start < s->size)
			return s->name;
	}
	return NULL;
}

static int add_by_symbol(struct sonde_names *names, uint64_t vaddr, struct sonde_name_list *list)
{
	const char *symbol = symbol_at(names, vaddr);
	struct sonde_name name = {.function = symbol ? sonde_demangle(symbol) : NULL};

	if ((symbol && !name.function) || SONDE_GROW(list->v, list->n, list->cap)) {
		free(name.function);
		return -ENOMEM;
	}
	list->v[list->n++] = name;
	return 0;
}

static struct answer *slot_of(struct answer *answers, size_t n_slots, uint64_t vaddr)
{
	size_t i = (vaddr * 0x9e3779b97f4a7c15ull >> 20) & (n_slots - 1);

	while (answers[i].list.v && answers[i].vaddr != vaddr)
		i = (i + 1) & (n_slots - 1);
	return &answers[i];
}

static int grow(struct sonde_names *names)
{
	size_t n = names->n_slots ? names->n_slots * 2 : 64;
	struct answer *answers;

	if (names->n_answers * 2 < names->n_slots)
		return 0;
	answers = calloc(n, sizeof(*answers));
	if (!answers)
		return -ENOMEM;
	for (size_t i = 0; i < names->n_slots; i++)
		if (names->answers[i].list.v)
			*slot_of(answers, n, names->answers[i].vaddr) = names->answers[i];
	free(names->answers);
	names->answers = answers;
	names->n_slots = n;
	return 0;
}

int sonde_names_at(struct sonde_names *names, uint64_t vaddr, const struct sonde_name **out,
		   size_t *n)
{
	struct answer *a;
	int err = grow(names);

	if (err)
		return err;
	a = slot_of(names->answers, names->n_slots, vaddr);
	if (!a->list.v) {
		struct sonde_name_list list = {0};

		if (names->dwarf)
			err = sonde_dwarf_at(names->dwarf, vaddr, &list);
		if (!err && !list.n)
			err = add_by_symbol(names, vaddr, &list);
		if (err) {
			list_fini(&list);
			return err;
		}
		*a = (struct answer){vaddr, list};
		names->n_answers++;
	}
	*out = a->list.v;
	*n = a->list.n;
	return 0;
}
