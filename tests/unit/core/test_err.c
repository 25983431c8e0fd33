// SPDX-License-Identifier: GPL-2.0-or-later
/* One error line: its value, its exit code, and the remedy that follows from the errno alone. */
#include "unit/unit.h"

#include <errno.h>
#include <unistd.h>

#include "core/err.h"

/* What sonde_err() writes to stderr. */
static const char *said(int code, const char *text)
{
	static char line[256];
	int pipefd[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	assert_true(saved >= 0);
	assert_int_equal(pipe(pipefd), 0);
	dup2(pipefd[1], STDERR_FILENO);
	assert_int_equal(sonde_err(code, "%s", text), -abs(code));
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(pipefd[1]);
	n = read(pipefd[0], line, sizeof(line) - 1);
	close(pipefd[0]);
	assert_true(n >= 0);
	line[n] = '\0';
	return line;
}

static void test_remedy_of_the_errno(void **state)
{
	(void)state;
	assert_string_equal(said(EMFILE, "cannot open x"),
			    "sonde: cannot open x; raise the limit, for example by `ulimit -n "
			    "4096`\n");
	assert_string_equal(said(-EMFILE, "cannot open x; raise `ulimit -n`"),
			    "sonde: cannot open x; raise `ulimit -n`\n");
	assert_string_equal(said(ENOENT, "cannot open x"), "sonde: cannot open x\n");
}

static void test_exit_codes(void **state)
{
	(void)state;
	assert_int_equal(sonde_exit_code(0), SONDE_EXIT_OK);
	assert_int_equal(sonde_exit_code(-ESRCH), SONDE_EXIT_NO_TARGET);
	assert_int_equal(sonde_exit_code(-EACCES), SONDE_EXIT_NOT_PERMITTED);
	assert_int_equal(sonde_exit_code(-EOPNOTSUPP), SONDE_EXIT_KERNEL_CANNOT);
	assert_int_equal(sonde_exit_code(-EMFILE), SONDE_EXIT_FAILED);
	assert_int_equal(sonde_exit_code(-ENOMEM), SONDE_EXIT_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remedy_of_the_errno),
		cmocka_unit_test(test_exit_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
