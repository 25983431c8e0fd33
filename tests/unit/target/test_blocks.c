// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tables of allocators found in real processes. The witness is the process itself: it writes down
 * where its blocks are and how large the library says each is, and what every request would get.
 */
#include "unit/unit.h"

#include <errno.h>

#include "target/allocator.h"
#include "target/blocks/blocks.h"
#include "target/blocks/jemalloc.h"
#include "unit/target/fixture.h"

#define LIBS "/usr/lib/x86_64-linux-gnu/"

/* Blocks of every class up to 4 MiB, some given back, by several threads. */
static const char source[] =
	"#include <malloc.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
	"#include <unistd.h>\n"
	"size_t nallocx(size_t, int);\n"
	"static FILE *f;\n"
	"static void *work(void *a) {\n"
	"	for (size_t n = 1; n < 4 << 20; n += n / 7 + 1) {\n"
	"		void *p = malloc(n), *q = malloc(n), *r = aligned_alloc(256, (n + 255) & "
	"-256);\n"
	"		fprintf(f, \"block %p %zu\\n\", p, malloc_usable_size(p));\n"
	"		fprintf(f, \"block %p %zu\\n\", r, malloc_usable_size(r));\n"
	"		free(q);\n"
	"	}\n"
	"	return 0; }\n"
	"int main(int c, char **v) {\n"
	"	pthread_t t;\n"
	"	char path[4096]; int n = readlink(\"/proc/self/exe\", path, 4000);\n"
	"	path[n] = 0; f = fopen(__builtin_strcat(path, \".txt\"), \"w\");\n"
	"	work(0); pthread_create(&t, 0, work, 0); pthread_join(t, 0);\n"
	"	for (size_t s = 0; s <= 300000; s += s < 2000 ? 1 : 61)\n"
	"		fprintf(f, \"request %zu %zu\\n\", s, nallocx(s ? s : 1, 0));\n"
	"	fflush(f); write(3, \"r\", 1); for (;;) pause(); }\n";

struct process {
	pid_t pid;
	struct sonde_alloc_domain d;
	FILE *told;
	int err;
};

static struct process look(const char *name, const char *library)
{
	struct sonde_allocator_use use[4];
	struct process p = {0};
	struct sonde_modules mods;
	char path[128], flags[128];
	size_t n;

	snprintf(flags, sizeof(flags), "-pthread -Wl,--no-as-needed " LIBS "%s", library);
	fx_compile(name, flags, source);
	p.pid = fx_spawn(fx_path(path, sizeof(path), name), NULL);
	assert_int_equal(sonde_modules_read(p.pid, &mods), 0);
	assert_int_equal(sonde_allocator_list(p.pid, &mods, use, 4, &n), 0);
	assert_int_equal(n, 1);
	p.err = sonde_blocks_learn(p.pid, use[0].allocator, &mods.m[use[0].module], &p.d);
	sonde_modules_fini(&mods);
	strcat(path, ".txt");
	p.told = fopen(path, "r");
	assert_non_null(p.told);
	return p;
}

static uint64_t word(const struct process *p, uint64_t at)
{
	struct sonde_blocks b = {.pid = p->pid};
	uint64_t w;

	assert_int_equal(sonde_blocks_read(&b, at, &w, sizeof(w)), 0);
	return w;
}

static uint64_t leaf(const struct process *p, uint64_t at)
{
	uint64_t page = at >> p->d.page_shift;
	uint64_t l = word(p, p->d.root + (page >> p->d.leaf_bits) * 8);

	return word(p, l + (page & ((1ull << p->d.leaf_bits) - 1)) * 8);
}

static uint64_t size_by_rtree(const struct process *p, uint64_t at)
{
	uint64_t class = leaf(p, at) >> 48;

	assert_true(class < p->d.n_classes);
	return p->d.class_bytes[class];
}

static uint64_t size_by_span(const struct process *p, uint64_t at)
{
	uint64_t span = leaf(p, at), class = word(p, span + p->d.class_offset) & 0xff;

	assert_true(class < p->d.n_classes);
	return class ? p->d.class_bytes[class] : word(p, span + 8) << p->d.page_shift;
}

/* Each block that the process told of has the size that it told. */
static unsigned blocks_agree(const struct process *p,
			     uint64_t (*size)(const struct process *p, uint64_t at))
{
	unsigned long at, bytes;
	unsigned n = 0;

	rewind(p->told);
	for (char line[64]; fgets(line, sizeof(line), p->told);) {
		if (sscanf(line, "block %lx %lu", &at, &bytes) != 2)
			continue;
		assert_int_equal(size(p, at), bytes);
		n++;
	}
	return n;
}

static void jemalloc(void **state)
{
	struct process p = look("je", "libjemalloc.so.2");
	unsigned long request, bytes;
	size_t class = 0;

	(void)state;
	assert_int_equal(p.err, 0);
	assert_int_equal(p.d.n_classes, 232);
	assert_true(blocks_agree(&p, size_by_rtree) > 200);
	rewind(p.told);
	for (char line[64]; fgets(line, sizeof(line), p.told);) {
		if (sscanf(line, "request %lu %lu", &request, &bytes) != 2)
			continue;
		while (p.d.class_bytes[class] < request)
			class ++;
		assert_int_equal(p.d.class_bytes[class], bytes);
	}
	assert_int_equal(p.d.class_bytes[231], 7ull << 60);
	fclose(p.told);
	fx_stop(p.pid);
}

static void tcmalloc(void **state)
{
	struct process p = look("tc", "libtcmalloc_minimal.so.4");
	unsigned long request, bytes;
	unsigned n = 0;

	(void)state;
	assert_int_equal(p.err, 0);
	assert_int_equal(p.d.page_shift, 13);
	assert_int_equal(p.d.max_small, 262144);
	assert_true(blocks_agree(&p, size_by_span) > 200);
	rewind(p.told);
	for (char line[64]; fgets(line, sizeof(line), p.told);) {
		if (sscanf(line, "request %lu %lu", &request, &bytes) != 2 ||
		    request > p.d.max_small)
			continue;
		/* As the kernel side indexes it. */
		assert_int_equal(
			p.d.size_bytes[request <= 1024 ? (request + 7) >> 3
						       : (request + 127 + (120 << 7)) >> 7],
			bytes);
		n++;
	}
	assert_true(n > 5000);
	fclose(p.told);
	fx_stop(p.pid);
}

/* A scratch process with the same library has them at the same place; another place is refused. */
static void confirmed(void **state)
{
	static const char *const libraries[] = {"libjemalloc.so.2", "libtcmalloc_minimal.so.4"};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(libraries); i++) {
		struct process p = look("confirm", libraries[i]);
		struct sonde_allocator_use use;
		struct sonde_modules mods;
		char why[256] = "";
		size_t n;

		assert_int_equal(sonde_modules_read(p.pid, &mods), 0);
		assert_int_equal(sonde_allocator_list(p.pid, &mods, &use, 1, &n), 0);
		if (sonde_blocks_confirm(p.pid, use.allocator, &mods, use.module, &p.d, why,
					 sizeof(why)))
			fail_msg("%s: %s", libraries[i], why);
		p.d.root += 8;
		assert_int_equal(sonde_blocks_confirm(p.pid, use.allocator, &mods, use.module, &p.d,
						      why, sizeof(why)),
				 -EINVAL);
		assert_non_null(strstr(why, "scratch process"));
		assert_int_equal(sonde_blocks_confirm(p.pid, use.allocator, &mods, 0, &p.d, why,
						      sizeof(why)),
				 -EOPNOTSUPP);
		sonde_modules_fini(&mods);
		fclose(p.told);
		fx_stop(p.pid);
	}
}

/* Only the right shape fits: with another one nothing agrees, whatever memory there is. */
static void wrong_shape(void **state)
{
	static const struct {
		unsigned page_shift, leaf_bits;
	} shapes[] = {{12, 17}, {13, 18}, {11, 18}, {14, 17}, {12, 18}};
	struct process p = look("shape", "libjemalloc.so.2");
	struct sonde_blocks b = {.pid = p.pid};
	struct sonde_maps maps;

	(void)state;
	assert_int_equal(p.err, 0);
	assert_int_equal(sonde_maps_read(p.pid, &maps), 0);
	b.data.r = calloc(maps.n, sizeof(*b.data.r));
	b.heap.r = calloc(maps.n, sizeof(*b.heap.r));
	for (size_t i = 0; i < maps.n; i++) {
		struct sonde_range r = {maps.m[i].start, maps.m[i].end};

		if (maps.m[i].w && p.d.root >= r.start && p.d.root < r.end)
			b.data.r[b.data.n++] = r;
		if (maps.m[i].w && !maps.m[i].inode)
			b.heap.r[b.heap.n++] = r;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shapes); i++) {
		struct sonde_alloc_domain d = p.d;
		bool right = i == SONDE_ARRAY_SIZE(shapes) - 1;

		d.root = 0;
		d.page_shift = shapes[i].page_shift;
		d.leaf_bits = shapes[i].leaf_bits;
		assert_int_equal(sonde_blocks_find_root(&b, &d, sonde_jemalloc_check),
				 right ? 0 : -ENOENT);
		assert_int_equal(d.root, right ? p.d.root : 0);
	}
	free(b.data.r);
	free(b.heap.r);
	sonde_maps_fini(&maps);
	fclose(p.told);
	fx_stop(p.pid);
}

/* What is not there is not found: another allocator's module, a module without data of its own. */
static void refused(void **state)
{
	static const size_t with_tables[] = {0, 1}; /* jemalloc, gperftools: as in allocators.def */
	struct sonde_alloc_domain d, before;
	struct sonde_modules mods;
	char path[128];
	pid_t pid = fx_spawn(fx_path(path, sizeof(path), "plain"), NULL);

	(void)state;
	memset(&d, 0x5a, sizeof(d));
	before = d;
	assert_int_equal(sonde_modules_read(pid, &mods), 0);
	for (size_t i = 0; i < mods.n; i++)
		for (size_t a = 0; a < 2; a++)
			assert_int_equal(sonde_blocks_learn(pid, sonde_allocators[with_tables[a]],
							    &mods.m[i], &d),
					 -ENOENT);
	assert_int_equal(sonde_blocks_learn(pid, sonde_allocators[2], &mods.m[0], &d), -EOPNOTSUPP);
	assert_memory_equal(&d, &before, sizeof(d));
	fx_stop(pid);
	assert_true(sonde_blocks_learn(pid, sonde_allocators[0], &mods.m[0], &d) < 0);
	sonde_modules_fini(&mods);
}

static int setup(void **state)
{
	int err = fx_open(state);

	if (!err)
		fx_compile("plain", "", FX_READY_MAIN);
	return err;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jemalloc),  cmocka_unit_test(tcmalloc),
		cmocka_unit_test(confirmed), cmocka_unit_test(wrong_shape),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, setup, fx_close);
}
