// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts in constants; see text.h. */
#include <string.h>

#include "target/allocators/text.h"

void sonde_alloc_text_after(struct sonde_elf *elf, const char *marker, const char *accept,
			    char *buf, size_t size)
{
	size_t len, skip = strlen(marker);
	const char *text, *p, *end;

	buf[0] = '\0';
	if (sonde_elf_rodata(elf, &text, &len))
		return;
	end = text + len;
	for (p = text; (p = memmem(p, (size_t)(end - p), marker, skip));) {
		size_t n = 0;

		p += skip;
		while (p + n < end && p[n] && strchr(accept, p[n]))
			n++;
		if (!n)
			continue;
		snprintf(buf, size, "%.*s", (int)(n < size ? n : size), p);
		return;
	}
}

bool sonde_alloc_has_text(struct sonde_elf *elf, const char *text)
{
	const char *data;
	size_t len;

	return !sonde_elf_rodata(elf, &data, &len) && memmem(data, len, text, strlen(text));
}
