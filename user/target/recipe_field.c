// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where a recipe says that a figure is: in memory at an argument register plus an offset, behind a
 * pointer there, in the register itself, or a constant. The invariant: what is taken has one
 * meaning, and an offset that no structure has is a slip of the pen.
 */
#include <errno.h>

#include "core/mem.h"
#include "core/num.h"
#include "target/recipe.h"

#define MAX_OFFSET (1 << 20)

static const char *const registers[] = {"rdi", "rsi", "rdx", "rcx"};

/* Their lower halves: a 32-bit argument. */
static const char *const halves[] = {"edi", "esi", "edx", "ecx"};

static int register_of(const char *name, const char *const *list)
{
	for (int i = 0; i < 4; i++)
		if (!strncmp(name, list[i], 3))
			return i;
	return -1;
}

/* =rdx or =edx */
static int parse_value(const char *text, struct sonde_handler_field *out)
{
	int arg = register_of(text, registers);

	if (arg < 0)
		arg = register_of(text, halves);
	if (arg < 0 || text[3])
		return -EINVAL;
	*out = (struct sonde_handler_field){.arg = arg, .is_value = true};
	return 0;
}

static int parse_constant(const char *text, struct sonde_handler_field *out)
{
	uint64_t value;

	if (sonde_parse_u64(text, &value) || value > MAX_OFFSET)
		return -EINVAL;
	*out = (struct sonde_handler_field){.offset = (int)value, .is_constant = true};
	return 0;
}

/* REG or REG+OFFSET, to the end of @text. */
static int parse_place(const char *text, bool deref, struct sonde_handler_field *out)
{
	uint64_t offset = 0;
	int arg = register_of(text, registers);

	if (arg < 0 || (text[3] && text[3] != '+'))
		return -EINVAL;
	if (text[3] == '+' && (sonde_parse_u64(text + 4, &offset) || offset > MAX_OFFSET))
		return -EINVAL;
	*out = (struct sonde_handler_field){.arg = arg, .offset = (int)offset, .deref = deref};
	return 0;
}

int sonde_recipe_field(const char *text, struct sonde_handler_field *out)
{
	char word[64];
	size_t len = strlen(text);

	if (!len || len >= sizeof(word))
		return -EINVAL;
	if (text[0] == '=')
		return parse_value(text + 1, out);
	if (text[0] >= '0' && text[0] <= '9')
		return parse_constant(text, out);
	if (text[0] != '*')
		return parse_place(text, false, out);
	if (text[1] != '(')
		return parse_place(text + 1, true, out);
	if (text[len - 1] != ')')
		return -EINVAL;
	memcpy(word, text + 2, len - 3);
	word[len - 3] = '\0';
	return parse_place(word, true, out);
}
