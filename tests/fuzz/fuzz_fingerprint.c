// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Statements made by mutating good ones: a fingerprint fits its buffer, has no digit outside a word
 * and no quote of a literal, is the same for the same bytes, and an index name fits too.
 * fuzz_fingerprint [ITERATIONS] [SEED]
 */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lens/query.h"

static uint64_t rng;

static uint32_t rnd(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16) % below;
}

static const char *const parts[] = {
	"SELECT ",
	"a, b",
	" FROM ",
	"rt ",
	"WHERE ",
	"id IN (1, 2,3)",
	" VALUES (1,'x'),(2,'y')",
	"'it''s'",
	"\"q\\\"\"",
	"0x1f",
	"-5",
	"1.5e-7",
	" LIMIT 5, 10",
	" LIMIT 1 OFFSET 2",
	" ORDER BY ",
	"a ASC",
	", b DESC",
	" UNION ALL ",
	"select 1",
	" union select 1",
	"/* c */",
	"-- x\n",
	"# y\n",
	"/*! 4 */",
	"CALL SNIPPETS('d','i','q')",
	"use db",
	"`name`",
	";",
	"(",
	")",
	"?",
	",",
	" ",
	"\n",
	"NULL",
	"true",
	"x'1f'",
	"MATCH('a b')",
	"\\",
	"'",
	"\"",
	"`",
	"\xc3\xa9",
	"\xff",
	"\x01",
};

static size_t make(char *out, size_t size)
{
	size_t n = 0;

	for (uint32_t k = 1 + rnd(24); k--;) {
		const char *p = parts[rnd(sizeof(parts) / sizeof(parts[0]))];
		size_t len = strlen(p);

		if (n + len > size)
			break;
		memcpy(out + n, p, len);
		n += len;
	}
	for (uint32_t flips = rnd(4) ? 0 : rnd(5); flips-- && n;)
		out[rnd((uint32_t)n)] = (char)rnd(256);
	return n;
}

/* A digit is left only inside a word, and no string literal is. */
static void check_values(const char *fp, size_t n)
{
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (fp[i] == '`')
			quoted = !quoted;
		assert(fp[i] != '\'' && fp[i] != '"');
		if (isdigit((unsigned char)fp[i]) && !quoted)
			assert(i && (isalnum((unsigned char)fp[i - 1]) || fp[i - 1] == '_' ||
				     (unsigned char)fp[i - 1] >= 0x80));
	}
}

static void one(void)
{
	char buf[700], out[2048], again[2048], index[64];
	size_t n = make(buf, sizeof(buf)), size = rnd(4) ? sizeof(out) : 1 + rnd(64), len;
	char *copy = malloc(n ? n : 1); /* exact, for the sanitizer */
	bool cut = rnd(2);

	if (!copy)
		exit(1);
	memcpy(copy, buf, n);
	len = sonde_fingerprint(copy, n, cut, out, size);
	assert(len < size && out[len] == '\0');
	if (strncmp(out, "call ", 5)) /* a procedure's name is kept as it is */
		check_values(out, len);
	sonde_fingerprint(copy, n, cut, again, size);
	assert(!memcmp(out, again, len + 1));
	len = sonde_sql_index(copy, n, index, sizeof(index));
	assert(len < sizeof(index) && index[len] == '\0');
	assert(sonde_fingerprint_id(out, strlen(out)) != 0);
	free(copy);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;

	rng = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252u;
	for (uint64_t i = 0; i < rounds; i++)
		one();
	printf("fuzz_fingerprint: %llu statements\n", (unsigned long long)rounds);
	return 0;
}
