// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Before and after; see compare_arms.h. Windows are cut on UTC like those of recordings, and a
 * period has only windows that lie in it whole.
 */
#include <errno.h>
#include <string.h>

#include "cli/compare_arms.h"
#include "core/err.h"
#include "core/mem.h"

#define MAX_WINDOWS 100000 /* nearly two years of 10 minutes */

static struct sonde_arms_range held(const struct sonde_arms_file *files, size_t n)
{
	struct sonde_arms_range all = {UINT64_MAX, 0};

	for (size_t i = 0; i < n; i++) {
		uint64_t from = sonde_reader_start_ns(files[i].reader);
		uint64_t to = sonde_reader_end_ns(files[i].reader);

		all.from_ns = from < all.from_ns ? from : all.from_ns;
		all.to_ns = to > all.to_ns ? to : all.to_ns;
	}
	return all;
}

/* "-7d" counts from the end of the recording that ends last. */
static const struct sonde_reader *last_reader(const struct sonde_arms_file *files, size_t n)
{
	const struct sonde_reader *last = files[0].reader;

	for (size_t i = 1; i < n; i++)
		if (sonde_reader_end_ns(files[i].reader) > sonde_reader_end_ns(last))
			last = files[i].reader;
	return last;
}

/* "FROM..TO", "FROM.." or "..TO" into @range, which keeps what is left out. */
static int parse_range(const struct sonde_reader *r, const char *option, const char *text,
		       struct sonde_arms_range *range)
{
	const char *dots = strstr(text, "..");
	sonde_autofree char *from = dots ? strndup(text, (size_t)(dots - text)) : NULL;
	int err = 0;

	if (!dots || (!*from && !dots[2]))
		return sonde_err(EINVAL, "%s: '%s' is not FROM..TO; either side may be left out",
				 option, text);
	if (*from)
		err = sonde_reader_parse_time(r, from, &range->from_ns);
	if (!err && dots[2])
		err = sonde_reader_parse_time(r, dots + 2, &range->to_ns);
	return err;
}

static uint64_t length(struct sonde_arms_range r)
{
	return r.to_ns > r.from_ns ? r.to_ns - r.from_ns : 0;
}

/* The windows that lie in @r whole. */
static struct sonde_trial_period windows_in(const struct sonde_trial *t, struct sonde_arms_range r)
{
	struct sonde_trial_period p = {0, 0};

	if (!length(r))
		return p;
	p.from = (size_t)((r.from_ns - t->start_ns + t->window_ns - 1) / t->window_ns);
	p.to = (size_t)((r.to_ns - t->start_ns) / t->window_ns);
	if (p.to < p.from)
		p.to = p.from;
	return p;
}

static int set_periods(struct sonde_trial *t, struct sonde_arms_range before,
		       struct sonde_arms_range after)
{
	uint64_t window = sonde_trial_window_ns(length(before) + length(after));
	uint64_t start = length(before) ? before.from_ns : after.from_ns;
	uint64_t n;

	start -= start % window;
	n = (after.to_ns - start + window - 1) / window;
	if (n > MAX_WINDOWS)
		return sonde_err(EINVAL, "the recordings span more time than can be compared; "
					 "choose with --pre and --post");
	sonde_trial_init(t, start, window, (size_t)n);
	t->before = windows_in(t, before);
	t->after = windows_in(t, after);
	if (t->after.from >= t->after.to || (length(before) && t->before.from >= t->before.to))
		return sonde_err(EINVAL,
				 "a period holds no whole window of %d s; record for longer",
				 (int)(window / SONDE_NS_PER_SEC));
	return 0;
}

int sonde_arms_periods(const struct sonde_args *args, const struct sonde_arms_file *files, size_t n,
		       struct sonde_trial *t)
{
	const struct sonde_reader *last = last_reader(files, n);
	struct sonde_arms_range all = held(files, n), before = {0, 0}, after = all;
	int err = 0;

	if (args->post)
		err = parse_range(last, "--post", args->post, &after);
	if (!err && args->pre) {
		before = (struct sonde_arms_range){all.from_ns,
						   args->post ? after.from_ns : all.to_ns};
		err = parse_range(last, "--pre", args->pre, &before);
		if (!args->post)
			after.from_ns = before.to_ns;
	} else if (!err && args->post && after.from_ns > all.from_ns) {
		before = (struct sonde_arms_range){all.from_ns, after.from_ns};
	}
	if (err)
		return err;
	if (args->pre && !length(before))
		return sonde_err(EINVAL, "--pre %s: nothing was recorded then", args->pre);
	if (!length(after) || after.from_ns >= all.to_ns)
		return sonde_err(EINVAL, "nothing was recorded after the change; see --pre and "
					 "--post");
	if (length(before) && before.to_ns > after.from_ns)
		return sonde_err(EINVAL, "--pre ends after --post begins; the change is between "
					 "them");
	before.from_ns =
		before.from_ns < all.from_ns && length(before) ? all.from_ns : before.from_ns;
	after.to_ns = after.to_ns > all.to_ns ? all.to_ns : after.to_ns;
	return set_periods(t, before, after);
}
