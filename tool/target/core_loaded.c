/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings by the loader's list; see core_loaded.h. The auxiliary vector leads to the program's
 * headers, these to its dynamic section, and that to the list of the loader (link.h). Nothing there
 * is trusted.
 */
#include "tool/target/core_loaded.h"

#include "tool/base/array.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096
#define HEADERS_MAX    64
#define DYNAMIC_MAX    1024 /* entries */
#define OBJECTS_MAX    8192
#define PAGE_MIN       4096

/* As the loader has them: struct r_debug from its list on, struct link_map. */
struct list {
    uint64_t map;
};

struct object {
    uint64_t base, name, dynamic, next;
};

#define LIST_OFFSET 8 /* of r_map in struct r_debug */

struct found {
    struct sa_row row;
    char *name;
};

struct loaded {
    struct sa_target *target;
    uint64_t page;
    struct found *rows;
    size_t count, cap;
};

/* A string of the target; empty: it cannot be read, or is too long. */
static void read_name(struct sa_target *t, uint64_t at, char ret[NAME_MAX_BYTES])
{
    for (size_t i = 0; i < NAME_MAX_BYTES; i++)
        if (!sa_target_read(t, at + i, &ret[i], 1))
            break;
        else if (!ret[i])
            return;
    ret[0] = '\0';
}

/* Adds the mappings of an object by its program headers. */
static void add_object(struct loaded *l, uint64_t base, const Elf64_Phdr *headers, unsigned count,
                       const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        const Elf64_Phdr *p = &headers[i];
        uint64_t start = base + p->p_vaddr, end = start + p->p_filesz;
        struct found f = {.row = {.start = start & -l->page,
                                  .end = (end + l->page - 1) & -l->page,
                                  .offset = p->p_offset & -l->page,
                                  .access = p->p_flags & PF_X ? SA_ACCESS_EXECUTE : 0}};

        if (p->p_type != PT_LOAD || !p->p_filesz || f.row.start >= f.row.end ||
            !sa_array_room(&l->rows, &l->cap, l->count + 1, sizeof(*l->rows), 64))
            continue;
        f.name = strdup(name);
        if (f.name)
            l->rows[l->count++] = f;
    }
}

/* A library, whose first page is where it was loaded. */
static void add_library(struct loaded *l, uint64_t base, const char *name)
{
    Elf64_Phdr headers[HEADERS_MAX];
    Elf64_Ehdr header;

    if (name[0] == '/' && sa_target_read(l->target, base, &header, sizeof(header)) &&
        memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phnum <= HEADERS_MAX &&
        header.e_phentsize == sizeof(*headers) && header.e_phoff < PAGE_MIN &&
        sa_target_read(l->target, base + header.e_phoff, headers,
                       header.e_phnum * sizeof(*headers)))
        add_object(l, base, headers, header.e_phnum, name);
}

static void add_libraries(struct loaded *l, uint64_t dynamic)
{
    struct list list = {0};
    struct object o;
    char name[NAME_MAX_BYTES];
    Elf64_Dyn entry;

    for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
        if (!sa_target_read(l->target, dynamic + i * sizeof(entry), &entry, sizeof(entry)) ||
            entry.d_tag == DT_NULL)
            return;
        if (entry.d_tag == DT_DEBUG)
            break;
    }
    if (entry.d_tag != DT_DEBUG ||
        !sa_target_read(l->target, entry.d_un.d_ptr + LIST_OFFSET, &list, sizeof(list)))
        return;
    for (unsigned i = 0; list.map && i < OBJECTS_MAX; i++, list.map = o.next) {
        if (!sa_target_read(l->target, list.map, &o, sizeof(o)))
            return;
        read_name(l->target, o.name, name);
        add_library(l, o.base, name);
    }
}

/* The path of the program, which the vector may have relative to a folder that is not known. */
static void find_program(struct sa_target *t, const char *core, char ret[2 * NAME_MAX_BYTES])
{
    char name[NAME_MAX_BYTES], *folder, *slash;

    read_name(t, t->program_name, name);
    folder = name[0] == '/' ? NULL : realpath(core, NULL);
    slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        *slash = '\0';
    snprintf(ret, 2 * NAME_MAX_BYTES, "%s%s%s", slash ? folder : "", name[0] == '/' ? "" : "/",
             strncmp(name, "./", 2) == 0 ? name + 2 : name);
    free(folder);
}

static int by_start(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->row.start < y->row.start ? -1 : x->row.start > y->row.start;
}

void sa_core_add_loaded(struct sa_target *t, const char *core)
{
    struct loaded l = {.target = t, .page = t->page_bytes ? t->page_bytes : PAGE_MIN};
    uint64_t base = 0, dynamic = 0;
    unsigned count = t->program_header_count;
    Elf64_Phdr headers[HEADERS_MAX];
    char name[2 * NAME_MAX_BYTES];

    if (!count || count > HEADERS_MAX || (l.page & (l.page - 1)) ||
        !sa_target_read(t, t->program_headers, headers, count * sizeof(*headers)))
        return;
    for (unsigned i = 0; i < count; i++)
        if (headers[i].p_type == PT_PHDR)
            base = t->program_headers - headers[i].p_vaddr;
    for (unsigned i = 0; i < count; i++)
        if (headers[i].p_type == PT_DYNAMIC)
            dynamic = base + headers[i].p_vaddr;
    find_program(t, core, name);
    add_object(&l, base, headers, count, name);
    if (dynamic)
        add_libraries(&l, dynamic);
    if (l.count)
        qsort(l.rows, l.count, sizeof(*l.rows), by_start);
    for (size_t i = 0; i < l.count; i++) {
        const struct sa_row *row = &l.rows[i].row;

        sa_target_add_row(t, row->start, row->end, row->offset, row->access, l.rows[i].name);
        free(l.rows[i].name);
    }
    free(l.rows);
}
