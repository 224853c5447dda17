/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to look for pointers; see roots.h.
 *
 * The library's records lie in anonymous mappings, which the kernel merges with each other, and
 * which do not say whose they are. A mapping with one of the records that are known (those of spans
 * and leaves of the map, caches) is the library's. If such mappings together are longer than the
 * memory that the library counts as its own, the kernel has merged one with memory of the program:
 * then only pages of 4 KiB with known records are left out, and leaks may stay unseen.
 *
 * A thread may be stopped within the library while that makes, moves or frees a block. Then it may
 * have only the record of the block's span, in a general register or on its stack, so a pointer to
 * such a record counts there as one to the block. Elsewhere it does not: the library's own lists
 * have such pointers, and registers of vectors keep what was copied through them.
 */
#include "tool/leaks/roots.h"

#include "tool/leaks/dead_stacks.h"

#include <string.h>

#define PAGE        4096
#define STACK_BYTES 65536 /* from the stack pointer on: more than the library's frames take */

struct roots {
    struct sa_mark *mark;
    const struct sa_heap *heap;
    struct sa_target *target;
    const struct sa_threads *threads;
    bool by_page; /* records are left out by pages, not by mappings */
    struct sa_holes holes;
};

/* Memory without a file, or with one that only this process and its children know. */
static bool is_anonymous(const struct sa_area *a)
{
    static const char *const names[] = {"/dev/zero", "/memfd:", "/SYSV", "/dev/shm/",
                                        "/anon_hugepage"};

    if (!a->path[0] || strncmp(a->path, "[heap", 5) == 0 || strncmp(a->path, "[stack", 6) == 0 ||
        strncmp(a->path, "[anon", 5) == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(a->path, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* What the loader has made read-only after it was written lies before what can be written. */
static bool is_before_data(struct roots *r, size_t i, const struct sa_area *a)
{
    struct sa_area next;

    return a->path[0] == '/' && !(a->access & (SA_ACCESS_EXECUTE | SA_ACCESS_SHARED)) &&
           r->target->kind->area(r->target, i + 1, &next) && next.start == a->end &&
           next.access & SA_ACCESS_WRITE && strcmp(next.path, a->path) == 0;
}

static bool may_have_pointers(struct roots *r, size_t i, const struct sa_area *a)
{
    if (!(a->access & SA_ACCESS_READ))
        return false;
    if (is_anonymous(a))
        return a->access & SA_ACCESS_WRITE || !(a->access & SA_ACCESS_SHARED);
    return (a->path[0] == '/' && a->access & SA_ACCESS_WRITE && !(a->access & SA_ACCESS_SHARED)) ||
           is_before_data(r, i, a);
}

static bool in_window(const struct roots *r, const struct sa_area *a)
{
    return a->start >= r->heap->window_start && a->end <= r->heap->window_end;
}

static bool has_records(const struct roots *r, const struct sa_area *a)
{
    return is_anonymous(a) && sa_page_set_meets(&r->heap->records, a->start, a->end);
}

/* Compares the mappings with records, and those of guarded blocks, with what the library says. */
static void choose_way(struct roots *r, const struct sa_table *table, struct sa_error *e)
{
    uint64_t vm = sa_table_variable(table, "sa_vm", e), used, reserved, sum = 0;
    struct sa_field used_field = sa_table_field(table, "struct sa_vm", "used_bytes", e);
    struct sa_field reserved_field = sa_table_field(table, "struct sa_vm", "reserved_bytes", e);
    uint64_t slots = r->heap->window_start +
                     (r->heap->window_end - r->heap->window_start) / 4 * 3; /* see guarded.c */
    struct sa_area area;

    if (e->code)
        return;
    for (size_t i = 0; r->target->kind->area(r->target, i, &area); i++)
        if (in_window(r, &area) ? area.start >= slots : has_records(r, &area))
            sum += area.end - area.start;
    r->by_page = !sa_field_read(r->target, vm, used_field, &used) ||
                 !sa_field_read(r->target, vm, reserved_field, &reserved) ||
                 sum + r->heap->table_bytes > used + reserved;
}

static bool add_holes(struct roots *r, const struct sa_table *table, struct sa_error *e)
{
    uint64_t hot = sa_table_variable(table, "sa_hot", e);
    uint64_t hot_bytes = sa_table_constant(table, "struct sa_hot", e);
    uint64_t map = sa_table_variable(table, "sa_pagemap", e);
    uint64_t map_bytes = sa_table_constant(table, "struct sa_pagemap", e);

    if (e->code)
        return false;
    if (sa_holes_add(&r->holes, r->heap->window_start, r->heap->window_end) &&
        sa_holes_add(&r->holes, hot, hot + hot_bytes) &&
        sa_holes_add(&r->holes, map, map + map_bytes) &&
        sa_stacks_find_dead(r->target, r->threads, &r->holes)) {
        sa_holes_sort(&r->holes);
        return true;
    }
    sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the search of pointers");
    return false;
}

/* Words within one page, without those of the heap and of records. */
static void mark_page(struct roots *r, uint64_t address, const uint64_t *words, size_t count)
{
    if (!sa_heap_span(r->heap, address) &&
        !(r->by_page && sa_page_set_meets(&r->heap->records, address, address + 1)))
        sa_mark_words(r->mark, words, count);
}

static bool mark_words(void *arg, uint64_t address, const uint64_t *words, size_t count)
{
    struct roots *r = arg;

    while (count) {
        size_t n = (PAGE - address % PAGE) / sizeof(*words);

        n = n < count ? n : count;
        mark_page(r, address, words, n);
        address += n * sizeof(*words);
        words += n;
        count -= n;
    }
    return true;
}

/* A mapping, without the holes in it. */
static void mark_area(struct roots *r, const struct sa_area *a)
{
    uint64_t at = a->start;

    while (at < a->end) {
        const struct sa_hole *hole = sa_holes_find(&r->holes, at, a->end);
        uint64_t end = hole ? hole->start : a->end;

        if (end > at) {
            sa_scan_range(r->mark->scan, at, end, mark_words, r);
            sa_mark_run(r->mark);
        }
        at = hole ? hole->end : a->end;
    }
}

/* Words that may point to records of spans. */
static bool mark_records(void *arg, uint64_t address, const uint64_t *words, size_t count)
{
    struct roots *r = arg;
    struct sa_block block;

    (void)address;
    for (size_t i = 0; i < count; i++)
        if (sa_heap_block_of_record(r->heap, words[i], &block))
            sa_mark_block(r->mark, &block);
    return true;
}

static void mark_records_of_threads(struct roots *r)
{
    const struct sa_threads *threads = r->threads;
    struct sa_area area;

    mark_records(r, 0, threads->general.words, threads->general.count);
    for (size_t i = 0; i < threads->count; i++) {
        uint64_t sp = threads->threads[i].sp, start = sp - SA_RED_ZONE, end;
        size_t number = sa_target_area_behind(r->target, sp, &area);

        if (!r->target->kind->area(r->target, number, &area) || area.start > sp)
            continue;
        start = start > area.start && start < sp ? start : area.start;
        end = area.end - sp > STACK_BYTES ? sp + STACK_BYTES : area.end;
        sa_scan_range(r->mark->scan, start, end, mark_records, r);
    }
}

static void mark_all(struct roots *r)
{
    const struct sa_threads *threads = r->threads;
    struct sa_area area;

    sa_mark_words(r->mark, threads->general.words, threads->general.count);
    sa_mark_words(r->mark, threads->vectors.words, threads->vectors.count);
    mark_records_of_threads(r);
    for (size_t i = 0; r->target->kind->area(r->target, i, &area); i++)
        if (may_have_pointers(r, i, &area) && (r->by_page || !has_records(r, &area)))
            mark_area(r, &area);
    sa_mark_run(r->mark);
}

bool sa_roots_mark(struct sa_mark *m, const struct sa_table *table,
                   const struct sa_threads *threads, struct sa_error *e)
{
    struct roots r = {.mark = m, .heap = m->heap, .target = m->heap->target, .threads = threads};

    choose_way(&r, table, e);
    if (add_holes(&r, table, e))
        mark_all(&r);
    sa_holes_free(&r.holes);
    return !e->code;
}
