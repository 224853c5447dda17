/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and cores have in common; see target.h. */
#include "tool/target/target.h"

#include "tool/base/array.h"
#include "tool/base/units.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

bool sa_source_parse(const char *what, struct sa_source *ret, struct sa_error *e)
{
    uint64_t number = 0;

    *ret = (struct sa_source){.name = what};
    if (!*what || what[strspn(what, "0123456789")])
        return true;
    if (!sa_units_number(what, INT32_MAX, &number) || !number)
        sa_error_set(e, SA_EXIT_NONE, "%s: there is no such process", what);
    ret->pid = (pid_t)number;
    return !e->code;
}

bool sa_target_open(struct sa_target *t, struct sa_source source, struct sa_error *e)
{
    return source.pid ? sa_target_open_process(t, source.pid, e)
                      : sa_target_open_core(t, source.name, e);
}

void sa_target_close(struct sa_target *t)
{
    if (t->kind)
        t->kind->close(t);
    free(t->rows);
    free(t->names);
    sa_threads_free(&t->threads);
    memset(t, 0, sizeof(*t));
}

size_t sa_target_read_many(struct sa_target *t, const struct sa_piece *pieces, size_t count)
{
    size_t i = 0;

    if (count && t->kind->read_many)
        return t->kind->read_many(t, pieces, count);
    while (i < count && sa_target_read(t, pieces[i].address, pieces[i].buffer, pieces[i].bytes))
        i++;
    return i;
}

static bool add_name(struct sa_target *t, const char *name, size_t *ret)
{
    size_t bytes = strlen(name) + 1;

    if (!t->names_used && *name && !add_name(t, "", ret))
        return false;
    if (t->names_used && !*name) {
        *ret = 0;
        return true;
    }
    if (!sa_array_room(&t->names, &t->names_cap, t->names_used + bytes, 1, 4096))
        return false;
    memcpy(t->names + t->names_used, name, bytes);
    *ret = t->names_used;
    t->names_used += bytes;
    return true;
}

bool sa_target_add_row(struct sa_target *t, uint64_t start, uint64_t end, uint64_t offset,
                       unsigned access, const char *path)
{
    const struct sa_row *last = t->row_count ? &t->rows[t->row_count - 1] : NULL;
    struct sa_row row = {.start = start, .end = end, .offset = offset, .access = access};

    if (start >= end || (last && start < last->end) || t->row_count >= SA_TARGET_ROWS_MAX)
        return false;
    if (last && strcmp(sa_target_path(t, last), path) == 0)
        row.path = last->path;
    else if (!add_name(t, path, &row.path))
        return false;
    if (!sa_array_room(&t->rows, &t->row_cap, t->row_count + 1, sizeof(row), 64))
        return false;
    t->rows[t->row_count++] = row;
    return true;
}

size_t sa_target_area_behind(struct sa_target *t, uint64_t address, struct sa_area *ret)
{
    size_t low = 0, high = SA_TARGET_ROWS_MAX;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->kind->area(t, middle, ret) && ret->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct sa_row *sa_target_row(const struct sa_target *t, uint64_t address)
{
    size_t low = 0, high = t->row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->rows[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->row_count && t->rows[low].start <= address ? &t->rows[low] : NULL;
}

void sa_target_set_auxiliary(struct sa_target *t, const void *vector, size_t bytes)
{
    Elf64_auxv_t entry;

    for (size_t at = 0; at + sizeof(entry) <= bytes; at += sizeof(entry)) {
        memcpy(&entry, (const char *)vector + at, sizeof(entry));
        if (entry.a_type == AT_NULL)
            break;
        if (entry.a_type == AT_PHDR)
            t->program_headers = entry.a_un.a_val;
        if (entry.a_type == AT_PHNUM)
            t->program_header_count = (unsigned)entry.a_un.a_val;
        if (entry.a_type == AT_EXECFN)
            t->program_name = entry.a_un.a_val;
        if (entry.a_type == AT_PAGESZ)
            t->page_bytes = entry.a_un.a_val;
        if (entry.a_type == AT_SYSINFO_EHDR)
            t->vdso = entry.a_un.a_val;
    }
}
