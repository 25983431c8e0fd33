// SPDX-License-Identifier: GPL-2.0-or-later
/* Points in time as people type them: before the recording's end, or RFC 3339; and the ticks
 * around them. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/err.h"
#include "core/num.h"
#include "record/reader_impl.h"
#include "record/schema.h"

/* "Z" or "+hh:mm": minutes east of UTC. 0 or -EINVAL. */
static int parse_zone(const char *s, int *minutes)
{
	int h, m, end = 0;
	char sign;

	*minutes = 0;
	if ((s[0] == 'Z' || s[0] == 'z') && !s[1])
		return 0;
	if (sscanf(s, "%c%2d:%2d%n", &sign, &h, &m, &end) != 3 || s[end] || h > 23 || m > 59 ||
	    h < 0 || m < 0 || (sign != '+' && sign != '-'))
		return -EINVAL;
	*minutes = (sign == '-' ? -1 : 1) * (h * 60 + m);
	return 0;
}

/* Fraction digits after a dot, in ns; digits past the ninth are below a nanosecond. */
static const char *parse_fraction(const char *s, uint64_t *ns)
{
	uint64_t unit = SONDE_NS_PER_SEC / 10;

	*ns = 0;
	if (*s != '.')
		return s;
	for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10)
		*ns += (uint64_t)(*s - '0') * unit;
	return s;
}

/* -EINVAL: not a time. -ERANGE: one, but a recording's signed nanoseconds since 1970 end before it.
 */
static int parse_rfc3339(const char *s, uint64_t *out_ns)
{
	struct tm tm = {0}, check;
	int end = 0, zone;
	uint64_t fraction;
	time_t t;

	if (sscanf(s, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) != 6 ||
	    end != 19)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	check = tm;
	t = timegm(&check);
	/* timegm() takes the 31st of February; the calendar does not. */
	if (check.tm_mon != tm.tm_mon || check.tm_mday != tm.tm_mday ||
	    check.tm_hour != tm.tm_hour || check.tm_min != tm.tm_min)
		return -EINVAL;
	if (parse_zone(parse_fraction(s + end, &fraction), &zone))
		return -EINVAL;
	t -= zone * 60;
	if (t < 0 || (uint64_t)t >= INT64_MAX / SONDE_NS_PER_SEC)
		return -ERANGE;
	*out_ns = (uint64_t)t * SONDE_NS_PER_SEC + fraction;
	return 0;
}

int sonde_reader_parse_time(const struct sonde_reader *r, const char *s, uint64_t *out_ns)
{
	uint64_t back;
	int err;

	if (s[0] == '-' && !sonde_parse_duration(s + 1, &back)) {
		*out_ns = back < r->end_ns ? r->end_ns - back : 0;
		return 0;
	}
	err = parse_rfc3339(s, out_ns);
	if (!err)
		return 0;
	if (err == -ERANGE)
		return sonde_err(
			EINVAL,
			"'%s' is out of range: recordings hold times from 1970 to April 2262", s);
	return sonde_err(EINVAL,
			 "'%s' is not a time: give -1h (before the recording's end) or "
			 "2026-11-30T17:28:47Z",
			 s);
}

int sonde_reader_ticks(const struct sonde_reader *r, int64_t t, int64_t *low, int64_t *high)
{
	static const char sql[] = "SELECT (SELECT max(ts_ns) FROM tick WHERE ts_ns < ?1), "
				  "(SELECT min(ts_ns) FROM tick WHERE ts_ns >= ?1)";
	int64_t start = (int64_t)r->start_ns;
	sqlite3_stmt *st = NULL;
	int rc = sonde_db_prepare(r->db, &st, sql);

	if (!rc) {
		sqlite3_bind_int64(st, 1, t);
		rc = sqlite3_step(st);
	}
	if (rc == SQLITE_ROW) {
		*low = sqlite3_column_type(st, 0) != SQLITE_NULL ? sqlite3_column_int64(st, 0)
		       : start < t				 ? start
								 : INT64_MAX;
		*high = sqlite3_column_type(st, 1) != SQLITE_NULL ? sqlite3_column_int64(st, 1)
								  : INT64_MAX;
	}
	sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 0 : sonde_reader_fail(r, rc);
}
