// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How each feature is asked for: by using it in the smallest way, never by the kernel's version. A
 * probe closes what it opens. The verifier says EACCES when it refuses a program, which is not a
 * denial, so the probes here load programs that no verifier with the feature refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "attach/feature_probe.h"
#include "attach/link.h"
#include "attach/prog.h"
#include "attach/tracefs.h"
#include "core/file.h"
#include "core/mem.h"

/* What a call gave: an fd is closed and is a yes. */
static int take(int fd)
{
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* The first pid namespace's number is fixed: PROC_PID_INIT_INO, include/linux/proc_ns.h. Where the
 * file is absent there is either no /proc or no other namespace. */
int sonde_probe_HOST_PIDS(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st))
		return 0;
	return st.st_ino == 0xEFFFFFFCu ? 0 : -ENOTUNIQ;
}

int sonde_probe_BPF(void)
{
	return take(sonde_prog_empty(SONDE_LINK_TRACEPOINT, NULL));
}

int sonde_probe_BTF(void)
{
	int err = -ENOENT;

	return sonde_kernel_btf(&err) ? 0 : err;
}

int sonde_probe_RINGBUF(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "sonde_probe", 0, 0,
				(uint32_t)sysconf(_SC_PAGESIZE), NULL);

	return take(fd < 0 ? -errno : fd);
}

/* Storage maps must describe key and value. */
static int create_storage(enum bpf_map_type type)
{
	struct btf *btf = btf__new_empty();
	int id, fd, err = 0;

	if (!btf)
		return -errno;
	id = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	if (id < 0 || btf__load_into_kernel(btf)) {
		err = id < 0 ? id : -errno;
	} else {
		LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC,
			    .btf_fd = (uint32_t)btf__fd(btf), .btf_key_type_id = (uint32_t)id,
			    .btf_value_type_id = (uint32_t)id);

		fd = bpf_map_create(type, "sonde_probe", 4, 4, 0, &opts);
		err = fd < 0 ? -errno : fd;
	}
	btf__free(btf);
	return err;
}

int sonde_probe_TASK_STORAGE(void)
{
	return take(create_storage(BPF_MAP_TYPE_TASK_STORAGE));
}

int sonde_probe_SK_STORAGE(void)
{
	/* Tracing programs may use it since 5.11, 8e4597c627fb ("bpf: Allow using bpf_sk_storage in
	 * FENTRY/FEXIT/RAW_TP"). inet_sock_set_state is the oldest tracepoint with a typed socket.
	 */
	sonde_autoclose int map = create_storage(BPF_MAP_TYPE_SK_STORAGE);
	struct bpf_insn insns[] = {
		{.code = BPF_LDX | BPF_DW | BPF_MEM, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = BPF_REG_1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = map},
		{},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_sk_storage_get},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	if (map < 0)
		return map;
	return take(sonde_prog_load(SONDE_LINK_TP_BTF, "inet_sock_set_state", insns,
				    SONDE_ARRAY_SIZE(insns)));
}

int sonde_probe_TP_BTF(void)
{
	return take(sonde_prog_empty(SONDE_LINK_TP_BTF, "sched_process_exit"));
}

int sonde_probe_SOCK_LENGTH(void)
{
	int err = take(sonde_prog_empty(SONDE_LINK_TP_BTF, "sock_recv_length"));

	return err ? err : take(sonde_prog_empty(SONDE_LINK_TP_BTF, "sock_send_length"));
}

int sonde_probe_SK_DATA_READY(void)
{
	return take(sonde_prog_empty(SONDE_LINK_TP_BTF, "sk_data_ready"));
}

int sonde_probe_CONTENTION(void)
{
	int err = take(sonde_prog_empty(SONDE_LINK_TP_BTF, "contention_begin"));

	return err ? err : take(sonde_prog_empty(SONDE_LINK_TP_BTF, "contention_end"));
}

int sonde_probe_TRACEFS(void)
{
	return take(sonde_tracefs_open());
}

/*
 * Ask for a uprobe in a directory. That can never be made, and how it is refused tells what the
 * kernel knows; nothing is created, so there is nothing to take away again (which takes 100 ms or
 * more).
 */
static int try_uprobe(enum sonde_link_kind kind, pid_t pid)
{
	static const uint64_t offset, cookie = 1;
	sonde_autoclose int prog = sonde_prog_empty(kind, NULL);
	struct sonde_link_request req = {
		.kind = kind,
		.prog_fd = prog,
		.pid = pid,
		.path = "/",
		.offsets = &offset,
		.cookies = &cookie,
		.n = 1,
	};

	return prog < 0 ? prog : sonde_link_create(&req);
}

/* The right is asked for before the path is looked at; the link's file says if there is such an
 * event. */
int sonde_probe_PERF_UPROBE(void)
{
	int err = try_uprobe(SONDE_LINK_UPROBE_PERF, getpid());

	return err == -EINVAL ? 0 : take(err) ? err : -EPROTO;
}

/*
 * EBADF says that the kernel knows the link. An impossible pid must be refused before the path is
 * looked at, as kernels do whose filter means the thread group (46ba0e49b642, 6.10); others filter
 * by thread and are not fit for use.
 */
static int multi_known(enum sonde_link_kind kind)
{
	int err = try_uprobe(kind, 0);

	if (err == -EPERM)
		return err;
	if (err != -EBADF)
		return take(err) ? -EOPNOTSUPP : -EPROTO;
	err = try_uprobe(kind, -1);
	return err == -EINVAL ? 0 : -EOPNOTSUPP;
}

int sonde_probe_UPROBE_MULTI(void)
{
	return multi_known(SONDE_LINK_UPROBE_MULTI);
}

int sonde_probe_UPROBE_SESSION(void)
{
	return multi_known(SONDE_LINK_UPROBE_SESSION);
}

int sonde_probe_PERF_SW(void)
{
	sonde_autoclose int prog = sonde_prog_empty(SONDE_LINK_PERF_SW, NULL);
	struct sonde_link_request req = {
		.kind = SONDE_LINK_PERF_SW,
		.prog_fd = prog,
		.pid = getpid(),
		.event = "major-faults",
	};

	return prog < 0 ? prog : take(sonde_link_create(&req));
}

int sonde_probe_ITER_TASK_FILE(void)
{
	sonde_autoclose int prog = sonde_prog_empty(SONDE_LINK_ITER, "task_file");
	int fd;

	if (prog < 0)
		return prog;
	fd = bpf_link_create(prog, 0, BPF_TRACE_ITER, NULL);
	return take(fd < 0 ? -errno : fd);
}

/* bpf_copy_from_user_task() on the iterator's own task, of 8 bytes at address 0. */
int sonde_probe_ITER_SLEEPABLE(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_LDX | BPF_MEM | BPF_DW,
		 .dst_reg = BPF_REG_4,
		 .src_reg = BPF_REG_1,
		 .off = 8},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_4, .off = 6},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_5},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_copy_from_user_task},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int err = sonde_probe_BPF();

	if (err)
		return err;
	err = sonde_prog_load_sleepable(SONDE_LINK_ITER, "task", insns, SONDE_ARRAY_SIZE(insns));
	/* The verifier's refusal of an unknown call is EINVAL, of a program that sleeps EINVAL or
	 * EACCES; who may load the other may load this. */
	return err == -EACCES ? -EINVAL : take(err);
}

int sonde_probe_MAP_FILES(void)
{
	sonde_autofree char *maps = NULL;
	unsigned long start, end;
	char path[96];
	int err = sonde_read_file("/proc/self/maps", &maps, NULL);

	if (err)
		return err;
	if (sscanf(maps, "%lx-%lx", &start, &end) != 2)
		return -EIO;
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", start, end);
	err = open(path, O_RDONLY | O_CLOEXEC);
	return take(err < 0 ? -errno : err);
}

/* Compiled in with memory cgroups. */
int sonde_probe_MM_OWNER(void)
{
	return sonde_btf_has_member("mm_struct", "owner") ? 0 : -ENOENT;
}

/* It wants a callback, which only libbpf's loader can give; libbpf asks for the helper alone. */
int sonde_probe_FIND_VMA(void)
{
	int has, err = sonde_probe_BPF();

	/* libbpf takes a denial for a yes. */
	if (err)
		return err;
	has = libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT, BPF_FUNC_find_vma, NULL);
	if (has < 0)
		return has;
	return has ? 0 : -ENOENT;
}
