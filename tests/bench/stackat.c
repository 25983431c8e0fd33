// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Call stacks that begin in the middle of a function, as of a thread that a fault interrupts: a
 * probe at every instruction of one, each of which counts the stack that begins there.
 *
 *     stackat PID FUNCTION      the function is the program's own
 *
 * Prints "attached N" (instructions), waits for a line, prints stack|END|INNERMOST;...|CALLS.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/mem.h"
#include "core/num.h"
#include "lens/stacks.h"
#include "target/elf.h"
#include "target/insn.h"

#include "bench/stackat.skel.h"

extern const struct sonde_lens sonde_lens_alloc; /* whose maps these are */

static struct stackat_bpf *skel;
static struct sonde_stacks *stacks;

static int probe(pid_t pid, const char *path, uint64_t offset)
{
	if (bpf_program__attach_uprobe(skel->progs.at, false, pid, path, offset))
		return 0;
	fprintf(stderr, "stackat: %s+0x%lx: %s\n", path, (unsigned long)offset, strerror(errno));
	return -errno;
}

/* How many, or -errno. */
static int probe_all(pid_t pid, const char *path, const char *function)
{
	struct sonde_elf *elf;
	struct sonde_insn insn;
	struct sonde_sym sym;
	uint8_t code[512];
	int n = 0, err = sonde_elf_open(&elf, path, "");

	err = err ? err : sonde_elf_find(elf, function, &sym);
	if (!err && sym.size > sizeof(code))
		err = -E2BIG;
	err = err ? err : sonde_elf_code(elf, sym.offset, code, sym.size);
	for (uint64_t at = 0; !err && at < sym.size; at += insn.length) {
		err = sonde_insn_decode(code + at, sym.size - at, &insn, NULL, 0);
		if (err || insn.refused)
			continue;
		err = probe(pid, path, sym.offset + at);
		n++;
	}
	sonde_elf_free(&elf);
	return err ? err : n;
}

static int print_stack(const struct sonde_stack_value *v)
{
	struct sonde_code code[SONDE_STACK_FRAMES];
	struct sonde_frame *frames;
	size_t n;
	int err;

	for (uint32_t i = 0; i < v->n; i++)
		code[i] = sonde_stacks_code(stacks, 0, v->pcs[i]);
	code[0].exact = true;
	err = sonde_stacks_name(stacks, code, v->n, &frames, &n);
	if (err)
		return err;
	printf("stack|%s|", sonde_stack_end_name(v->end));
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i ? ";" : "", *frames[i].function ? frames[i].function : "?");
	printf("|%llu\n", (unsigned long long)v->calls);
	free(frames);
	return 0;
}

static int print_all(void)
{
	struct sonde_stack_value v;
	int fd = bpf_map__fd(skel->maps.stacks), err = 0;
	uint64_t key, *from = NULL;

	while (!err && !bpf_map_get_next_key(fd, from, &key)) {
		err = bpf_map_lookup_elem(fd, &key, &v);
		if (!err && v.calls)
			err = print_stack(&v);
		from = &key;
	}
	return err;
}

static int run(struct sonde_lens_ctx *ctx, const char *function)
{
	const struct sonde_target *t = &ctx->targets->t[0];
	char path[64];
	int err, n;

	snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
	skel = stackat_bpf__open();
	if (!skel)
		return -EIO;
	ctx->obj = skel->obj;
	err = sonde_stacks_configure(skel->obj, 1);
	err = err ? err : stackat_bpf__load(skel);
	err = err ? err : sonde_stacks_new(&stacks, ctx, 1);
	err = err ? err : sonde_stacks_refresh(stacks, ctx);
	if (err)
		return err;
	n = probe_all(t->pid, path, function);
	if (n < 0)
		return n;
	printf("attached %d\n", n);
	fflush(stdout);
	getchar();
	return print_all();
}

int main(int argc, char **argv)
{
	struct sonde_target_list targets = {0};
	struct sonde_lens_opts opts = {.sites = true};
	struct sonde_visitor out = {0};
	struct sonde_lens_ctx ctx = {
		.lens = &sonde_lens_alloc, .targets = &targets, .opts = &opts, .out = &out};
	struct sonde_target t = {0};
	uint64_t pid;
	int err;

	if (argc != 3 || sonde_parse_u64(argv[1], &pid)) {
		fprintf(stderr, "usage: stackat PID FUNCTION\n");
		return 2;
	}
	err = sonde_target_open(&t, (pid_t)pid);
	err = err ? err : sonde_target_list_add(&targets, &t);
	err = err ? err : run(&ctx, argv[2]);
	if (err)
		fprintf(stderr, "stackat: %s\n", strerror(-err));
	sonde_stacks_free(&stacks);
	stackat_bpf__destroy(skel);
	sonde_target_list_fini(&targets);
	return err != 0;
}
