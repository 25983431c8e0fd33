// SPDX-License-Identifier: GPL-2.0-or-later
/* Forms of HTTP requests, Manticore's endpoints among them, and hostile ones. */
#include "unit/unit.h"

#include <string.h>

#include "core/mem.h"
#include "lens/query.h"

static void test_forms(void **state)
{
	static const struct {
		const char *text, *form, *index;
	} rows[] = {
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /", ""},
		{"GET /items/42/parts/9f86d081 HTTP/1.1\r\n\r\n", "GET /items/?/parts/?", ""},
		{"GET /a?x=1&y=two HTTP/1.1\r\n\r\n", "GET /a?x=?&y=?", ""},
		{"DELETE /v1/3fa85f64-5717-4562-b3fc-2c963f66afa6 HTTP/1.1\r\n\r\n", "DELETE /v1/?",
		 ""},
		{"POST /search HTTP/1.1\r\nContent-Length: "
		 "9\r\n\r\n{\"index\":\"docs\",\"limit\":20,"
		 "\"query\":{\"match\":{\"*\":\"red \\\" shoes\"}}}",
		 "POST /search {\"index\":?,\"limit\":?,\"query\":{\"match\":{\"*\":?}}}", "docs"},
		{"POST /search HTTP/1.1\r\n\r\n{\"table\" : \"t1\", \"ids\" : [1, 2 ,3, \"x\"]}",
		 "POST /search {\"table\":?,\"ids\":[?]}", "t1"},
		{"POST /sql "
		 "HTTP/1.1\r\n\r\nquery=SELECT%20*+FROM+docs+WHERE+MATCH('a')+AND+id%3D7&mode=raw",
		 "POST /sql select * from docs where match(?) and id=?", "docs"},
		{"GET /sql?query=SELECT+1 HTTP/1.1\r\n\r\n", "GET /sql select ?", ""},
		{"POST /cli HTTP/1.1\r\n\r\nSHOW TABLES", "POST /cli show tables", ""},
		{"POST /s HTTP/1.1\r\ntransfer-Encoding: "
		 "Chunked\r\n\r\n10\r\n{\"index\":\"docs\",\r\n"
		 "6\r\n\"n\":7}\r\n0\r\n\r\n",
		 "POST /s {\"index\":?,\"n\":?}", "docs"},
		{"POST /bulk "
		 "HTTP/1.1\r\n\r\n{\"insert\":{\"index\":\"a\"}}\n{\"insert\":{\"index\":\"a\"}}\n",
		 "POST /bulk {\"insert\":{\"index\":?}}", "a"},
		{"PUT /x", "PUT /x", ""},
		{"GET", "", ""},
		{"", "", ""},
	};
	char out[2048], index[SONDE_INDEX_BYTES];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		size_t n = sonde_http_fingerprint(rows[i].text, strlen(rows[i].text), false, out,
						  sizeof(out), index);

		out[n] = '\0';
		assert_string_equal(out, rows[i].form);
		assert_string_equal(index, rows[i].index);
	}
}

/* Every cut of a request, in a buffer of its own length, into buffers of every small size. */
static void test_cut_anywhere(void **state)
{
	static const char text[] = "POST /search?a=%4 HTTP/1.1\r\nTransfer-Encoding: "
				   "chunked\r\n\r\n1f\r\n{\"index\":\"d\\\",[1,{\"b\":";
	char out[64], index[SONDE_INDEX_BYTES];

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		char *copy = malloc(n ? n : 1);

		memcpy(copy, text, n);
		for (size_t size = 1; size <= sizeof(out); size++)
			assert_true(sonde_http_fingerprint(copy, n, true, out, size, index) < size);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_cut_anywhere),
	};

	return cmocka_run_group_tests_name("lens/http", tests, NULL, NULL);
}
