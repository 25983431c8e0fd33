// SPDX-License-Identifier: GPL-2.0-or-later
/* What differs besides the treatment, from recordings made for it. */
#include <errno.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/log.h"
#include "core/mem.h"
#include "judge/trial_audit.h"
#include "judge/trial_fill.h"
#include "record/writer.h"

#define HOUR	  (3600 * SONDE_NS_PER_SEC)
#define CHANGE_NS (1794182400 * SONDE_NS_PER_SEC)
#define MONO_NS	  (5000000 * SONDE_NS_PER_SEC)
#define MINUTES	  60 /* before and after */

enum { TREATED, REFERENCE, RESTARTED, UNTOUCHED, SERVERS };

static char dir[] = "/tmp/sonde-audit-XXXXXX";
static struct sonde_trial trial;
static struct sonde_trial_queries queries;
static struct sonde_audit_server servers[SERVERS];
static struct sonde_snapshot snaps[SERVERS];
static struct sonde_reader *readers[2 * SERVERS];
static size_t n_readers;
static struct sonde_audit audit;

/* What a test changes of one recording: the server, before or since its restart, a fact. */
struct other {
	size_t server;
	bool since;
	const char *key, *value;
};

static const char *fact(const struct other *o, size_t server, bool since, const char *key,
			const char *value)
{
	return o && o->server == server && o->since == since && !strcmp(o->key, key) ? o->value
										     : value;
}

static void put(const struct sonde_visitor *v, const char *name, uint64_t ts, double value)
{
	struct sonde_metric_desc d = {name, "count", SONDE_COUNTER, ""};
	struct sonde_metric m = {.desc = &d, .label = "", .ts_ns = ts, .value = value};

	assert_int_equal(v->metric(v->ctx, &m), 0);
}

static void make(size_t server, bool since, const struct other *o)
{
	struct sonde_clockpair clock = {MONO_NS, CHANGE_NS};
	struct sonde_writer_opts opts = {.clock = clock, .overwrite = true};
	uint64_t age = since ? 0 : 1000 * HOUR;
	bool treated = server == TREATED && since;
	struct sonde_meta meta = {0};
	const struct {
		const char *key, *value;
	} facts[] = {
		{"host.cpus", "8"},
		{"target.0.comm", "searchd"},
		{"target.0.pid", since ? "2" : "1"},
		{"target.0.allocator", treated ? "jemalloc" : "glibc"},
		{"plan", "{\"items\":[{\"lens\":2,\"link\":\"tp_btf\",\"sites\":[]}]}"},
		{"late", ""},
		{"exact", ""},
		{"gap", ""},
	};
	const struct sonde_visitor *v;
	struct sonde_writer *w = NULL;
	char path[64];

	snprintf(path, sizeof(path), "%s/%zu-%d.sonde", dir, server, since);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	v = sonde_writer_visitor(w);
	sonde_meta_set_clock(&meta, &clock);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(facts); i++)
		sonde_meta_set(&meta, facts[i].key, "%s",
			       fact(o, server, since, facts[i].key, facts[i].value));
	age -= *fact(o, server, since, "late", "") ? 3 * HOUR / 2 : 0;
	sonde_meta_set(&meta, "target.0.start_mono_ns", "%llu",
		       (unsigned long long)(MONO_NS - age));
	assert_int_equal(v->begin(v->ctx, &meta), 0);
	for (int i = 1; i <= MINUTES; i++) {
		uint64_t ts = MONO_NS + (uint64_t)i * HOUR / 60 - (since ? 0 : HOUR);

		if (*fact(o, server, since, "gap", "") && i > 50)
			break;
		put(v, "query.spans", ts, i * 10);
		if (*fact(o, server, since, "exact", ""))
			put(v, "alloc.calls", ts, i);
		assert_int_equal(v->tick(v->ctx, ts), 0);
	}
	assert_int_equal(v->end(v->ctx, NULL), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_meta_fini(&meta);
	assert_int_equal(sonde_reader_open(&readers[n_readers++], path), 0);
}

static int run(const struct other *o)
{
	static const char *const names[SERVERS] = {"se03-2", "se03", "se04-2", "se04"};

	sonde_trial_init(&trial, CHANGE_NS - HOUR, HOUR / 60, 2 * MINUTES);
	trial.before = (struct sonde_trial_period){0, MINUTES};
	trial.after = (struct sonde_trial_period){MINUTES, 2 * MINUTES};
	for (size_t s = 0; s < SERVERS; s++)
		assert_int_equal(sonde_trial_add_server(&trial, names[s]), (int)s);
	assert_int_equal(sonde_trial_add_pair(&trial, "off", false, TREATED, REFERENCE), 0);
	assert_int_equal(sonde_trial_add_pair(&trial, "restart", true, RESTARTED, UNTOUCHED), 0);
	assert_int_equal(sonde_trial_fill_begin(&trial), 0);
	assert_int_equal(sonde_queries_init(&queries, &trial, false), 0);
	for (size_t s = 0; s < SERVERS; s++) {
		sonde_snapshot_init(&snaps[s]);
		servers[s].snap = &snaps[s];
		for (int since = 0; since < 2; since++) {
			/* An untouched server goes on as it was. */
			make(s,
			     since && (s == TREATED || s == RESTARTED ||
				       (o && o->server == s && o->since)),
			     o);
			if (!since || s == TREATED || s == RESTARTED ||
			    (o && o->server == s && o->since)) {
				assert_int_equal(
					sonde_audit_add(&servers[s], readers[n_readers - 1]), 0);
				assert_int_equal(sonde_trial_fill_from(&trial, s,
								       readers[n_readers - 1],
								       &queries, NULL),
						 0);
			}
		}
	}
	return sonde_audit_make(&trial, servers, &queries, &audit);
}

static void end(void)
{
	sonde_audit_fini(&audit);
	for (size_t s = 0; s < SERVERS; s++) {
		sonde_audit_server_fini(&servers[s]);
		sonde_snapshot_fini(&snaps[s]);
	}
	while (n_readers)
		sonde_reader_free(&readers[--n_readers]);
	sonde_queries_fini(&queries);
	sonde_trial_fini(&trial);
}

static bool has(char *const *lines, size_t n, const char *part)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(lines[i], part))
			return true;
	return false;
}

static void expect(const struct other *o, const char *caution)
{
	assert_int_equal(run(o), 0);
	if (!has(audit.cautions, audit.n_cautions, caution))
		fail_msg("not said: %s (but: %s)", caution,
			 audit.n_cautions ? audit.cautions[0] : "nothing");
	end();
}

/* As the experiment says: the change is told, and known to be the treatment. */
static void test_clean(void **state)
{
	(void)state;
	assert_int_equal(run(NULL), 0);
	assert_int_equal(audit.n_lines, 1);
	assert_string_equal(audit.lines[0],
			    "se03-2 (off) was changed: allocator from glibc to jemalloc");
	assert_true(sonde_audit_is_change(&audit, TREATED, "allocator"));
	assert_false(sonde_audit_is_change(&audit, TREATED, "host.cpus"));
	assert_false(sonde_audit_knows_changes(&audit, RESTARTED));
	end();
}

static void test_changes(void **state)
{
	(void)state;
	expect(&(struct other){RESTARTED, true, "target.0.allocator", "tcmalloc"},
	       "se04-2 (control) was not only restarted: allocator from glibc to tcmalloc");
	expect(&(struct other){REFERENCE, true, "target.0.allocator", "tcmalloc"},
	       "se03 (reference) was changed as well: allocator from glibc to tcmalloc");
	expect(&(struct other){TREATED, true, "target.0.allocator", "glibc"},
	       "se03-2 (off): of what is recorded nothing was changed");
	expect(&(struct other){UNTOUCHED, false, "host.cpus", "16"},
	       "pairs off and restart are not alike: host.cpus is 8 and 16");
}

static void test_restarts(void **state)
{
	(void)state;
	expect(&(struct other){TREATED, true, "late", "yes"},
	       "se03-2 (off) was restarted 1.5 h after the change, at 2026-11-09T01:30:00Z");
	expect(&(struct other){REFERENCE, true, "host.cpus", "8"},
	       "se03 (reference) was restarted at 2026-11-09T00:00:00Z: its memory began anew");
}

/* One recording that goes on over a restart has both processes; a child is none of them. */
static void test_followed(void **state)
{
	static const char *const facts[][2] = {
		{"target.0.comm", "searchd"},
		{"target.0.pid", "10"},
		{"target.0.allocator", "glibc"},
		{"target.1.comm", "searchd"},
		{"target.1.pid", "11"},
		{"target.1.allocator", "glibc"},
		{"target.2.comm", "searchd"},
		{"target.2.pid", "1234"},
		{"target.2.allocator", "jemalloc"},
	};
	struct sonde_clockpair clock = {MONO_NS, CHANGE_NS};
	struct sonde_writer_opts opts = {.clock = clock, .overwrite = true};
	struct sonde_note note = {.ts_ns = MONO_NS,
				  .level = SONDE_NOTE_EVENT,
				  .lens = "",
				  .what = "restarted: pid 1234 is observed now",
				  .remedy = ""};
	struct sonde_meta meta = {0};
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	char path[64], target[16];

	(void)state;
	snprintf(path, sizeof(path), "%s/0-0.sonde", dir);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	v = sonde_writer_visitor(w);
	sonde_meta_set_clock(&meta, &clock);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(facts); i++)
		sonde_meta_set(&meta, facts[i][0], "%s", facts[i][1]);
	assert_int_equal(v->begin(v->ctx, &meta), 0);
	assert_int_equal(v->end(v->ctx, NULL), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_meta_fini(&meta);
	assert_int_equal(sonde_reader_open(&readers[n_readers++], path), 0);
	sonde_snapshot_init(&snaps[0]);
	assert_int_equal(snaps[0].visitor.note(snaps[0].visitor.ctx, &note), 0);
	servers[0].snap = &snaps[0];
	assert_int_equal(sonde_audit_add(&servers[0], readers[0]), 0);
	sonde_audit_last_target(&servers[0], target, sizeof(target));
	assert_string_equal(target, "2");
	sonde_audit_server_fini(&servers[0]);
	sonde_snapshot_fini(&snaps[0]);
	sonde_reader_free(&readers[--n_readers]);
}

static void test_observed(void **state)
{
	(void)state;
	expect(&(struct other){TREATED, true, "gap", "yes"},
	       "se03-2 was recorded 83.3 % of the time after the change, se03");
	expect(&(struct other){TREATED, true, "plan",
			       "{\"items\":[{\"lens\":2,\"link\":\"uprobe\",\"sites\":[{},{}]}]}"},
	       "se03-2 and se03 were not observed alike: query; 2 probes in its code against "
	       "query; 0 probes in its code");
}

/* Times of a server that is slowed by its observation are not compared; its memory is. */
static void test_refused(void **state)
{
	struct other o = {TREATED, true, "exact", "yes"};

	(void)state;
	assert_int_equal(run(&o), 0);
	assert_int_equal(audit.n_refused, 1);
	assert_non_null(strstr(audit.refused[0], "of se03-2 and se03 only se03-2 had every "
						 "allocation counted"));
	for (size_t i = 0; i < trial.n_metrics; i++)
		assert_true(!trial.metrics[i].unit || strcmp(trial.metrics[i].unit, "ns"));
	assert_true(trial.n_metrics > 0);
	end();
	o = (struct other){TREATED, true, "target.0.comm", "mysqld"};
	sonde_log_set_level(SONDE_LOG_NONE);
	assert_int_equal(run(&o), -EINVAL);
	sonde_log_set_level(SONDE_LOG_WARN);
	end();
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char path[64];

	(void)state;
	for (size_t i = 0; i < 2 * SERVERS; i++) {
		snprintf(path, sizeof(path), "%s/%zu-%zu.sonde", dir, i / 2, i % 2);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),	 cmocka_unit_test(test_changes),
		cmocka_unit_test(test_restarts), cmocka_unit_test(test_observed),
		cmocka_unit_test(test_refused),	 cmocka_unit_test(test_followed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
