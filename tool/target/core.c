/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file as a target. Its program headers say which memory it holds. What the kernel leaves
 * out are pages of files that nobody changed: those are read from the files, if they are still what
 * they were: the first page of each, which the kernel does not leave out, must be the same. The
 * files are looked for below the system root first, if one is set, as the process may have run in a
 * container.
 */
#include "tool/target/core_headers.h"
#include "tool/target/core_loaded.h"
#include "tool/target/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PAGE 4096
#define PATH_BYTES 4352
#define CLOSED_MAX (1u << 16) /* bytes before a stack that nobody may access, at most */

/* Written by sa_target_set_sysroot, before any core is opened. */
static const char *sysroot;

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
               sa_core_read_at(c->fd, then, FIRST_PAGE,
                               load->offset + (t->rows[i].start - load->start)) &&
               sa_core_read_at(fd, now, FIRST_PAGE, 0) && memcmp(now, then, FIRST_PAGE) == 0;
    }
    return false;
}

/* The file of a mapping below a folder, if it is the one that was mapped; else -1. */
static int open_below(struct sa_target *t, const struct core *c, const char *root,
                      const struct sa_row *row)
{
    char path[PATH_BYTES];
    int fd = snprintf(path, sizeof(path), "%s%s", root, sa_target_path(t, row)) < (int)sizeof(path)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                 : -1;

    if (fd >= 0 && is_same_file(t, c, row, fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int open_file(struct sa_target *t, struct core *c, const struct sa_row *row)
{
    if (c->path == row->path)
        return c->file;
    if (c->file >= 0)
        close(c->file);
    c->path = row->path;
    c->file = sysroot ? open_below(t, c, sysroot, row) : -1;
    if (c->file < 0)
        c->file = open_below(t, c, "", row);
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
        if (!(load ? sa_core_read_at(c->fd, to, n, load->offset + (address - load->start))
                   : open_file(t, c, row) >= 0 &&
                         sa_core_read_at(c->file, to, n, row->offset + (address - row->start))))
            return false;
        to += n;
        address += n;
        bytes -= n;
    }
    return true;
}

static bool core_file(struct sa_target *t, const struct sa_row *row, char *ret, size_t cap)
{
    return sysroot && snprintf(ret, cap, "%s%s", sysroot, sa_target_path(t, row)) < (int)cap &&
           access(ret, R_OK) == 0;
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
        if (load->bytes - at < FIRST_PAGE ||
            !sa_core_read_at(c->fd, page, FIRST_PAGE, load->offset + at) ||
            memcmp(page, zeros, FIRST_PAGE) != 0)
            return false;
    return true;
}

/* Parts that are sorted and do not overlap; others are left out, and those that nobody could
 * access. False: no memory. */
static bool read_loads(const struct sa_core_headers *h, struct core *c)
{
    struct load before = {0};
    size_t kept = 0;

    c->loads = calloc(h->count + 1, sizeof(*c->loads));
    if (!c->loads)
        return false;
    for (size_t i = 0; i < h->count; i++) {
        const Elf64_Phdr *p = &h->of[i];
        uint64_t bytes = p->p_flags ? p->p_filesz : p->p_memsz;

        if (p->p_type == PT_LOAD && bytes && p->p_vaddr + bytes > p->p_vaddr)
            c->loads[c->count++] =
                (struct load){p->p_vaddr, bytes, p->p_offset, access_of(p->p_flags), false};
    }
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

/* What is needed while notes are read. */
struct notes {
    struct sa_target *target;
    const struct sa_core_headers *headers;
    size_t last; /* the segment that was found last: both lists are mostly in order */
};

/* Whether a mapping may be of code. gdb's cores lack those that they have no page of. */
static bool may_be_code(struct notes *n, uint64_t start)
{
    const struct sa_core_headers *h = n->headers;

    for (size_t i = 0; i < h->count; i++) {
        size_t at = (n->last + i) % h->count;
        const Elf64_Phdr *p = &h->of[at];

        if (p->p_type == PT_LOAD && start - p->p_vaddr < p->p_memsz) {
            n->last = at;
            return p->p_flags & PF_X;
        }
    }
    return true;
}

/* The note NT_FILE: count, bytes of a page, then start, end and page of each; then the names. */
static bool read_files(struct notes *n, const char *note, size_t bytes)
{
    struct sa_target *t = n->target;
    uint64_t count, page, row[3];
    const char *name;

    if (bytes < 16)
        return false;
    memcpy(&count, note, 8);
    memcpy(&page, note + 8, 8);
    if (count > (bytes - 16) / sizeof(row))
        return false;
    name = note + 16 + count * sizeof(row);
    for (uint64_t i = 0; i < count; i++) {
        size_t room = (size_t)(note + bytes - name), length = strnlen(name, room);

        if (length == room)
            break;
        memcpy(row, note + 16 + i * sizeof(row), sizeof(row));
        if (row[0] < row[1] &&
            !sa_target_add_row(t, row[0], row[1], row[2] * page,
                               may_be_code(n, row[0]) ? SA_ACCESS_EXECUTE : 0, name) &&
            errno == ENOMEM)
            return false;
        name += length + 1;
    }
    return true;
}

static bool read_note(void *arg, uint32_t type, const char *body, size_t bytes)
{
    struct notes *n = arg;
    struct sa_target *t = n->target;

    if (type == NT_FILE)
        return read_files(n, body, bytes);
    if (type == NT_AUXV)
        sa_target_set_auxiliary(t, body, bytes);
    if (type == NT_PRPSINFO && bytes >= sizeof(struct elf_prpsinfo)) {
        struct elf_prpsinfo info;

        memcpy(&info, body, sizeof(info));
        t->pid = info.pr_pid;
    }
    return sa_threads_add_note(&t->threads, type, body, bytes);
}

/* Says what the core lacks, if anything. */
static void set_lack(struct sa_target *t, const struct sa_core_headers *h)
{
    if (h->bytes < h->wanted)
        snprintf(t->lack, sizeof(t->lack), "it is cut: it has %llu of %llu bytes",
                 (unsigned long long)h->bytes, (unsigned long long)h->wanted);
    else if (!t->row_count)
        snprintf(t->lack, sizeof(t->lack),
                 "it lacks the list of mapped files (note NT_FILE), and that of the loader");
    else if (!t->threads.count)
        snprintf(t->lack, sizeof(t->lack),
                 "it lacks the registers of its threads (note NT_PRSTATUS)");
}

static void read_core(struct sa_target *t, struct core *c, const char *path, struct sa_error *e)
{
    struct sa_core_headers h;
    struct notes notes = {t, &h, 0};

    if (!sa_core_headers_read(c->fd, path, &h, e))
        return;
    if (!read_loads(&h, c))
        sa_error_set(e, SA_EXIT_FAILED, "%s: there is no memory for its segments", path);
    else
        sa_core_notes(c->fd, path, &h, read_note, &notes, e);
    if (!e->code && !t->row_count)
        sa_core_add_loaded(t, path);
    set_lack(t, &h);
    sa_core_headers_free(&h);
}

void sa_target_set_sysroot(const char *folder)
{
    sysroot = folder;
}

const char *sa_target_sysroot(void)
{
    return sysroot;
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
