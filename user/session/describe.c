// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a session says about itself, so that a recording explains itself without the command that
 * made it: kernel, features, plan with reasons, calibration, clocks, settings, targets and their
 * allocators. Of the target's environment only allocator variables are kept.
 */
#include <inttypes.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "model/stacks.h"
#include "session/internal.h"
#include "sonde/fault.h"
#include "target/allocator.h"
#include "target/daemon.h"
#include "target/files.h"
#include "target/proc.h"

/* "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"; on other machines than x86 it is not said so. */
static int describe_hardware(struct session *s)
{
	static const char key[] = "model name";
	sonde_autofree char *text = NULL;
	char memory[32], *line, *colon, *end;
	struct sysinfo info;
	int err = 0;

	if (!sysinfo(&info))
		err = sonde_meta_set(&s->meta, "host.memory", "%s",
				     sonde_fmt_bytes(memory, sizeof(memory),
						     (double)info.totalram * info.mem_unit));
	if (err || sonde_read_file("/proc/cpuinfo", &text, NULL))
		return err;
	line = strstr(text, key);
	colon = line ? strstr(line, ": ") : NULL;
	end = colon ? strchr(colon, '\n') : NULL;
	if (!end)
		return 0;
	*end = '\0';
	return sonde_meta_set(&s->meta, "host.cpu_model", "%s", colon + 2);
}

static int describe_host(struct session *s)
{
	struct utsname u;
	int err;

	uname(&u);
	err = sonde_meta_set(&s->meta, "sonde.version", "%s", SONDE_VERSION);
	err = err ? err
		  : sonde_meta_set(&s->meta, "command", "%s", s->opts->argv ? s->opts->argv : "");
	err = err ? err : sonde_meta_set(&s->meta, "host.name", "%s", u.nodename);
	err = err ? err : sonde_meta_set(&s->meta, "kernel.release", "%s", u.release);
	err = err ? err
		  : sonde_meta_set(&s->meta, "host.cpus", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	err = err ? err : describe_hardware(s);
	return err ? err : sonde_meta_set_clock(&s->meta, &s->clock);
}

static int describe_features(struct session *s)
{
	int err = 0;

	for (int f = 0; f < SONDE_FEAT__MAX && !err; f++) {
		char key[64];

		snprintf(key, sizeof(key), "feature.%s", sonde_feature_name(f));
		err = sonde_meta_set(&s->meta, key, "%s", sonde_answer_name(s->features.have[f]));
	}
	return err;
}

static int set_target(struct session *s, size_t i, const char *what, const char *value)
{
	char key[128];

	snprintf(key, sizeof(key), "target.%zu.%s", i, what);
	return sonde_meta_set(&s->meta, key, "%s", value);
}

static int describe_env(struct session *s, size_t i, pid_t pid)
{
	static const char *const names[] = {"MALLOC_CONF", "GLIBC_TUNABLES", "LD_PRELOAD",
					    "MALLOC_ARENA_MAX", "TCMALLOC_RELEASE_RATE"};
	char value[512], what[64];
	int err = 0;

	for (size_t n = 0; n < SONDE_ARRAY_SIZE(names) && !err; n++) {
		if (sonde_proc_env(pid, names[n], value, sizeof(value)))
			continue;
		snprintf(what, sizeof(what), "env.%s", names[n]);
		err = set_target(s, i, what, value);
	}
	return err;
}

/* THP_enabled is 0 where huge pages are off for the process; it stays 1 where they are only for
 * advised memory (6.18: what prctl says of that is known of a command that sonde started). */
static int describe_thp(struct session *s, size_t i)
{
	struct sonde_proc_mem mem;

	if (sonde_proc_mem(s->targets.t[i].pid, &mem) || mem.thp_enabled < 0)
		return 0;
	return set_target(s, i, "thp_enabled", mem.thp_enabled ? "1" : "0");
}

/* Its age is that at the first look, near begin; it is known by when it started ever after. */
static int describe_age(struct session *s, size_t i)
{
	uint64_t age_ns = sonde_proc_age_ns(s->targets.t[i].pid);
	char key[64], age[32], start[32];
	int err;

	snprintf(key, sizeof(key), "target.%zu.age_ns", i);
	if (!age_ns || sonde_meta_find(&s->meta, key))
		return 0;
	snprintf(age, sizeof(age), "%" PRIu64, age_ns);
	snprintf(start, sizeof(start), "%" PRIu64, sonde_mono_ns() - age_ns);
	err = set_target(s, i, "age_ns", age);
	return err ? err : set_target(s, i, "start_mono_ns", start);
}

/* Configuration and index, so that two servers can be told alike. */
static int describe_files(struct session *s, size_t i)
{
	const struct sonde_target *t = &s->targets.t[i];
	struct sonde_target_files f;
	char text[48];
	int err = sonde_target_files_read(t->pid, t->daemon, &f);

	if (err)
		return err;
	if (f.config.len) {
		snprintf(text, sizeof(text), "%016" PRIx64, f.config_hash);
		err = set_target(s, i, "config", f.config.s);
		err = err ? err : set_target(s, i, "config_hash", text);
	}
	if (!err && f.index_files) {
		err = set_target(
			s, i, "index",
			SONDE_PLAIN(sonde_fmt_bytes(text, sizeof(text), (double)f.index_bytes)));
		snprintf(text, sizeof(text), "%016" PRIx64, f.index_hash);
		err = err ? err : set_target(s, i, "index_hash", text);
	}
	sonde_target_files_fini(&f);
	return err;
}

int session_describe_target(struct session *s, size_t i)
{
	const struct sonde_target *t = &s->targets.t[i];
	char pid[16];
	int err;

	snprintf(pid, sizeof(pid), "%d", t->pid);
	err = set_target(s, i, "pid", pid);
	err = err ? err : describe_age(s, i);
	err = err ? err : set_target(s, i, "comm", t->comm);
	err = err ? err : set_target(s, i, "exe", t->exe ? t->exe : "");
	err = err ? err : set_target(s, i, "build_id", t->build_id);
	err = err ? err : set_target(s, i, "daemon", t->daemon ? t->daemon->name : "");
	err = err ? err : set_target(s, i, "allocator", t->allocator ? t->allocator->name : "");
	err = err ? err : set_target(s, i, "allocator_version", t->allocator_version);
	err = err ? err : describe_files(s, i);
	err = err ? err : describe_thp(s, i);
	return err ? err : describe_env(s, i, t->pid);
}

static int describe_plan(struct session *s)
{
	sonde_autostr struct sonde_str json = {0};
	int err = sonde_plan_json(&s->plan, &json);

	return err ? err : sonde_meta_set(&s->meta, "plan", "%s", sonde_str_get(&json));
}

static int describe_calibration(struct session *s)
{
	static const char *const insn[] = {"stepped", "emulated"};
	int err = 0;

	for (int k = 0; k < SONDE_LINK__MAX && !err; k++) {
		for (int i = 0; i < 2 && !err; i++) {
			char key[96];

			if (s->calibration.hit_ns[k][i] <= 0)
				continue;
			snprintf(key, sizeof(key), "calibration.%s.%s_ns", sonde_link_kind_name(k),
				 insn[i]);
			err = sonde_meta_set(&s->meta, key, "%.1f", s->calibration.hit_ns[k][i]);
		}
	}
	return err;
}

int session_describe(struct session *s)
{
	int err = describe_host(s);

	err = err ? err : describe_features(s);
	if (!err && s->opts->lens.sites)
		err = sonde_meta_set(&s->meta, SONDE_META_SITES, "1");
	if (!err && s->opts->lens.fault_by & 1u << SONDE_FAULT_BY_STACK)
		err = sonde_meta_set(&s->meta, SONDE_META_FAULT_STACKS, "1");
	err = err ? err : session_settings_read(s);
	if (!err && s->opts->start.describe)
		err = s->opts->start.describe(s->opts->start.ctx, &s->meta);
	for (size_t i = 0; i < s->targets.n && !err; i++)
		err = session_describe_target(s, i);
	err = err ? err : describe_plan(s);
	return err ? err : describe_calibration(s);
}
