// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * HTTP requests of a stranger: their form and their parts, from bytes put together of what means
 * something and what does not, in buffers of their own length. Survived: nothing is read or written
 * outside, every result ends within its buffer, and the same bytes give the same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_target.h"
#include "lens/query.h"

static const char *const parts[] = {
	"GET ",
	"POST ",
	"DELETE ",
	"/",
	"/sql",
	"/cli_json",
	"/search",
	"?query=",
	"a=1&b",
	"%4",
	"%zz",
	" HTTP/1.1\r\n",
	"\r\n",
	"\r\n\r\n",
	"Transfer-Encoding: chunked\r\n",
	"ffffffffffffffff",
	"1f\r\n",
	"0\r\n\r\n",
	"{\"index\":\"",
	"\\",
	"\"",
	"\"table\" : \"t\"",
	"[1,2,3]",
	"}",
	"SELECT 1 FROM x",
	"42",
	"3fa85f64-5717",
	"\xff",
	"null",
};

static size_t make(char *out, size_t size)
{
	size_t n = 0;

	for (uint64_t left = fuzz_below(24); left; left--) {
		const char *p = parts[fuzz_below(sizeof(parts) / sizeof(parts[0]))];
		size_t len = strlen(p);

		if (n + len > size)
			break;
		memcpy(out + n, p, len);
		n += len;
	}
	for (uint64_t flips = fuzz_below(4) ? 0 : fuzz_below(5); flips-- && n;)
		out[fuzz_below(n)] = (char)fuzz_below(256);
	return n;
}

static void one(void)
{
	char buf[SONDE_TEXT_BYTES], out[2048], again[2048], index[SONDE_INDEX_BYTES];
	size_t n = make(buf, sizeof(buf)), size = fuzz_below(4) ? sizeof(out) : 1 + fuzz_below(64),
	       len;
	char *copy = malloc(n ? n : 1), *joined = malloc(n ? n : 1); /* exact, for the sanitizer */
	struct sonde_http_request r;

	if (!copy || !joined)
		exit(1);
	memcpy(copy, buf, n);
	len = sonde_http_fingerprint(copy, n, fuzz_below(2), out, size, index);
	assert(len < size && memchr(index, '\0', sizeof(index)));
	if (len)
		assert(out[len] == '\0');
	assert(sonde_http_fingerprint(copy, n, false, out, size, index) ==
	       sonde_http_fingerprint(copy, n, false, again, size, index));
	if (sonde_http_decode(copy, n, joined, &r))
		assert(r.method_len + r.path_len <= n && r.body_len <= n);
	free(joined);
	free(copy);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;

	if (argc > 2)
		fuzz_state = strtoull(argv[2], NULL, 10) | 1;
	for (uint64_t i = 0; i < rounds; i++)
		one();
	printf("fuzz_http: %llu requests\n", (unsigned long long)rounds);
	return 0;
}
