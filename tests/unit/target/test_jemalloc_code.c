// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where a thread's byte counter lies, from code as compilers make it of jemalloc's fast paths. The
 * functions below are never run: the assembler is the witness of what their bytes mean.
 */
#include "unit/unit.h"

#include <errno.h>

#include "target/heap/jemalloc_code.h"

#define CASE(name, text)                                                                           \
	asm(".pushsection .text\n" #name ":\n" text "\nret\n" #name "_end:\n.popsection\n");       \
	extern const char name[], name##_end[]

/* A library: the distance of the thread's block comes from a word that the dynamic linker fills. */
CASE(library, "mov jc_word(%rip), %rcx\n"
	      "mov %fs:0x338(%rcx), %rdx\n"
	      "add (%r8,%rsi,8), %rdx\n"
	      "cmp %fs:0x340(%rcx), %rdx\n"
	      "jae 1f\n"
	      "mov %fs:0, %r9\n"
	      "lea (%r9,%rsi,8), %rax\n"
	      "add %rcx, %rax\n"
	      "mov %rdi, 0x360(%rax)\n"
	      "mov %rdx, %fs:0x338(%rcx)\n"
	      "1:");
/* An executable: the distance is a constant. */
CASE(constant, "mov $-0xa48, %rcx\n"
	       "mov %fs:0x338(%rcx), %rdx\n"
	       "add %rax, %rdx\n"
	       "cmp %fs:0x340(%rcx), %rdx\n"
	       "jae 1f\n"
	       "mov %rdx, %fs:0x338(%rcx)\n"
	       "1:");
/* The same without a register. */
CASE(absolute, "mov %fs:-0x710, %rdx\n"
	       "add %rax, %rdx\n"
	       "cmp %fs:-0x708, %rdx\n"
	       "mov %rdx, %fs:-0x710");
/* Through a pointer to the block, sum first; and the registers saved as functions do. */
CASE(pointer, "push %rbx\n"
	      "mov %fs:0, %rbx\n"
	      "add jc_word(%rip), %rbx\n"
	      "mov 0x348(%rbx), %rax\n"
	      "add %rdi, %rax\n"
	      "cmp 0x350(%rbx), %rax\n"
	      "mov %rax, 0x348(%rbx)\n"
	      "pop %rbx");
/* 5.0 to 5.2: added to in memory, no threshold. */
CASE(older, "mov jc_word(%rip), %rcx\n"
	    "cmpb $0, %fs:0x330(%rcx)\n"
	    "add %rsi, %fs:0x48(%rcx)\n"
	    "addq $1, 8(%rdx)");
/* A second counter that fits: neither is taken. */
CASE(two, "mov jc_word(%rip), %rcx\n"
	  "mov %fs:0x338(%rcx), %rdx\n"
	  "cmp %fs:0x340(%rcx), %rdx\n"
	  "mov %rdx, %fs:0x338(%rcx)\n"
	  "mov %fs:0x348(%rcx), %rdx\n"
	  "cmp %fs:0x350(%rcx), %rdx\n"
	  "mov %rdx, %fs:0x348(%rcx)");
/* The register that held the distance was written by what is not followed. */
CASE(overwritten, "mov jc_word(%rip), %rcx\n"
		  "xor %ecx, %ecx\n"
		  "mov %fs:0x338(%rcx), %rdx\n"
		  "cmp %fs:0x340(%rcx), %rdx\n"
		  "mov %rdx, %fs:0x338(%rcx)");
/* Dynamic thread-local storage: a call finds the block. */
CASE(dynamic, "lea jc_word(%rip), %rdi\n"
	      "call jc_word\n"
	      "mov 0x338(%rax), %rdx\n"
	      "cmp 0x340(%rax), %rdx\n"
	      "mov %rdx, 0x338(%rax)");
/* 32-bit words, and places that are only read, are no counters. */
CASE(narrow, "mov jc_word(%rip), %rcx\n"
	     "mov %fs:0x338(%rcx), %edx\n"
	     "cmp %fs:0x33c(%rcx), %edx\n"
	     "mov %edx, %fs:0x338(%rcx)\n"
	     "mov %fs:0x10(%rcx), %rdx\n"
	     "cmp %fs:0x18(%rcx), %rdx");

static uint64_t jc_word_storage asm("jc_word") __attribute__((used));

#define LOOK(name, out)                                                                            \
	sonde_jemalloc_counter((const uint8_t *)name, (size_t)(name##_end - name),                 \
			       (uint64_t)(uintptr_t)name, out)

#define ASSERT_PLACE(name, w, o)                                                                   \
	do {                                                                                       \
		struct sonde_jemalloc_place p = {0};                                               \
                                                                                                   \
		assert_int_equal(LOOK(name, &p), 0);                                               \
		assert_int_equal(p.word, w);                                                       \
		assert_int_equal(p.offset, o);                                                     \
	} while (0)

static void test_places(void **state)
{
	uint64_t word = (uint64_t)(uintptr_t)&jc_word_storage;

	(void)state;
	ASSERT_PLACE(library, word, 0x338);
	ASSERT_PLACE(constant, 0, 0x338 - 0xa48);
	ASSERT_PLACE(absolute, 0, -0x710);
	ASSERT_PLACE(pointer, word, 0x348);
	ASSERT_PLACE(older, word, 0x48);
}

static void test_refused(void **state)
{
	struct sonde_jemalloc_place p = {77, 77};

	(void)state;
	assert_int_equal(LOOK(two, &p), -EEXIST);
	assert_int_equal(LOOK(overwritten, &p), -ENOENT);
	assert_int_equal(LOOK(dynamic, &p), -ENOENT);
	assert_int_equal(LOOK(narrow, &p), -ENOENT);
	assert_int_equal(sonde_jemalloc_counter((const uint8_t *)"\x0f", 1, 0, &p), -ENOENT);
	assert_int_equal(sonde_jemalloc_counter((const uint8_t *)"", 0, 0, &p), -ENOENT);
	assert_int_equal(p.word, 77);
	assert_int_equal(p.offset, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
