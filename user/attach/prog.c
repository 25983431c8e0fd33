// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tiny programs from raw instructions. They need no object file and no libbpf state, so a probe of
 * a feature asks the kernel exactly one thing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "attach/link.h"
#include "attach/prog.h"
#include "core/file.h"
#include "core/mem.h"

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"

/* libbpf looks in further places, but whatever the cause is, it says ESRCH: so the first place is
 * asked for the cause, and ESRCH, which means a process here, becomes ENOENT. */
static struct btf *read_kernel_btf(int *err)
{
	struct btf *btf = btf__parse(KERNEL_TYPES, NULL);

	*err = btf ? 0 : -errno;
	if (*err == -ENOENT) {
		btf = btf__load_vmlinux_btf();
		*err = btf ? 0 : -ENOENT;
	}
	return btf;
}

struct btf *sonde_kernel_btf(int *err)
{
	static struct btf *kernel;

	if (!kernel)
		kernel = read_kernel_btf(err);
	return kernel;
}

int sonde_kernel_btf_check(void)
{
	int err;

	btf__free(read_kernel_btf(&err));
	return err;
}

static int btf_find(const char *prefix, const char *name, uint32_t kind)
{
	char full[160];
	int err = 0, id;
	struct btf *btf = sonde_kernel_btf(&err);

	if (!btf)
		return err;
	snprintf(full, sizeof(full), "%s%s", prefix, name);
	id = btf__find_by_name_kind(btf, full, kind);
	return id > 0 ? id : -ENOENT;
}

int sonde_btf_tracepoint_id(const char *event)
{
	return btf_find("btf_trace_", event, BTF_KIND_TYPEDEF);
}

int sonde_btf_iter_id(const char *target)
{
	return btf_find("bpf_iter_", target, BTF_KIND_FUNC);
}

static enum bpf_prog_type prog_type(enum sonde_link_kind kind)
{
	switch (kind) {
	case SONDE_LINK_TP_BTF:
	case SONDE_LINK_ITER:
		return BPF_PROG_TYPE_TRACING;
	case SONDE_LINK_RAW_TP:
		return BPF_PROG_TYPE_RAW_TRACEPOINT;
	case SONDE_LINK_TRACEPOINT:
		return BPF_PROG_TYPE_TRACEPOINT;
	case SONDE_LINK_PERF_SW:
		return BPF_PROG_TYPE_PERF_EVENT;
	default:
		return BPF_PROG_TYPE_KPROBE;
	}
}

static int load(enum sonde_link_kind kind, const char *event, const struct bpf_insn *insns,
		size_t n, uint32_t flags)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = flags);
	int attach = sonde_link_attach_type(kind), id = 0, fd;

	if (attach > 0)
		opts.expected_attach_type = (enum bpf_attach_type)attach;
	if (kind == SONDE_LINK_TP_BTF) {
		opts.expected_attach_type = BPF_TRACE_RAW_TP;
		id = sonde_btf_tracepoint_id(event);
	} else if (kind == SONDE_LINK_ITER) {
		opts.expected_attach_type = BPF_TRACE_ITER;
		id = sonde_btf_iter_id(event);
	}
	if (id < 0)
		return id;
	opts.attach_btf_id = (uint32_t)id;
	fd = bpf_prog_load(prog_type(kind), "sonde_probe", "GPL", insns, n, &opts);
	return fd < 0 ? -errno : fd;
}

int sonde_prog_load(enum sonde_link_kind kind, const char *event, const struct bpf_insn *insns,
		    size_t n)
{
	return load(kind, event, insns, n, 0);
}

int sonde_prog_load_sleepable(enum sonde_link_kind kind, const char *event,
			      const struct bpf_insn *insns, size_t n)
{
	return load(kind, event, insns, n, BPF_F_SLEEPABLE);
}

int sonde_prog_empty(enum sonde_link_kind kind, const char *event)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return sonde_prog_load(kind, event, insns, SONDE_ARRAY_SIZE(insns));
}

int sonde_self_offset(const void *function, uint64_t *offset)
{
	uint64_t addr = (uintptr_t)function, start, end, at;
	sonde_autofree char *text = NULL;
	char *line, *save = NULL;
	int err = sonde_read_file("/proc/self/maps", &text, NULL);

	if (err)
		return err;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &at) != 3)
			continue;
		if (addr < start || addr >= end)
			continue;
		*offset = addr - start + at;
		return 0;
	}
	return -ENOENT;
}
