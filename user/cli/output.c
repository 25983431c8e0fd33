// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stdout with a memory: stdio forgets why a write failed by the time that main asks, so the stream
 * writes through a function that keeps the first error.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "core/err.h"
#include "core/log.h"
#include "core/str.h"

static int first_error;
static bool hold, raw;

void sonde_output_hold(void)
{
	hold = true;
}

static size_t put(const char *buf, size_t size)
{
	size_t done = 0;

	while (done < size && !first_error) {
		ssize_t n = write(STDOUT_FILENO, buf + done, size - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EPIPE && !hold)
			_exit(SONDE_EXIT_OK);
		else if (errno != EINTR)
			first_error = -errno;
	}
	return done;
}

/* Bytes at the end that are the beginning of a character. */
static size_t unfinished(const char *buf, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char c = (unsigned char)buf[size - back];

		if (c >= 0xc0)
			return back < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? back : 0;
		if (c < 0x80)
			break;
	}
	return 0;
}

/*
 * Text on its way out: names, settings and commands were chosen by whoever ran the program or made
 * the recording, and must not steer a terminal. Every command's output comes through here; what
 * export makes for other programs is left alone unless it goes to a terminal.
 */
static ssize_t write_stdout(void *cookie, const char *buf, size_t size)
{
	static char begun[4]; /* of a character that the buffer's end has cut in two */
	static size_t n_begun;
	sonde_autostr struct sonde_str in = {0}, clean = {0};
	size_t rest;

	(void)cookie;
	if (raw)
		return (ssize_t)put(buf, size);
	if (sonde_str_add(&in, begun, n_begun) || sonde_str_add(&in, buf, size)) {
		first_error = first_error ? first_error : -ENOMEM;
		return 0;
	}
	rest = unfinished(in.s, in.len);
	if (sonde_str_add_utf8(&clean, in.s, in.len - rest)) {
		first_error = first_error ? first_error : -ENOMEM;
		return 0;
	}
	n_begun = rest;
	memcpy(begun, in.s + in.len - rest, rest);
	return put(sonde_str_get(&clean), clean.len) == clean.len ? (ssize_t)size : 0;
}

void sonde_output_raw(void)
{
	raw = !isatty(STDOUT_FILENO);
}

static void do_nothing(int sig)
{
	(void)sig;
}

/* A write past a file size limit fails (EFBIG) instead of killing. A handler, for exec resets it: a
 * command that is started here is killed as it would be elsewhere. What was ignored stays so. */
static void survive_file_limit(void)
{
	struct sigaction act = {.sa_handler = do_nothing, .sa_flags = SA_RESTART}, was;

	if (!sigaction(SIGXFSZ, NULL, &was) && was.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &act, NULL);
}

void sonde_output_init(void)
{
	FILE *out;

	signal(SIGPIPE, SIG_IGN);
	survive_file_limit();
	/* Where a descriptor was closed, open() returns it; unreadable and unwritable, so that
	 * using it fails as it should instead of reaching a BPF map or a recording. */
	for (int fd = open("/dev/null", O_PATH); fd >= 0; fd = open("/dev/null", O_PATH)) {
		if (fd <= 2)
			continue;
		close(fd);
		break;
	}
	out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_stdout});
	if (!out)
		return;
	setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
	stdout = out;
}

int sonde_output_flush(void)
{
	if (fflush(stdout) == EOF && !first_error)
		first_error = -EIO;
	return first_error;
}

int sonde_output_finish(int err)
{
	int out = sonde_output_flush();

	if (out == -EPIPE)
		return err > 0 || err == out ? SONDE_EXIT_OK : sonde_exit_code(err);
	if (out)
		sonde_err(out, "cannot write to stdout: %s", strerror(-out));
	if (out)
		return SONDE_EXIT_FAILED;
	return err > 0 ? err : sonde_exit_code(err);
}

void sonde_say(const char *fmt, ...)
{
	char text[4096], clean[4096];
	va_list ap;

	if (sonde_log_get_level() < SONDE_LOG_WARN)
		return;
	fflush(stdout); /* so that what was printed before stands before */
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "sonde: %s\n", sonde_plain(clean, sizeof(clean), text));
}
