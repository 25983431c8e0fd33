// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does sonde know how this kernel treats an instruction under a probe? Each one below is probed in
 * a child of its own and executed: a probe that cannot be attached is refused, and an instruction
 * that was single-stepped leaves the kernel's page for it, [uprobes], in the child's mappings. Says
 *
 *     insn NAME WHAT-SONDE-SAYS WHAT-THE-KERNEL-DID
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/sitecount.skel.h"
#include "core/file.h"
#include "core/mem.h"
#include "target/elf.h"
#include "target/site.h"

/* Each is a function that can be called as it is: void f(long *). */
#define INSNS(X)                                                                                   \
	X(push_rbx, "push %rbx; pop %rbx; ret")                                                    \
	X(push_r12, "push %r12; pop %r12; ret")                                                    \
	X(nop, "nop; ret")                                                                         \
	X(nop_66, ".byte 0x66,0x90; ret")                                                          \
	X(nop_5, ".byte 0x0f,0x1f,0x44,0,0; ret")                                                  \
	X(jmp_short, ".byte 0xeb,0; ret")                                                          \
	X(jmp_near, ".byte 0xe9,0,0,0,0; ret")                                                     \
	X(je_short, ".byte 0x74,0; ret")                                                           \
	X(jne_near, ".byte 0x0f,0x85,0,0,0,0; ret")                                                \
	X(call, "call 1f; ret; 1: ret")                                                            \
	X(endbr64, "endbr64; ret")                                                                 \
	X(test, "test %rdi,%rdi; ret")                                                             \
	X(mov, "mov %rdi,%rax; ret")                                                               \
	X(mov_rip, "mov fx_word(%rip),%rax; ret")                                                  \
	X(cmpb_rip, "cmpb $0,fx_word(%rip); ret")                                                  \
	X(lea, "lea 8(%rdi),%rax; ret")                                                            \
	X(sub_rsp, "sub $8,%rsp; add $8,%rsp; ret")                                                \
	X(push_imm, "push $1; pop %rax; ret")                                                      \
	X(push_mem, "push (%rdi); pop %rax; ret")                                                  \
	X(pop, ".byte 0x58; push %rax; ret")                                                       \
	X(ret, "ret")                                                                              \
	X(mov_fs, "mov %fs:0,%rax; ret")                                                           \
	X(lock_inc, "lock incq (%rdi); ret")                                                       \
	X(cs_je, ".byte 0x2e,0x74,0; ret")                                                         \
	X(jmp_66, ".byte 0x66,0xe9,0,0,0,0; ret")                                                  \
	X(ds_je, ".byte 0x3e,0x74,0; ret")                                                         \
	X(int3, "int3; ret")                                                                       \
	X(hlt, "hlt; ret")                                                                         \
	X(in_al, "in %dx,%al; ret")                                                                \
	X(cli, "cli; ret")

#define DEFINE(name, body)                                                                         \
	extern void fx_##name(long *);                                                             \
	__asm__(".text\n.globl fx_" #name "\n.type fx_" #name ",@function\nfx_" #name ":\n" body   \
		"\n.size fx_" #name ",.-fx_" #name "\n");
/* ud2 is left out: kernels differ, and a probe on it is of no use. */
INSNS(DEFINE)
#undef DEFINE
__asm__(".data\nfx_word: .quad 0\n.text");

static const struct {
	const char *name;
	void (*run)(long *);
} insns[] = {
#define ROW(name, body) {#name, fx_##name},
	INSNS(ROW)
#undef ROW
};

static struct sitecount_bpf *skel;

static const char *sonde_says(struct sonde_elf *elf, uint64_t offset)
{
	enum sonde_insn_kind kind;
	uint8_t code[16];
	int err = sonde_elf_code(elf, offset, code, sizeof(code));

	if (!err)
		err = sonde_insn_kind(code, sizeof(code), &kind);
	return err == -EOPNOTSUPP ? "refused" : err ? "unreadable" : kind ? "emulated" : "stepped";
}

/* In a child: attach to itself, execute, look. Its exit code is an index into `answers`. */
static const char *const answers[] = {"emulated", "stepped", "refused", "missed"};

static int try_it(size_t i, uint64_t offset)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = i);
	struct bpf_link *link = bpf_program__attach_uprobe_opts(skel->progs.count, getpid(),
								"/proc/self/exe", offset, &opts);
	sonde_autofree char *maps = NULL;
	uint32_t key = (uint32_t)i;
	uint64_t hits = 0;
	long word = 0;

	if (!link)
		return 2;
	insns[i].run(&word);
	bpf_map_lookup_elem(bpf_map__fd(skel->maps.hits), &key, &hits);
	if (hits != 1 || sonde_read_file("/proc/self/maps", &maps, NULL))
		return 3;
	return strstr(maps, "[uprobes]") ? 1 : 0;
}

static const char *kernel_does(size_t i, uint64_t offset)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try_it(i, offset));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "lost";
	return WIFEXITED(status) && WEXITSTATUS(status) < 4 ? answers[WEXITSTATUS(status)] : "died";
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

int main(void)
{
	struct sonde_elf *elf;
	int bad = 0;

	libbpf_set_print(quiet);
	skel = sitecount_bpf__open_and_load();
	if (!skel || sonde_elf_open(&elf, "/proc/self/exe", ""))
		return 1;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(insns); i++) {
		const char *says, *does;
		struct sonde_sym sym;
		char name[32];

		snprintf(name, sizeof(name), "fx_%s", insns[i].name);
		if (sonde_elf_find(elf, name, &sym))
			return 1;
		says = sonde_says(elf, sym.offset);
		does = kernel_does(i, sym.offset);
		printf("insn %s %s %s\n", insns[i].name, says, does);
		bad += strcmp(says, does) != 0;
	}
	return bad ? 1 : 0;
}
