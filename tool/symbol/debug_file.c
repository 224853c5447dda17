/* SPDX-License-Identifier: Apache-2.0 */
/* Files with debug information; see debug_file.h. Paths come from profiles, which are not trusted,
 * so only regular files are opened, and read by elfutils alone. */
#include "tool/symbol/debug_file.h"

#include "tool/base/note.h"

#include "tool/base/budget.h"
#include "tool/symbol/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILD_ID_MAX 64   /* bytes */
#define SEGMENTS_MAX 1024 /* program headers that are looked at */
#define NS_PER_S     1000000000

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool lacks_memory;   /* a file could not be read for that reason */
static char *debug_folders; /* elfutils' default: beside the file, and /usr/lib/debug */

/* elfutils maps each file whole. */
static void add_file(int fd)
{
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0)
        sa_budget_add_file((uint64_t)status.st_size);
}

static void check_compression(const char *path, int fd);

/* A file that elfutils has not found, from a server. */
static int ask_servers(Dwfl_Module *module, bool debug, char **ret)
{
    const unsigned char *id;
    GElf_Addr address;
    int bytes = dwfl_module_build_id(module, &id, &address);

    return bytes > 0 ? sa_debuginfod_open(id, (size_t)bytes, debug, ret) : -1;
}

static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word sum, char **ret)
{
    int fd = dwfl_standard_find_debuginfo(module, data, name, base, file, link, sum, ret);

    if (fd < 0)
        fd = ask_servers(module, true, ret);
    add_file(fd);
    if (fd >= 0)
        check_compression(*ret ? *ret : file, fd);
    return fd;
}

static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, char **ret,
                    Elf **elf)
{
    int fd = dwfl_build_id_find_elf(module, data, name, base, ret, elf);

    if (fd < 0 && !*elf)
        fd = ask_servers(module, false, ret);
    add_file(fd);
    return fd;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debug_folders,
};

/* Opens a program or library, as far as it is one; its time of change. -1: it is none. */
static int open_elf(const char *root, const char *path, struct timespec *changed)
{
    char full[4096];
    Elf64_Ehdr header;
    struct stat status;
    int fd;

    if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
        return -1;
    fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
        memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
        (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
        *changed = status.st_mtim;
        return fd;
    }
    close(fd);
    return -1;
}

/* Says why a file has no lines if its debug information is compressed in a way that libelf does not
 * know, as zstd before elfutils 0.189. */
static void check_compression(const char *path, int fd)
{
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Chdr how;

    while (elf && (section = elf_nextscn(elf, section))) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_COMPRESSED) ||
            !gelf_getchdr(section, &how) || how.ch_type == ELFCOMPRESS_ZLIB ||
            elf_compress(section, 0, 0) >= 0)
            continue;
        sa_note("%s: no lines of it: its debug information is compressed by %s, which "
                "this elfutils cannot read; objcopy --decompress-debug-sections makes it readable",
                path, how.ch_type == ELFCOMPRESS_ZSTD ? "zstd" : "an unknown method");
        break;
    }
    elf_end(elf);
}

static bool report(struct sa_debug_file *file, const char *path, int fd)
{
    errno = 0;
    file->dwfl = dwfl_begin(&callbacks);
    if (!file->dwfl) {
        close(fd);
        return false;
    }
    add_file(fd);
    dwfl_report_begin(file->dwfl);
    file->module = dwfl_report_elf(file->dwfl, path, path, fd, 0, true);
    if (!file->module) {
        lacks_memory |= errno == ENOMEM;
        close(fd);
    }
    return dwfl_report_end(file->dwfl, NULL, NULL) == 0 && file->module;
}

static bool read_segments(struct sa_debug_file *file)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(file->module, &bias);
    GElf_Phdr header, *all;
    size_t count;

    if (!elf || bias || elf_getphdrnum(elf, &count) != 0 || count > SEGMENTS_MAX)
        return false;
    all = calloc(count + 1, sizeof(*all));
    file->segments = all;
    for (size_t i = 0; all && i < count; i++)
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD)
            all[file->segment_count++] = header;
    return all != NULL;
}

static void build_id(const struct sa_debug_file *file, char ret[2 * BUILD_ID_MAX + 1])
{
    const unsigned char *bits;
    GElf_Addr address;
    int count = dwfl_module_build_id(file->module, &bits, &address);

    ret[0] = '\0';
    for (int i = 0; i < count && i < BUILD_ID_MAX; i++)
        sprintf(ret + 2 * i, "%02x", bits[i]);
}

/* Whether a file without a build id can be the one of a mapping without any. */
static bool is_likely(const struct sa_debug_file *file, const struct sa_file_mapping *m,
                      const struct timespec *changed, int64_t time_ns)
{
    if (time_ns <= changed->tv_sec * NS_PER_S + changed->tv_nsec)
        return false;
    for (size_t i = 0; i < file->segment_count; i++)
        if (file->segments[i].p_offset == m->offset &&
            file->segments[i].p_memsz == m->limit - m->start)
            return true;
    return false;
}

/* Opens the file at a path; false: there is none, or it is another one. */
static bool open_path(struct sa_debug_file *ret, const struct sa_file_mapping *m, const char *root,
                      int64_t time_ns, bool *other)
{
    char id[2 * BUILD_ID_MAX + 1];
    struct timespec changed;
    int fd = open_elf(root, m->file, &changed);

    if (fd < 0)
        return false;
    if (report(ret, m->file, fd) && read_segments(ret)) {
        build_id(ret, id);
        if (strcmp(id, m->build_id) == 0 && (*id || is_likely(ret, m, &changed, time_ns))) {
            check_compression(m->file, fd);
            return true;
        }
        *other = true;
    }
    sa_debug_file_close(ret);
    return false;
}

/* Bytes of a build id in hexadecimal letters; 0: it is none. */
static size_t parse_id(const char *letters, unsigned char ret[BUILD_ID_MAX])
{
    size_t bytes = strlen(letters) / 2;

    if (!bytes || bytes > BUILD_ID_MAX || strspn(letters, "0123456789abcdef") != 2 * bytes)
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        char one[3] = {letters[2 * i], letters[2 * i + 1], '\0'};

        ret[i] = (unsigned char)strtoul(one, NULL, 16);
    }
    return bytes;
}

/* The file of a build id, wherever it lies: below /usr/lib/debug, or on a debuginfod server. */
static bool open_id(struct sa_debug_file *ret, const struct sa_file_mapping *m)
{
    unsigned char id[BUILD_ID_MAX];
    size_t bytes = parse_id(m->build_id, id);
    char found[2 * BUILD_ID_MAX + 1];

    if (!bytes)
        return false;
    ret->dwfl = dwfl_begin(&callbacks);
    if (!ret->dwfl)
        return false;
    dwfl_report_begin(ret->dwfl);
    ret->module = dwfl_report_module(ret->dwfl, m->file, 0, INT64_MAX);
    if (ret->module && dwfl_module_report_build_id(ret->module, id, bytes, 0) == 0 &&
        dwfl_report_end(ret->dwfl, NULL, NULL) == 0 && read_segments(ret)) {
        build_id(ret, found);
        if (strcmp(found, m->build_id) == 0)
            return true;
    }
    sa_debug_file_close(ret);
    return false;
}

bool sa_debug_file_open(struct sa_debug_file *ret, const struct sa_file_mapping *mapping,
                        const char *root, int64_t time_ns)
{
    bool other = false;

    memset(ret, 0, sizeof(*ret));
    if (mapping->file[0] != '/')
        return false;
    if ((root && open_path(ret, mapping, root, time_ns, &other)) ||
        open_path(ret, mapping, "", time_ns, &other) || open_id(ret, mapping))
        return true;
    if (other && !*mapping->build_id)
        sa_note("%s may be another file than that of the profile, which has no build "
                "id of it: no lines of it",
                mapping->file);
    else if (other)
        sa_note("%s is not the file of the profile any more (build id %s): no lines of "
                "it",
                mapping->file, mapping->build_id);
    return false;
}

Dwarf *sa_debug_file_dwarf(struct sa_debug_file *file, Dwarf_Addr *ret_bias)
{
    Dwarf *dwarf;

    errno = 0;
    dwarf = dwfl_module_getdwarf(file->module, ret_bias);
    lacks_memory |= !dwarf && errno == ENOMEM;
    return dwarf;
}

bool sa_debug_file_lacks_memory(void)
{
    return lacks_memory;
}

void sa_debug_file_close(struct sa_debug_file *file)
{
    free((void *)(uintptr_t)file->segments);
    if (file->dwfl)
        dwfl_end(file->dwfl);
    memset(file, 0, sizeof(*file));
}

bool sa_debug_file_address(const struct sa_debug_file *file, const struct sa_file_mapping *mapping,
                           uint64_t address, Dwarf_Addr *ret)
{
    uint64_t offset = address - mapping->start + mapping->offset;

    for (size_t i = 0; i < file->segment_count; i++) {
        const GElf_Phdr *segment = &file->segments[i];

        if (offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz) {
            *ret = offset - segment->p_offset + segment->p_vaddr;
            return true;
        }
    }
    return false;
}
