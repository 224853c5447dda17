/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of mixed spans: spans join and are cut, so that each page has a part of a block, and
 * free runs go across pages. See mixed_spans.c, and mixed_internal.h for the invariants.
 */
#include "alloc/base/fatal.h"
#include "alloc/middle/mixed_internal.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"

#include "alloc/base/layout.h"

#include <string.h>

/* Neighbours are joined if they begin in the same range of this many bytes. Longer spans save
 * little, and each change looks at all pages of a span: replacing blocks of 1 to 8 KiB takes twice
 * as long if a span may fill a hugepage. */
#define JOIN_SHIFT 18

/* Units of each of the objects that a mixed span counts in its record for profiles. */
#define NOTED_UNITS 16

SA_LAYOUT_USED struct mixed_state sa_mixed_state;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_mixed_state", sa_mixed_state, stats),
    SA_LAYOUT_STATE("sa_mixed_state", sa_mixed_state, objects),
};
SA_LAYOUT_ADDRESS(sa_mixed_state);

static void mixed_link(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    m->bin = sa_mixed_bin_of(m->longest);
    SA_DCHECK(m->bin < SA_MIXED_BINS);
    m->prev = NULL;
    m->next = sa_mixed_state.bins[m->bin];
    if (m->next)
        m->next->prev = m;
    else
        sa_mixed_state.filled[m->bin / 64] |= 1ull << m->bin % 64;
    sa_mixed_state.bins[m->bin] = m;
}

static void mixed_unlink(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    if (m->next)
        m->next->prev = m->prev;
    if (m->prev)
        m->prev->next = m->next;
    else if (!(sa_mixed_state.bins[m->bin] = m->next))
        sa_mixed_state.filled[m->bin / 64] &= ~(1ull << m->bin % 64);
}

/*
 * Writes what profiles read of a mixed span: units in use of all units, as objects. The fields are
 * too short for a span of more than 16 pages.
 */
static void mixed_note_used(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    sa_store_relaxed(&m->span->objects, (uint16_t)(m->units / NOTED_UNITS));
    sa_store_relaxed(&m->span->live, (uint16_t)((m->used + NOTED_UNITS - 1) / NOTED_UNITS));
}

void sa_mixed_changed(struct sa_mixed *m, size_t longest)
{
    m->longest = (uint32_t)longest;
    mixed_note_used(m);
    if (sa_mixed_bin_of(longest) == m->bin)
        return;
    mixed_unlink(m);
    mixed_link(m);
}

struct sa_mixed *sa_mixed_record_new(void)
{
    struct sa_mixed *m = sa_mixed_state.unused;

    if (!m)
        return sa_arena_alloc(sizeof(*m), 8);
    sa_mixed_state.unused = m->next;
    return m;
}

static void record_drop(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    m->next = sa_mixed_state.unused;
    sa_mixed_state.unused = m;
}

struct sa_mixed_page *sa_mixed_table(uintptr_t address, bool make)
{
    struct sa_mixed_page **table;

    if (address >> SA_HOME_SHIFT != SA_HOME_START >> SA_HOME_SHIFT)
        return NULL;
    table = &sa_mixed_state.tables[(address - SA_HOME_START) >> SA_HUGE_SHIFT];
    if (!*table && make)
        sa_store_release(table, sa_arena_alloc(SA_HUGE_PAGES * (sizeof(**table) + sizeof(uint32_t) +
                                                                sizeof(struct sa_mixed_host)),
                                               SA_CACHELINE));
    return *table ? *table + (address >> SA_PAGE_SHIFT) % SA_HUGE_PAGES : NULL;
}

/* The numbers of `runs` for the pages from an address on, which has bitmaps. */
static uint32_t *runs_from(uintptr_t address) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_page *table = sa_mixed_table(address & ~(SA_HUGE_BYTES - 1), false);

    return (uint32_t *)(table + SA_HUGE_PAGES) + (address >> SA_PAGE_SHIFT) % SA_HUGE_PAGES;
}

struct sa_mixed_host *sa_mixed_host(uintptr_t address)
{
    uint32_t *runs = runs_from(address & ~(SA_HUGE_BYTES - 1));

    return (struct sa_mixed_host *)(runs + SA_HUGE_PAGES) +
           (address >> SA_PAGE_SHIFT) % SA_HUGE_PAGES;
}

size_t sa_mixed_longest_on(struct sa_mixed *m, size_t page)
{
    size_t longest = 0;

    for (size_t w = page * SA_MIXED_PAGE_WORDS; w < (page + 1) * SA_MIXED_PAGE_WORDS; w++)
        for (uint64_t begins = sa_mixed_run_begins(m->pages, w); begins; begins &= begins - 1) {
            size_t begin = w * 64 + sa_lowest_bit(begins);

            longest = sa_max(longest, sa_mixed_next_first(m->pages, m->units, begin) - begin);
        }
    m->runs[page] = (uint32_t)longest;
    return longest;
}

/* Counts the units in use, and finds the longest free run of the span and of each page. */
static void mixed_measure(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_walk walk = {.pages = m->pages, .units = m->units};
    size_t longest = 0, free = 0;

    memset(m->runs, 0, m->units / SA_MIXED_PAGE_UNITS * sizeof(*m->runs));
    while (sa_mixed_run(&walk)) {
        longest = sa_max(longest, walk.end - walk.begin);
        mixed_note_run(m, walk.begin, walk.end);
        free += walk.end - walk.begin;
    }
    m->longest = (uint32_t)longest;
    m->used = m->units - (uint32_t)free;
}

void sa_mixed_enter(struct sa_mixed *m, struct sa_span *s)
{
    m->span = s;
    m->pages = sa_mixed_table(s->start, false);
    m->runs = runs_from(s->start);
    m->units = (uint32_t)(s->pages * SA_MIXED_PAGE_UNITS);
    mixed_measure(m);
    mixed_link(m);
    sa_mixed_state.stats.spans++;
    sa_count_add(&sa_mixed_state.stats.bytes, sa_span_bytes(s));
    s->mixed = m;
    sa_store_relaxed(&s->pins, 0);
    s->zeroed = false;
    s->list = 0;
    mixed_note_used(m);
    sa_store_relaxed(&s->cls, 0);
    sa_store_relaxed(&s->state, SA_SPAN_MIXED);
    sa_pagemap_set_pages(s);
    sa_mixed_returns_grown();
}

void sa_mixed_leave(struct sa_mixed *m)
{
    mixed_unlink(m);
    sa_mixed_state.stats.spans--;
    sa_count_add(&sa_mixed_state.stats.bytes, -sa_span_bytes(m->span));
}

/* Adds a span without blocks to those that the caller gives to the page heap. */
static void mixed_give(struct sa_span *s, struct sa_span **empty) SA_REQUIRES(SA_RANK_MIXED)
{
    sa_store_relaxed(&s->state, SA_SPAN_MOVING);
    s->prev = NULL;
    s->zeroed = false;
    s->next = *empty;
    *empty = s;
    sa_mixed_state.stats.returned_bytes += sa_span_bytes(s);
}

struct sa_span *sa_mixed_neighbour(const struct sa_span *s, uintptr_t address)
{
    struct sa_span *n = sa_pagemap_find(address);

    return n && sa_load_relaxed(&n->state) == SA_SPAN_MIXED &&
                   n->start >> JOIN_SHIFT == s->start >> JOIN_SHIFT
               ? n
               : NULL;
}

/* Makes one span of two neighbours. */
static void join_next(struct sa_span *s, struct sa_span *next) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed *m = s->mixed, *of_next = next->mixed;
    size_t pages = next->pages, begin, end;
    uint32_t joint = m->units;

    if (!sa_page_heap_join(&sa_page_heap_ordinary, s, next))
        return;
    mixed_unlink(of_next);
    sa_mixed_state.stats.spans--;
    mixed_unlink(m);
    m->units += (uint32_t)(pages * SA_MIXED_PAGE_UNITS);
    m->used += of_next->used;
    m->longest = (uint32_t)sa_max(m->longest, of_next->longest);
    begin = sa_mixed_end_before(m->pages, joint);
    end = sa_mixed_next_first(m->pages, m->units, joint);
    mixed_note_run(m, begin, end);
    m->longest = (uint32_t)sa_max(m->longest, end - begin);
    record_drop(of_next);
    mixed_link(m);
    mixed_note_used(m);
    sa_pagemap_set_pages(s);
}

void sa_mixed_join(struct sa_span *s)
{
    struct sa_span *n = sa_mixed_neighbour(s, sa_span_end(s));

    if (n)
        join_next(s, n);
    n = sa_mixed_neighbour(s, s->start - 1);
    if (n)
        join_next(n, s);
}

#define PAGE_WORDS (SA_HUGE_PAGES / 64) /* of a bitmap of pages */

static bool page_has(const uint64_t bits[PAGE_WORDS], size_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

/* Finds the pages that have blocks. A step of pages has them if one of its pages has. */
static void mixed_used_pages(struct sa_mixed *m, uint64_t ret[PAGE_WORDS])
    SA_REQUIRES(SA_RANK_MIXED)
{
    size_t step = sa_vm.page_step, pages = m->units / SA_MIXED_PAGE_UNITS;
    bool inside = false;

    memset(ret, 0, PAGE_WORDS * sizeof(*ret));
    for (size_t page = 0; page < pages; page += step) {
        bool used = false;

        for (size_t i = 0; i < step; i++)
            used |= sa_mixed_page_is_used(&m->pages[page + i], &inside);
        for (size_t i = 0; i < step; i++)
            ret[(page + i) / 64] |= (uint64_t)used << (page + i) % 64;
    }
}

/* The first page of the run of equal bits that ends before `end`. */
static size_t run_begin(const uint64_t bits[PAGE_WORDS], size_t end)
{
    bool bit = page_has(bits, end - 1);

    do
        end--;
    while (end && page_has(bits, end - 1) == bit);
    return end;
}

void sa_mixed_cut(struct sa_mixed *m, struct sa_span **empty)
{
    struct sa_span *s = m->span, *part, *next;
    uint64_t pages[PAGE_WORDS];
    size_t end = m->units / SA_MIXED_PAGE_UNITS, page;

    mixed_used_pages(m, pages);
    while (end) {
        bool used = page_has(pages, end - 1);
        struct sa_mixed *record;

        page = run_begin(pages, end);
        if (!page && !used) {
            mixed_give(s, empty);
            record_drop(m);
            return;
        }
        if (!page)
            break;
        record = used ? sa_mixed_record_new() : NULL;
        if (used && !record)
            break;
        part = sa_page_heap_split(&sa_page_heap_ordinary, s, page);
        if (!part) {
            if (record)
                record_drop(record);
            break;
        }
        end = page;
        if (!used) {
            mixed_give(part, empty);
            continue;
        }
        sa_mixed_enter(record, part);
        next = sa_mixed_neighbour(part, sa_span_end(part));
        if (next) /* for the part at the end of the span only: a free part follows the others */
            join_next(part, next);
    }
    sa_mixed_enter(m, s);
}
