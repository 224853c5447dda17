/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file as a target. Its program headers, read by libelf, say which memory it holds. What the
 * kernel leaves out are pages of files that nobody changed: those are read from the files, if they
 * are still what they were: the first page of each, which the kernel does not leave out, must be
 * the same.
 */
#include "tool/target/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOADS_MAX  (1u << 20)
#define NOTES_MAX  (64u << 20)
#define FIRST_PAGE 4096
#define CLOSED_MAX (1u << 16) /* bytes before a stack that nobody may access, at most */

struct load {
    uint64_t start, bytes, offset; /* bytes: in the file */
    unsigned access;
    bool guarded; /* as in struct sa_area */
};

struct core {
    int fd;
    struct load *loads;
    size_t count;
    /* The file that was opened last for pages that the core lacks. */
    size_t path; /* of its name; SIZE_MAX: none */
    int file;    /* negative: it is not what it was */
};

static bool read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    char *to = buffer;

    while (bytes) {
        ssize_t n = offset <= INT64_MAX ? pread(fd, to, bytes, (off_t)offset) : -1;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* The part of the core with an address, or NULL. */
static const struct load *find_load(const struct core *c, uint64_t address)
{
    size_t low = 0, high = c->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (c->loads[middle].start + c->loads[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->count && c->loads[low].start <= address ? &c->loads[low] : NULL;
}

/* Whether the file is the one that was mapped: by its first page. */
static bool is_same_file(const struct sa_target *t, const struct core *c, const struct sa_row *row,
                         int fd)
{
    char now[FIRST_PAGE], then[FIRST_PAGE];

    for (size_t i = 0; i < t->row_count; i++) {
        const struct load *load;

        if (t->rows[i].path != row->path || t->rows[i].offset)
            continue;
        load = find_load(c, t->rows[i].start);
        return load && load->start + load->bytes - t->rows[i].start >= FIRST_PAGE &&
               read_at(c->fd, then, FIRST_PAGE, load->offset + (t->rows[i].start - load->start)) &&
               read_at(fd, now, FIRST_PAGE, 0) && memcmp(now, then, FIRST_PAGE) == 0;
    }
    return false;
}

static int open_file(struct sa_target *t, struct core *c, const struct sa_row *row)
{
    if (c->path == row->path)
        return c->file;
    if (c->file >= 0)
        close(c->file);
    c->path = row->path;
    c->file = open(sa_target_path(t, row), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->file >= 0 && !is_same_file(t, c, row, c->file)) {
        close(c->file);
        c->file = -1;
    }
    return c->file;
}

static bool core_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    struct core *c = t->data;
    char *to = buffer;

    while (bytes) {
        const struct load *load = find_load(c, address);
        const struct sa_row *row = load ? NULL : sa_target_row(t, address);
        uint64_t end = load ? load->start + load->bytes : row ? row->end : 0, n;

        if (!load && (!row || sa_target_path(t, row)[0] != '/'))
            return false;
        n = end - address < bytes ? end - address : bytes;
        if (!(load ? read_at(c->fd, to, n, load->offset + (address - load->start))
                   : open_file(t, c, row) >= 0 &&
                         read_at(c->file, to, n, row->offset + (address - row->start))))
            return false;
        to += n;
        address += n;
        bytes -= n;
    }
    return true;
}

static bool core_file(struct sa_target *t, const struct sa_row *row, char *ret, size_t cap)
{
    (void)t;
    (void)row;
    (void)ret;
    (void)cap;
    return false;
}

static void core_close(struct sa_target *t)
{
    struct core *c = t->data;

    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    if (c->file >= 0)
        close(c->file);
    free(c->loads);
    free(c);
}

static bool core_area(struct sa_target *t, size_t i, struct sa_area *ret)
{
    const struct core *c = t->data;
    const struct load *load;
    const struct sa_row *row;

    if (i >= c->count)
        return false;
    load = &c->loads[i];
    row = sa_target_row(t, load->start);
    *ret = (struct sa_area){load->start, load->start + load->bytes, load->access,
                            row ? sa_target_path(t, row) : "", load->guarded};
    return true;
}

static const struct sa_target_kind core_kind = {
    .read = core_read, .file = core_file, .area = core_area, .close = core_close};

/* Of the flags of a program header. */
static unsigned access_of(uint32_t flags)
{
    return (flags & PF_R ? SA_ACCESS_READ : 0) | (flags & PF_W ? SA_ACCESS_WRITE : 0) |
           (flags & PF_X ? SA_ACCESS_EXECUTE : 0);
}

static int load_order(const void *a, const void *b)
{
    const struct load *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether nobody could access a part: the kernel writes nothing of it, and gdb writes it as zeros
 * that can only be read. */
static bool is_closed(const struct core *c, const struct load *load)
{
    static const char zeros[FIRST_PAGE];
    char page[FIRST_PAGE];

    if (!load->access)
        return true;
    if (load->access != SA_ACCESS_READ || load->bytes > CLOSED_MAX)
        return false;
    for (uint64_t at = 0; at < load->bytes; at += FIRST_PAGE)
        if (load->bytes - at < FIRST_PAGE || !read_at(c->fd, page, FIRST_PAGE, load->offset + at) ||
            memcmp(page, zeros, FIRST_PAGE) != 0)
            return false;
    return true;
}

/* Parts that are sorted and do not overlap; others are left out, and those that nobody could
 * access. */
static bool read_loads(Elf *elf, struct core *c)
{
    struct load before = {0};
    size_t count, kept = 0;

    if (elf_getphdrnum(elf, &count) != 0 || count > LOADS_MAX)
        return false;
    c->loads = calloc(count + 1, sizeof(*c->loads));
    for (size_t i = 0; c->loads && i < count; i++) {
        GElf_Phdr header;
        uint64_t bytes;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
            continue;
        bytes = header.p_flags ? header.p_filesz : header.p_memsz;
        if (bytes && header.p_vaddr + bytes > header.p_vaddr)
            c->loads[c->count++] = (struct load){header.p_vaddr, bytes, header.p_offset,
                                                 access_of(header.p_flags), false};
    }
    if (!c->loads)
        return false;
    qsort(c->loads, c->count, sizeof(*c->loads), load_order);
    for (size_t i = 0; i < c->count; i++) {
        struct load load = c->loads[i];

        if (before.start + before.bytes > load.start)
            continue;
        load.guarded = load.access & SA_ACCESS_WRITE && before.bytes &&
                       before.start + before.bytes == load.start && is_closed(c, &before);
        before = load;
        if (load.access)
            c->loads[kept++] = load;
    }
    c->count = kept;
    return true;
}

/* Whether a mapping may be of code. gdb's cores lack those that they have no page of. */
static bool may_be_code(Elf *elf, uint64_t start)
{
    size_t count;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;

        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
            start - header.p_vaddr < header.p_memsz)
            return header.p_flags & PF_X;
    }
    return true;
}

/* The note NT_FILE: count, bytes of a page, then start, end and page of each; then the names. */
static bool read_files(struct sa_target *t, Elf *elf, const char *note, size_t bytes)
{
    uint64_t count, page, row[3];
    const char *name;

    if (bytes < 16)
        return true;
    memcpy(&count, note, 8);
    memcpy(&page, note + 8, 8);
    if (count > (bytes - 16) / sizeof(row))
        return true;
    name = note + 16 + count * sizeof(row);
    for (uint64_t i = 0; i < count; i++) {
        size_t room = (size_t)(note + bytes - name), length = strnlen(name, room);

        if (length == room)
            break;
        memcpy(row, note + 16 + i * sizeof(row), sizeof(row));
        if (row[0] < row[1] &&
            !sa_target_add_row(t, row[0], row[1], row[2] * page,
                               may_be_code(elf, row[0]) ? SA_ACCESS_EXECUTE : 0, name) &&
            errno == ENOMEM)
            return false;
        name += length + 1;
    }
    return true;
}

static bool read_note(struct sa_target *t, Elf *elf, const GElf_Nhdr *note, const char *body)
{
    if (note->n_type == NT_FILE)
        return read_files(t, elf, body, note->n_descsz);
    if (note->n_type == NT_AUXV)
        sa_target_set_auxiliary(t, body, note->n_descsz);
    if (note->n_type == NT_PRPSINFO && note->n_descsz >= sizeof(struct elf_prpsinfo)) {
        struct elf_prpsinfo info;

        memcpy(&info, body, sizeof(info));
        t->pid = info.pr_pid;
    }
    return sa_threads_add_note(&t->threads, note->n_type, body, note->n_descsz);
}

static bool read_notes(struct sa_target *t, Elf *elf)
{
    size_t count;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        GElf_Nhdr note;
        Elf_Data *data;
        size_t at = 0, next, name, body;

        if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE ||
            header.p_filesz > NOTES_MAX)
            continue;
        data = elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz, ELF_T_NHDR);
        while (data && (next = gelf_getnote(data, at, &note, &name, &body)) > 0) {
            if (!read_note(t, elf, &note, (const char *)data->d_buf + body))
                return false;
            at = next;
        }
    }
    return true;
}

static bool is_core(Elf *elf)
{
    GElf_Ehdr header;

    return elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
           header.e_type == ET_CORE && header.e_ident[EI_CLASS] == ELFCLASS64 &&
           header.e_ident[EI_DATA] == ELFDATA2LSB;
}

static void read_core(struct sa_target *t, struct core *c, const char *path, struct sa_error *e)
{
    Elf *elf;

    elf_version(EV_CURRENT);
    elf = elf_begin(c->fd, ELF_C_READ, NULL);
    if (!is_core(elf))
        sa_error_set(e, SA_EXIT_NONE, "%s: this is no core file of a 64-bit process", path);
    else if (!read_loads(elf, c) || !read_notes(t, elf))
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: its headers make no sense", path);
    elf_end(elf);
}

bool sa_target_open_core(struct sa_target *t, const char *path, struct sa_error *e)
{
    struct core *c = calloc(1, sizeof(*c));
    struct stat s;

    memset(t, 0, sizeof(*t));
    if (!c) {
        sa_error_set(e, SA_EXIT_FAILED, "%s: no memory", path);
        return false;
    }
    t->kind = &core_kind;
    t->data = c;
    c->path = SIZE_MAX;
    c->file = -1;
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0 || fstat(c->fd, &s) != 0) {
        sa_error_set(e, errno == EACCES ? SA_EXIT_REFUSED : SA_EXIT_NONE, "%s: %s", path,
                     strerror(errno));
    } else {
        t->time_ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
        read_core(t, c, path, e);
    }
    if (e->code)
        sa_target_close(t);
    return !e->code;
}
