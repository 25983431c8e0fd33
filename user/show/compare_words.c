// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a comparison calls its rows: metrics in words. One that is not in the table, as a new
 * lens's, keeps its name; the JSON document has the names of all.
 */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "show/compare_words.h"
#include "show/summary.h"

static const struct {
	const char *name, *words;
} metrics[] = {
	{"alloc.allocated", "live bytes"},
	{"alloc.at_most", "live bytes at most"},
	{"alloc.heap", "allocator's memory from the system"},
	{"alloc.free", "free in the allocator, in"},
	{"alloc.unmapped", "allocator's, given back to the system"},
	{"alloc.metadata", "allocator's own data"},
	{"alloc.handed_out", "bytes handed out"},
	{"alloc.given_back", "bytes given back"},
	{"alloc.live", "change of live bytes"},
	{"alloc.threads", "threads that allocate"},
	{"alloc.calls", "calls of the allocator"},
	{"alloc.requested", "bytes asked for"},
	{"alloc.failed", "calls that returned no memory"},
	{"alloc.size", "size of a request"},
	{"alloc.ends_lost", "threads that ended unread"},
	{"ask.target_cpu", "CPU time of the target"},
	{"fault.count", "faults"},
	{"fault.time", "time in faults"},
	{"fault.latency", "time of a fault"},
	{"fault.stalled", "faults that had to make room"},
	{"fault.reclaim_time", "faults' time in direct reclaim"},
	{"fault.compaction_time", "faults' time in direct compaction"},
	{"proc.cpu_user", "user CPU time"},
	{"proc.cpu_sys", "system CPU time"},
	{"proc.minflt", "minor faults by the kernel's count"},
	{"proc.majflt", "major faults by the kernel's count"},
	{"proc.forks", "forks"},
	{"proc.execs", "execs"},
	{"query.spans", "queries"},
	{"query.unfinished", "queries not yet answered"},
	{"query.latency", "time of a query"},
	{"query.allocated", "bytes that a query allocates"},
	{"query.heap_allocated", "bytes that queries allocate"},
	{"query.heap_freed", "bytes that queries free"},
	{"query.heap_spans", "queries with their bytes"},
	{"query.bytes_in", "bytes of requests"},
	{"query.bytes_out", "bytes of answers"},
	{"rss.total", "RSS"},
	{"rss.anon", "private anonymous"},
	{"rss.file", "files"},
	{"rss.shmem", "shared memory"},
	{"rss.swap", "swapped out"},
	{"rss.pte", "page tables"},
	{"rss.peak", "highest RSS so far"},
	{"rss.anon_huge", "anonymous in huge pages"},
	{"rss.lazyfree", "given back by MADV_FREE, not yet taken"},
	{"rss.locked", "locked address space"},
	{"rss.hugetlb", "hugetlb pages"},
	{"rss.threads", "threads"},
	{"rss.ledger", "of RSS:"},
	{"rss.ledger_moved", "RSS moved while it was split by"},
	{"rss.ledger_swap", "swapped out, of"},
	{"rss.shmem_name", "shared memory"},
	{"rss.file_ext", "files named *"},
	{"rss.file_path", "file"},
	{"rss.walk_time", "time to read the page tables,"},
	{"rss.held_outside", "cgroup: charged, neither mapped nor cached"},
	{"rss.held_system", "system: huge pages mapped in part,"},
	{"rss.memcg_usage", "cgroup: charged"},
	{"rss.memcg_limit", "cgroup: limit"},
	{"rss.memcg_anon", "cgroup: anonymous"},
	{"rss.memcg_anon_huge", "cgroup: anonymous in huge pages"},
	{"rss.memcg_file", "cgroup: cache and shared memory"},
	{"stall.time", "off the CPU,"},
	{"stall.count", "times off the CPU,"},
	{"stall.offcpu", "once off the CPU,"},
	{"stall.runqueue", "once in the run queue"},
	{"stall.lock_time", "from asking for to having"},
	{"stall.lock_count", "times that was taken:"},
	{"stall.lock_wait", "once from asking for to having"},
	{"stall.syscall_time", "time in"},
	{"stall.syscall_count", "calls of"},
	{"stall.syscall_bytes", "bytes given to"},
	{"stall.syscall", "once in"},
	{"thp.scans", "2 MiB ranges looked at,"},
	{"thp.collapses", "2 MiB ranges made one page, by"},
	{"thp.collapse_failed", "collapses given up,"},
	{"thp.bloat", "empty memory made resident by"},
	{"thp.purge_calls", "calls that give memory back,"},
	{"thp.purge_bytes", "bytes in those calls,"},
	{"thp.purge_may_split", "calls that may cut a huge page,"},
	{"thp.stall_count", "times that room had to be made,"},
	{"thp.stall_time", "time to make room,"},
	{"thp.stall", "once to make room,"},
	{"thp.migrated", "pages moved,"},
	{"thp.migrate_failed", "pages that could not be moved,"},
	{"thp.alloc_failed", "2 MiB asked for in vain"},
	{"thp.system", "system:"},
	{"thp.system_level", "system, now:"},
};

/* Settings, and their values where they are numbers. */
static const struct {
	const char *name, *words;
} settings[] = {
	{"run.thp", "huge pages asked for (--thp)"},
	{"run.thp_disable", "huge pages of the process"},
	{"run.alloc", "allocator asked for (--alloc)"},
	{"allocator", "allocator"},
	{"allocator_version", "its version"},
	{"build_id", "build of the program"},
	{"comm", "name of the program"},
	{"load", "load"},
};
static const char *const thp_disable[] = {"as the system says", "off", NULL, "only where advised"};

static const char *metric_words(const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(metrics); i++)
		if (!strcmp(metrics[i].name, name))
			return metrics[i].words;
	return name;
}

static bool is_fault(const char *name)
{
	return !strcmp(name, "fault.count") || !strcmp(name, "fault.time") ||
	       !strcmp(name, "fault.latency");
}

static const char *label_words(const struct sonde_compare_row *row, char *buf, size_t size)
{
	if (is_fault(row->name) && *row->label)
		return sonde_fault_title(row->label, buf, size);
	/* A cgroup's version is no part of what is compared. */
	return sonde_str_starts(row->name, "rss.memcg_") ? "" : row->label;
}

/* A preposition or comma that waits for a label has none where all labels are meant. */
static int words_length(const char *words, bool labelled)
{
	int n = (int)strlen(words);

	while (!labelled && n && strchr(",:", words[n - 1]))
		n--;
	return n;
}

const char *sonde_compare_words(const struct sonde_compare_row *row, char *buf, size_t size)
{
	char label_buf[64];
	const char *label = label_words(row, label_buf, sizeof(label_buf));
	const char *words = metric_words(row->name);
	bool level = !strcmp(row->figure, "level");
	const char *sep = !*label ? "" : is_fault(row->name) ? ": " : " ";

	if (*label && words[strlen(words) - 1] == '*')
		sep = "";
	snprintf(buf, size, "%.*s%s%s%s%s", words_length(words, *label), words, sep, label,
		 level ? "" : ", ", level ? "" : row->figure);
	return buf;
}

const char *sonde_compare_setting_words(const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(settings); i++)
		if (!strcmp(settings[i].name, name))
			return settings[i].words;
	return name;
}

const char *sonde_compare_setting_value(const char *name, const char *value)
{
	if (!value)
		return "not set";
	if (!strcmp(name, "run.thp_disable") && value[0] >= '0' && value[0] <= '3' && !value[1] &&
	    thp_disable[value[0] - '0'])
		return thp_disable[value[0] - '0'];
	return value;
}
