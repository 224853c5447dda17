/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed spans; mixed_spans.h has the calls, mixed_bits.h the bitmaps. alloc/middle/central_mix.c
 * decides when a span becomes one.
 *
 * A mixed span is a run of pages of one hugepage each of which has a part of a block. Neighbouring
 * mixed spans that begin in the same 256 KiB are one (sa_mixed_join), so that free runs go across
 * pages. Pages without a block go back to the page heap: they are cut off the span (sa_mixed_cut).
 * The bitmaps belong to the addresses: there is a table for each hugepage of the home window in
 * which a span became mixed, and no bit is moved when spans are joined or cut. Spans elsewhere do
 * not become mixed.
 *
 * The lock (MIXED) guards the tables, the records, the bins, and the fields of mixed spans. It is
 * taken with the lock of a class held, or without.
 *
 * Why the pages of a span may lose their class while threads own objects on it. A thread that still
 * sees the class frees its block as an object of that class, which it is: only blocks that were
 * there before can be freed that way. Whoever got a block later synchronized with this lock, and
 * has seen class 0 since.
 *
 * Why a lookup takes no lock (sa_mixed_class). It asks the bitmap alone, and neither a span nor a
 * record, which other threads may join, cut and use again meanwhile. Both bits of a block belong to
 * its owner. Bits of pages that are not mixed are 0, so a bit at the address says that the block is
 * on a mixed span. sa_mixed_begin sets the bits before it takes the class away, with release order;
 * the reader loads the class, and the span, with acquire order. So a reader that sees class 0, or a
 * span that does not fit the class, sees the bits.
 */
#include "alloc/middle/mixed_spans.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/mixed_internal.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"

/* A request looks at this many spans whose longest run is long enough, but has no place at a
 * multiple of the alignment, before it looks for one that has. */
#define FIT_TRIES 8

SA_START_DATA enum sa_mixed_use sa_mixed_use;
SA_START_DATA bool sa_mixed_any; /* atomic: a span became mixed; written under MIXED */

/* Counts blocks of a class that come, or go. */
static void mixed_count(unsigned cls, long blocks) SA_REQUIRES(SA_RANK_MIXED)
{
    SA_DCHECK(blocks > 0 || sa_mixed_state.objects[cls]);
    sa_count_add(&sa_mixed_state.stats.used_bytes,
                 (size_t)(blocks * (long)sa_size_classes.of[cls].size));
    sa_store_relaxed(&sa_mixed_state.objects[cls],
                     (uint32_t)(sa_mixed_state.objects[cls] + blocks));
}

/* Returns a record for a span that becomes mixed: it has the span, its bitmaps and its length, and
 * is in no bin. NULL: out of memory, or the span is outside of the home window. */
static struct sa_mixed *mixed_new(struct sa_span *s) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_page *pages = sa_mixed_table(s->start, true);
    struct sa_mixed *m = pages ? sa_mixed_record_new() : NULL;

    if (m) {
        m->span = s;
        m->pages = pages;
        m->units = (uint32_t)(s->pages * SA_MIXED_PAGE_UNITS);
        sa_store_relaxed(&sa_mixed_any, true);
    }
    return m;
}

SA_RARE bool sa_mixed_begin(struct sa_span *s, struct sa_span **empty)
{
    unsigned cls = s->cls;
    size_t units = sa_size_classes.of[cls].size / SA_MIXED_UNIT, live = s->live;
    const uint64_t *free = sa_span_bits(s);
    struct sa_mixed *m;

    SA_DCHECK(s->state == SA_SPAN_OBJECTS && live && !s->pins);
    if (s->start >> SA_HUGE_SHIFT != (sa_span_end(s) - 1) >> SA_HUGE_SHIFT)
        return false;
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    m = mixed_new(s);
    if (m) {
        for (size_t i = 0; i < s->objects; i++)
            if (!(free[i / 64] >> i % 64 & 1)) {
                sa_mixed_mark(m->pages, i * units, units);
                sa_mixed_saved_come(cls, s->start + i * units * SA_MIXED_UNIT);
            }
        sa_mixed_state.stats.conversions++;
        mixed_count(cls, (long)live);
        sa_pagemap_clear_classes(s);
        sa_mixed_cut(m, empty);
        if (sa_load_relaxed(&s->state) == SA_SPAN_MIXED)
            sa_mixed_join(s);
    }
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    return m != NULL;
}

/* Takes up to n blocks of so many units out of a free run, at multiples of `align` units of the
 * span. Notes what is left of the run. */
static size_t carve_run(struct sa_mixed *m, size_t begin, size_t units, size_t align, void **end,
                        size_t n) SA_REQUIRES(SA_RANK_MIXED)
{
    size_t behind = sa_mixed_next_first(m->pages, m->units, begin), at, got = 0;

    for (at = sa_align_up(begin, align); at + units <= behind && got < n;
         at = sa_align_up(begin, align), got++) {
        mixed_note_run(m, begin, at);
        sa_mixed_mark(m->pages, at, units);
        *--end = (void *)(m->span->start + at * SA_MIXED_UNIT);
        begin = at + units;
    }
    if (begin < behind)
        mixed_note_run(m, begin, behind);
    return got;
}

/* Takes up to n such blocks out of the runs that begin on a page. Its bound is exact afterwards. */
static size_t carve_page(struct sa_mixed *m, size_t page, size_t units, size_t align, void **end,
                         size_t n) SA_REQUIRES(SA_RANK_MIXED)
{
    size_t got = 0;

    m->runs[page] = 0;
    for (size_t w = page * SA_MIXED_PAGE_WORDS; w < (page + 1) * SA_MIXED_PAGE_WORDS; w++)
        for (uint64_t begins = sa_mixed_run_begins(m->pages, w); begins; begins &= begins - 1)
            got += carve_run(m, w * 64 + sa_lowest_bit(begins), units, align, end - got, n - got);
    return got;
}

/* Returns the length of the longest free run, of which the pages have bounds. */
static size_t mixed_longest(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED)
{
    size_t pages = m->units / SA_MIXED_PAGE_UNITS, best, bound;

    do {
        best = 0;
        for (size_t page = 1; page < pages; page++)
            best = m->runs[page] > m->runs[best] ? page : best;
        bound = m->runs[best];
    } while (sa_mixed_longest_on(m, best) < bound);
    return bound;
}

/* Takes up to n blocks of so many units off a span, at multiples of `align` units of it. */
static size_t mixed_carve(struct sa_mixed *m, size_t units, size_t align, void **end, size_t n)
    SA_REQUIRES(SA_RANK_MIXED)
{
    size_t pages = m->units / SA_MIXED_PAGE_UNITS, got = 0;

    for (size_t page = 0; page < pages && got < n; page++)
        if (m->runs[page] >= units)
            got += carve_page(m, page, units, align, end - got, n - got);
    m->used += (uint32_t)(got * units);
    sa_mixed_changed(m, mixed_longest(m));
    return got;
}

SA_RARE size_t sa_mixed_take(unsigned cls, void **end, size_t n, size_t most_align)
{
    size_t size = sa_size_classes.of[cls].size, units = size / SA_MIXED_UNIT, got = 0;
    size_t align = sa_min(size & -size, most_align) / SA_MIXED_UNIT;
    unsigned tries = 0;

    SA_DCHECK(size <= SA_MIXED_MAX && size % SA_MIXED_UNIT == 0);
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    for (unsigned bin = sa_mixed_bin_next(sa_mixed_state.filled, sa_mixed_bin_from(units));
         bin < SA_MIXED_BINS && got < n; bin = sa_mixed_bin_next(sa_mixed_state.filled, bin + 1)) {
        struct sa_mixed *next;

        if (tries >= FIT_TRIES && bin < sa_mixed_bin_from(units + align - 1))
            bin = sa_mixed_bin_next(sa_mixed_state.filled, sa_mixed_bin_from(units + align - 1));
        for (struct sa_mixed *m = bin < SA_MIXED_BINS ? sa_mixed_state.bins[bin] : NULL;
             m && got < n; m = next) {
            size_t took;

            next = m->next; /* m goes to another bin */
            took = mixed_carve(m, units, align, end - got, n - got);
            got += took;
            tries += !took;
            if (!took && tries >= FIT_TRIES)
                break;
        }
    }
    if (got)
        mixed_count(cls, (long)got);
    for (size_t i = 0; i < got; i++)
        sa_mixed_saved_come(cls, (uintptr_t)(end - got)[i]);
    sa_mixed_state.stats.taken += got;
    sa_mixed_state.stats.taken_bytes += got * size;
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    return got;
}

SA_RARE void *sa_mixed_fresh(unsigned cls)
{
    size_t size = sa_size_classes.of[cls].size;
    size_t pages = sa_align_up((size + SA_PAGE_BYTES - 1) >> SA_PAGE_SHIFT, sa_vm.page_step);
    struct sa_span *s = sa_page_heap_alloc(&sa_page_heap_ordinary, pages, 1, SA_PAGES_ANY);
    struct sa_mixed *m;
    void *block;

    if (!s)
        return NULL;
    block = (void *)s->start;
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    m = mixed_new(s);
    if (m) {
        sa_mixed_mark(m->pages, 0, size / SA_MIXED_UNIT);
        sa_mixed_enter(m, s);
        mixed_count(cls, 1);
        sa_mixed_saved_come(cls, s->start);
        sa_mixed_state.stats.taken++;
        sa_mixed_state.stats.taken_bytes += size;
        sa_mixed_join(s);
    }
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    if (m)
        return block;
    sa_page_heap_free(&sa_page_heap_ordinary, s, s->zeroed);
    return NULL;
}

/* The record of the mixed span that an address lies on, and its unit there; NULL: none does. */
static struct sa_mixed *mixed_find(uintptr_t address, size_t *ret_unit) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_span *s = sa_pagemap_find(address);

    if (!s || sa_load_relaxed(&s->state) != SA_SPAN_MIXED)
        return NULL;
    *ret_unit = (address - s->start) / SA_MIXED_UNIT;
    return s->mixed;
}

/* Takes out a block that begins at a unit. */
static void mixed_remove(struct sa_mixed *m, size_t unit, size_t units, struct sa_span **empty)
    SA_REQUIRES(SA_RANK_MIXED)
{
    size_t begin, end;

    sa_mixed_mark(m->pages, unit, units);
    m->used -= (uint32_t)units;
    begin = sa_mixed_end_before(m->pages, unit);
    end = sa_mixed_next_first(m->pages, m->units, unit);
    if (sa_align_up(begin, SA_MIXED_PAGE_UNITS) + SA_MIXED_PAGE_UNITS <= end) {
        sa_mixed_leave(m);
        sa_mixed_cut(m, empty);
        return;
    }
    mixed_note_run(m, begin, end);
    sa_mixed_changed(m, sa_max(m->longest, end - begin));
}

/* As sa_mixed_put. */
static bool mixed_put(unsigned cls, void *block, struct sa_span **empty) SA_REQUIRES(SA_RANK_MIXED)
{
    size_t units = sa_size_classes.of[cls].size / SA_MIXED_UNIT, unit = 0;
    struct sa_mixed *m = mixed_find((uintptr_t)block, &unit);

    if ((uintptr_t)block % SA_MIXED_UNIT || !m ||
        sa_mixed_length(m->pages, m->units, unit) != units)
        return false;
    mixed_count(cls, -1);
    mixed_remove(m, unit, units, empty);
    sa_mixed_saved_go(cls, (uintptr_t)block);
    return true;
}

SA_RARE bool sa_mixed_put(unsigned cls, void *block, struct sa_span **empty)
{
    bool done;

    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    done = mixed_put(cls, block, empty);
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    return done;
}

SA_RARE bool sa_mixed_return(unsigned cls, void *block, struct sa_span **empty)
{
    size_t size = sa_size_classes.of[cls].size;
    bool done;

    if (!sa_lock_try(&sa_mixed_state.lock, SA_RANK_MIXED)) {
        sa_mixed_returns_refused();
        return false;
    }
    done = mixed_put(cls, block, empty);
    if (done) {
        sa_in_use_add(-(int64_t)size); /* before another thread can take the block */
        sa_mixed_returns_count(size);
    }
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    return done;
}

/* Returns the bitmaps of the hugepage of an address that a block of a mixed span may begin at, or
 * NULL. No analysis: the table is read without the lock. */
SA_INLINE struct sa_mixed_page *table_of_block(uintptr_t address) SA_NO_THREAD_SAFETY_ANALYSIS
{
    if (!sa_load_relaxed(&sa_mixed_any) || address % SA_MIXED_UNIT ||
        address >> SA_HOME_SHIFT != SA_HOME_START >> SA_HOME_SHIFT)
        return NULL;
    return sa_load_acquire(&sa_mixed_state.tables[(address - SA_HOME_START) >> SA_HUGE_SHIFT]);
}

/* Returns the unit of its hugepage that an address lies on. */
SA_INLINE size_t unit_of(uintptr_t address)
{
    return (address & (SA_HUGE_BYTES - 1)) / SA_MIXED_UNIT;
}

SA_RARE unsigned sa_mixed_class(uintptr_t address)
{
    size_t unit = unit_of(address), units;
    struct sa_mixed_page *table = table_of_block(address);

    if (!table)
        return 0;
    units = sa_mixed_length(table, SA_HUGE_PAGES * SA_MIXED_PAGE_UNITS, unit);
    return units && units <= SA_MIXED_MAX / SA_MIXED_UNIT
               ? sa_size_class_find(units * SA_MIXED_UNIT)
               : 0;
}

/* Reads the bit of the first unit alone. The length of the block, whose end may lie 32 words
 * further on, and its class do not matter. */
SA_RARE bool sa_mixed_is_sparse(uintptr_t address)
{
    struct sa_mixed_page *table = table_of_block(address);
    const struct sa_span *s;
    size_t used, bytes;

    if (!table || !sa_mixed_is_first(table, unit_of(address)))
        return false;
    s = sa_pagemap_span(address);
    if (!s || sa_load_relaxed(&s->state) != SA_SPAN_MIXED)
        return false;
    used = sa_mixed_used_bytes();
    bytes = used + sa_mixed_free_bytes();
    /* The products fit: 16 bits times the 36 bits of the home window. */
    return sa_fraction_less(sa_load_relaxed(&s->live), sa_load_relaxed(&s->objects), used, bytes);
}

SA_RARE bool sa_mixed_is_free(uintptr_t address)
{
    size_t unit, begin;
    struct sa_mixed *m;
    bool free = false;

    if (!sa_fork_gate_enter())
        return false;
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    m = mixed_find(address, &unit);
    if (m) {
        begin = sa_mixed_end_before(m->pages, unit);
        free = sa_mixed_next_first(m->pages, m->units, begin) > unit;
    }
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    sa_fork_gate_leave();
    return free;
}

SA_RARE size_t sa_mixed_objects(unsigned cls)
{
    return sa_load_relaxed(&sa_mixed_state.objects[cls]);
}

SA_RARE size_t sa_mixed_free_bytes(void)
{
    size_t used = sa_load_relaxed(&sa_mixed_state.stats.used_bytes);
    size_t bytes = sa_load_relaxed(&sa_mixed_state.stats.bytes);

    return bytes - sa_min(used, bytes); /* the two are not of one moment */
}

SA_RARE size_t sa_mixed_used_bytes(void)
{
    return sa_load_relaxed(&sa_mixed_state.stats.used_bytes);
}

SA_RARE void sa_mixed_stats(struct sa_mixed_stats *ret)
{
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    *ret = sa_mixed_state.stats;
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
}
