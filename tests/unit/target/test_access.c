// SPDX-License-Identifier: GPL-2.0-or-later
/* Why a process may not be looked into: the advice fits what we are. */
#include "unit/unit.h"

#include <errno.h>
#include <unistd.h>

#include "target/access.h"

#define PTRACE (UINT64_C(1) << 19) /* CAP_SYS_PTRACE */

static void test_reason(void **state)
{
	static const struct {
		bool root;
		uint64_t caps;
		const char *has, *lacks;
	} rows[] = {
		{false, 0, "as root", "CAP_SYS_PTRACE"},
		{true, 0, "lacks CAP_SYS_PTRACE", "as root"},
		{true, ~PTRACE, "lacks CAP_SYS_PTRACE", "as root"},
		{true, PTRACE, "protects it", "as root"},
		{false, PTRACE, "protects it", "as root"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *why = sonde_access_reason(rows[i].root, rows[i].caps);

		assert_non_null(strstr(why, rows[i].has));
		assert_null(strstr(why, rows[i].lacks));
	}
}

static void test_denied(void **state)
{
	char why[256] = "";

	(void)state;
	assert_false(sonde_access_denied(getpid()));
	assert_false(sonde_access_denied(INT32_MAX)); /* gone, not denied */
	sonde_access_denial(why, sizeof(why));
	assert_true(strlen(why) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reason),
		cmocka_unit_test(test_denied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
