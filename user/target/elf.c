// SPDX-License-Identifier: GPL-2.0-or-later
/* An ELF file of the target: opening it, its segments, build-id and needed libraries. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <elfutils/libdwelf.h>

#include "core/err.h"
#include "core/mem.h"
#include "target/elf_file.h"

/* Why a file cannot be used; said at once where that is an error, else left to the caller. */
static int refuse(bool quiet, int code, const char *path, const char *why)
{
	return quiet ? -code : sonde_err(code, "%s: %s", path, why);
}

static int read_header(struct sonde_elf *elf, const char *path, bool quiet)
{
	GElf_Ehdr ehdr;

	if (elf_kind(elf->elf) != ELF_K_ELF || !gelf_getehdr(elf->elf, &ehdr))
		return refuse(quiet, ENOEXEC, path, "not an ELF file");
	if (gelf_getclass(elf->elf) != ELFCLASS64)
		return refuse(quiet, EOPNOTSUPP, path,
			      "a 32-bit program; sonde observes x86-64 programs only");
	if (ehdr.e_machine != EM_X86_64)
		return refuse(quiet, EOPNOTSUPP, path,
			      "built for another processor; sonde observes x86-64 programs only");
	return 0;
}

static int read_segments(struct sonde_elf *elf)
{
	size_t n;

	if (elf_getphdrnum(elf->elf, &n))
		return -ENOEXEC;
	elf->segments = calloc(n ? n : 1, sizeof(*elf->segments));
	if (!elf->segments)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf->elf, (int)i, &ph))
			return -ENOEXEC;
		if (ph.p_type == PT_INTERP)
			elf->has_interp = true;
		if (ph.p_type == PT_DYNAMIC)
			elf->dynamic_at = ph.p_vaddr;
		if (ph.p_type == PT_TLS && ph.p_align < 1ul << 32)
			elf->tls_size = ph.p_align > 1 ? (ph.p_memsz + ph.p_align - 1) /
								 ph.p_align * ph.p_align
						       : ph.p_memsz;
		if (ph.p_type != PT_LOAD)
			continue;
		elf->segments[elf->n_segments++] = (struct sonde_elf_segment){
			.vaddr = ph.p_vaddr,
			.offset = ph.p_offset,
			.filesz = ph.p_filesz,
			.memsz = ph.p_memsz,
			.exec = ph.p_flags & PF_X,
			.write = ph.p_flags & PF_W,
		};
	}
	return 0;
}

static int read_build_id(struct sonde_elf *elf)
{
	const void *id;
	ssize_t n = dwelf_elf_gnu_build_id(elf->elf, &id);

	for (ssize_t i = 0; i < n && (size_t)i < (sizeof(elf->build_id) - 1) / 2; i++)
		sprintf(elf->build_id + 2 * i, "%02x", ((const unsigned char *)id)[i]);
	return 0;
}

static int add_needed(struct sonde_elf *elf, size_t *n, const char *soname)
{
	char **grown = reallocarray(elf->needed, *n + 2, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	elf->needed = grown;
	grown[*n + 1] = NULL;
	grown[*n] = strdup(soname);
	if (!grown[*n])
		return -ENOMEM;
	(*n)++;
	return 0;
}

static int take_name(struct sonde_elf *elf, int64_t tag, const char *name)
{
	size_t n = 0;

	while (elf->needed[n])
		n++;
	if (tag == DT_NEEDED)
		return add_needed(elf, &n, name);
	free(elf->soname);
	elf->soname = strdup(name);
	return elf->soname ? 0 : -ENOMEM;
}

static int read_dynamic_entry(struct sonde_elf *elf, size_t strings, const GElf_Dyn *dyn)
{
	const char *name;

	if (dyn->d_tag != DT_NEEDED && dyn->d_tag != DT_SONAME)
		return 0;
	name = elf_strptr(elf->elf, strings, dyn->d_un.d_val);
	return name ? take_name(elf, dyn->d_tag, name) : 0;
}

static int read_dynamic(struct sonde_elf *elf)
{
	Elf_Scn *scn = NULL;
	bool found = false;
	int err = 0;

	elf->needed = calloc(1, sizeof(*elf->needed));
	elf->soname = strdup("");
	if (!elf->needed || !elf->soname)
		return -ENOMEM;
	while (!err && (scn = elf_nextscn(elf->elf, scn))) {
		GElf_Shdr sh;
		GElf_Dyn dyn;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_DYNAMIC)
			continue;
		data = elf_getdata(scn, NULL);
		found |= data != NULL;
		for (int i = 0; !err && data && gelf_getdyn(data, i, &dyn); i++) {
			if (dyn.d_tag == DT_NULL)
				break;
			err = read_dynamic_entry(elf, sh.sh_link, &dyn);
		}
	}
	return err || found ? err : sonde_elf_dynamic_names(elf, take_name);
}

/* Opening a FIFO that a hostile file system put in place must not hang. */
static int open_regular(const char *path, bool quiet, int *out)
{
	sonde_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return quiet ? -errno
			     : sonde_err(errno, "cannot open %s: %s%s", path, strerror(errno),
					 errno == EACCES || errno == EPERM ? "; run as root" : "");
	if (!S_ISREG(st.st_mode))
		return refuse(quiet, ENOEXEC, path, "not a regular file");
	*out = SONDE_TAKE_FD(fd);
	return 0;
}

static int read_tables(struct sonde_elf *elf, const char *path, bool quiet)
{
	int err;

	elf_version(EV_CURRENT);
	elf->elf = elf_begin(elf->fd, ELF_C_READ, NULL);
	if (!elf->elf)
		return refuse(quiet, ENOEXEC, path, elf_errmsg(-1));
	err = read_header(elf, path, quiet);
	if (err)
		return err;
	err = read_segments(elf);
	if (!err)
		err = read_build_id(elf);
	if (!err)
		err = read_dynamic(elf);
	return err ? refuse(quiet, -err, path, "damaged ELF headers") : 0;
}

static int open_elf(struct sonde_elf **out, const char *path, const char *root, bool quiet)
{
	struct sonde_elf *elf = calloc(1, sizeof(*elf));
	int err;

	if (!elf)
		return -ENOMEM;
	elf->fd = elf->debug_fd = -1;
	elf->path = strdup(path);
	elf->root = strdup(root ? root : "");
	err = elf->path && elf->root ? open_regular(path, quiet, &elf->fd) : -ENOMEM;
	if (!err)
		err = read_tables(elf, path, quiet);
	if (err)
		sonde_elf_free(&elf);
	else
		*out = elf;
	return err;
}

int sonde_elf_open(struct sonde_elf **out, const char *path, const char *root)
{
	return open_elf(out, path, root, false);
}

int sonde_elf_try(struct sonde_elf **out, const char *path, const char *root)
{
	return open_elf(out, path, root, true);
}

void sonde_elf_free(struct sonde_elf **ref)
{
	struct sonde_elf *elf = *ref;

	*ref = NULL;
	if (!elf)
		return;
	if (elf->mini)
		dwfl_end(elf->mini);
	elf_end(elf->debug);
	elf_end(elf->elf);
	if (elf->debug_fd >= 0)
		close(elf->debug_fd);
	if (elf->fd >= 0)
		close(elf->fd);
	for (char **p = elf->needed; p && *p; p++)
		free(*p);
	free(elf->needed);
	free(elf->soname);
	free(elf->segments);
	free(elf->extents);
	sonde_elf_dynamic_fini(&elf->dynamic);
	free(elf->path);
	free(elf->root);
	free(elf);
}

void sonde_elf_build_id(const struct sonde_elf *elf, char *buf, size_t size)
{
	snprintf(buf, size, "%s", elf->build_id);
}

bool sonde_elf_is_static(const struct sonde_elf *elf)
{
	return !elf->has_interp && !elf->needed[0];
}

const char *sonde_elf_soname(const struct sonde_elf *elf)
{
	return elf->soname;
}

const char *const *sonde_elf_needed(const struct sonde_elf *elf)
{
	return (const char *const *)elf->needed;
}

int sonde_elf_vaddr_to_offset(const struct sonde_elf *elf, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct sonde_elf_segment *s = &elf->segments[i];

		if (!s->exec || vaddr < s->vaddr || vaddr - s->vaddr >= s->filesz)
			continue;
		*offset = vaddr - s->vaddr + s->offset;
		return 0;
	}
	return -ENOENT;
}

int sonde_elf_text(const struct sonde_elf *elf, uint64_t off, uint64_t *start, uint64_t *size)
{
	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct sonde_elf_segment *s = &elf->segments[i];

		if (!s->exec || off < s->offset || off - s->offset >= s->filesz)
			continue;
		*start = s->offset;
		*size = s->filesz;
		return 0;
	}
	return -ENOENT;
}

int sonde_elf_code(struct sonde_elf *elf, uint64_t off, void *buf, size_t len)
{
	uint64_t start, size;
	size_t got = 0;

	if (sonde_elf_text(elf, off, &start, &size) || len > size - (off - start))
		return -ERANGE;
	while (got < len) {
		ssize_t n = pread(elf->fd, (char *)buf + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ERANGE;
		got += (size_t)n;
	}
	return 0;
}
