/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed spans of the model (model.h), by the rules of alloc/middle/mixed_spans.c and mixed_pages.c,
 * with the same bitmaps. A request takes blocks from the span whose longest free run is the
 * shortest that serves. Neighbouring mixed spans of a hugepage are one span. Pages without a block
 * go back to the page heap.
 */
#include "alloc/middle/mixed_bits.h"
#include "perf/fragmentation/model.h"

#include <stdlib.h>
#include <string.h>

#define FIT_TRIES 8

#define RETURN_STEP_FRACTION 16
#define RETURN_STEP_MIN      (2ul << 20)

struct span {
    uint32_t page, units, used, longest, bin;
    struct span *next, *prev; /* in the bin */
};

static struct span *bins[SA_MIXED_BINS], *unused;
static uint64_t filled[SA_MIXED_BIN_WORDS];
static struct sa_mixed_page bits[PAGES_MAX];
static uint32_t runs[PAGES_MAX]; /* by page: a bound of the free runs that begin there */
static struct span *spans[PAGES_MAX];
static bool has_table[PAGES_MAX / HUGE_PAGES];

struct mixed_totals mixed;

/* The rule of alloc/middle/mixed_returns.c: the most bytes, and what may go back. What goes by time
 * is left out. */
static size_t most, left;

static void note_growth(void)
{
    size_t step = (size_t)((double)given_bytes / RETURN_STEP_FRACTION);

    if (mixed.bytes <= most + sa_max(RETURN_STEP_MIN, step))
        return;
    left += (size_t)((double)(mixed.bytes - most) * params.return_times);
    most = mixed.bytes;
}

bool mixed_is_returning(void)
{
    return left > 0;
}

bool mixed_returns(size_t size)
{
    bool returns = left > 0;

    left -= sa_min(left, size);
    return returns;
}

static void link_span(struct span *m)
{
    m->bin = sa_mixed_bin_of(m->longest);
    m->prev = NULL;
    m->next = bins[m->bin];
    if (m->next)
        m->next->prev = m;
    bins[m->bin] = m;
    filled[m->bin / 64] |= 1ull << m->bin % 64;
}

static void unlink_span(struct span *m)
{
    if (m->next)
        m->next->prev = m->prev;
    if (m->prev)
        m->prev->next = m->next;
    else if (!(bins[m->bin] = m->next))
        filled[m->bin / 64] &= ~(1ull << m->bin % 64);
}

static void set_longest(struct span *m, size_t longest)
{
    m->longest = (uint32_t)longest;
    if (sa_mixed_bin_of(longest) == m->bin)
        return;
    unlink_span(m);
    link_span(m);
}

static struct sa_mixed_page *bits_of(const struct span *m)
{
    return &bits[m->page];
}

static void note_run(const struct span *m, size_t begin, size_t end)
{
    uint32_t *run = &runs[m->page + begin / PAGE_UNITS];

    if (end - begin > *run)
        *run = (uint32_t)(end - begin);
}

/* Counts the units in use, and finds the longest free run of the span and of each page. */
static void measure(struct span *m)
{
    struct sa_mixed_walk walk = {.pages = bits_of(m), .units = m->units};
    size_t longest = 0, free = 0;

    memset(&runs[m->page], 0, m->units / PAGE_UNITS * sizeof(runs[0]));
    while (sa_mixed_run(&walk)) {
        longest = sa_max(longest, walk.end - walk.begin);
        note_run(m, walk.begin, walk.end);
        free += walk.end - walk.begin;
    }
    m->longest = (uint32_t)longest;
    m->used = m->units - (uint32_t)free;
}

static struct span *enter(uint32_t page, size_t n_pages)
{
    struct span *m = unused;

    if (m)
        unused = m->next;
    else if (!(m = malloc(sizeof(*m))))
        abort();
    *m = (struct span){.page = page, .units = (uint32_t)(n_pages * PAGE_UNITS)};
    for (size_t i = 0; i < n_pages; i++)
        spans[page + i] = m;
    measure(m);
    link_span(m);
    mixed.bytes += n_pages * SA_PAGE_BYTES;
    note_growth();
    if (!has_table[page / HUGE_PAGES])
        mixed.tables++;
    has_table[page / HUGE_PAGES] = true;
    return m;
}

static void leave(struct span *m)
{
    size_t n_pages = m->units / PAGE_UNITS;

    unlink_span(m);
    for (size_t i = 0; i < n_pages; i++)
        spans[m->page + i] = NULL;
    mixed.bytes -= n_pages * SA_PAGE_BYTES;
    m->next = unused;
    unused = m;
}

/* The range of addresses within which a page's span is joined with others. */
static uint32_t range_of(uint32_t page)
{
    return page / (uint32_t)(params.join / SA_PAGE_BYTES);
}

/* Makes one span of a span and the one behind it, if that is mixed and in the same range. */
static struct span *join_next(struct span *m)
{
    uint32_t behind = m->page + m->units / PAGE_UNITS, joint = m->units;
    struct span *n =
        behind < PAGES_MAX && range_of(behind) == range_of(m->page) ? spans[behind] : NULL;
    size_t begin, end, longest;

    if (!n)
        return m;
    unlink_span(n);
    unlink_span(m);
    for (size_t i = 0; i < n->units / PAGE_UNITS; i++)
        spans[behind + i] = m;
    m->units += n->units;
    m->used += n->used;
    longest = sa_max(m->longest, n->longest);
    begin = sa_mixed_end_before(bits_of(m), joint);
    end = sa_mixed_next_first(bits_of(m), m->units, joint);
    note_run(m, begin, end);
    m->longest = (uint32_t)sa_max(longest, end - begin);
    n->next = unused;
    unused = n;
    link_span(m);
    return m;
}

static void join(struct span *m)
{
    m = join_next(m);
    if (m->page && spans[m->page - 1] && range_of(spans[m->page - 1]->page) == range_of(m->page))
        join_next(spans[m->page - 1]);
}

/* Makes mixed spans of the pages that have blocks, and gives the others to the page heap. */
static void cut(uint32_t page, size_t n_pages)
{
    uint32_t empty[HUGE_PAGES][2];
    bool inside = false;
    size_t n_empty = 0;

    for (size_t i = 0; i < n_pages;) {
        bool used = sa_mixed_page_is_used(&bits[page + i], &inside);
        size_t j = i + 1;

        while (j < n_pages) {
            bool before = inside;

            if (sa_mixed_page_is_used(&bits[page + j], &inside) != used) {
                inside = before;
                break;
            }
            j++;
        }
        if (used) {
            join(enter(page + (uint32_t)i, j - i));
        } else {
            empty[n_empty][0] = page + (uint32_t)i;
            empty[n_empty++][1] = (uint32_t)(j - i);
        }
        i = j;
    }
    while (n_empty--)
        pages_put(empty[n_empty][0], empty[n_empty][1]);
}

void mixed_begin(uint32_t page, size_t n_pages, unsigned cls, const uint64_t *free_bits)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t units = k->size / UNIT;

    for (size_t i = 0; i < k->objects; i++)
        if (!(free_bits[i / 64] >> i % 64 & 1)) {
            sa_mixed_mark(&bits[page], i * units, units);
            mixed.used += k->size;
        }
    mixed.conversions++;
    cut(page, n_pages);
}

/* Takes up to n blocks out of a free run. Notes what is left of it. */
static size_t carve_run(struct span *m, size_t begin, size_t units, size_t align, uint32_t *out,
                        size_t n)
{
    size_t behind = sa_mixed_next_first(bits_of(m), m->units, begin), at, got = 0;

    for (at = sa_align_up(begin, align); at + units <= behind && got < n;
         at = sa_align_up(begin, align), got++) {
        note_run(m, begin, at);
        sa_mixed_mark(bits_of(m), at, units);
        out[got] = (uint32_t)(m->page * PAGE_UNITS + at);
        begin = at + units;
    }
    if (begin < behind)
        note_run(m, begin, behind);
    return got;
}

static size_t carve_page(struct span *m, size_t page, size_t units, size_t align, uint32_t *out,
                         size_t n)
{
    size_t got = 0;

    runs[m->page + page] = 0;
    for (size_t w = page * SA_MIXED_PAGE_WORDS; w < (page + 1) * SA_MIXED_PAGE_WORDS; w++)
        for (uint64_t begins = sa_mixed_run_begins(bits_of(m), w); begins; begins &= begins - 1)
            got += carve_run(m, w * 64 + sa_lowest_bit(begins), units, align, out + got, n - got);
    return got;
}

static size_t carve(struct span *m, size_t units, size_t align, uint32_t *out, size_t n)
{
    size_t n_pages = m->units / PAGE_UNITS, got = 0, longest = 0;

    for (size_t page = 0; page < n_pages && got < n; page++)
        if (runs[m->page + page] >= units)
            got += carve_page(m, page, units, align, out + got, n - got);
    m->used += (uint32_t)(got * units);
    for (size_t page = 0; page < n_pages; page++)
        longest = sa_max(longest, runs[m->page + page]);
    set_longest(m, longest);
    return got;
}

size_t mixed_take(unsigned cls, uint32_t *out, size_t n)
{
    size_t size = sa_size_classes.of[cls].size, units = size / UNIT, got = 0;
    size_t align = sa_max(sa_min(size & -size, (size_t)params.align) / UNIT, 1);
    unsigned tries = 0;

    for (unsigned bin = sa_mixed_bin_next(filled, sa_mixed_bin_from(units));
         bin < SA_MIXED_BINS && got < n; bin = sa_mixed_bin_next(filled, bin + 1)) {
        struct span *next;

        if (tries >= FIT_TRIES && bin < sa_mixed_bin_from(units + align - 1))
            bin = sa_mixed_bin_next(filled, sa_mixed_bin_from(units + align - 1));
        for (struct span *m = bin < SA_MIXED_BINS ? bins[bin] : NULL; m && got < n; m = next) {
            size_t took;

            next = m->next;
            took = carve(m, units, align, out + got, n - got);
            got += took;
            tries += !took;
            if (!took && tries >= FIT_TRIES)
                break;
        }
    }
    mixed.used += got * size;
    mixed.taken += got * size;
    return got;
}

uint32_t mixed_fresh(unsigned cls)
{
    size_t size = sa_size_classes.of[cls].size;
    size_t n_pages = (size + SA_PAGE_BYTES - 1) / SA_PAGE_BYTES;
    uint32_t page = pages_take(n_pages, 1, false);

    sa_mixed_mark(&bits[page], 0, size / UNIT);
    join(enter(page, n_pages));
    mixed.used += size;
    mixed.taken += size;
    return page * PAGE_UNITS;
}

bool mixed_owns(uint32_t unit)
{
    return spans[unit / PAGE_UNITS] != NULL;
}

void mixed_put(unsigned cls, uint32_t unit)
{
    struct span *m = spans[unit / PAGE_UNITS];
    size_t at = unit - m->page * PAGE_UNITS, units = sa_size_classes.of[cls].size / UNIT, begin;
    size_t end;

    MODEL_CHECK(sa_mixed_length(bits_of(m), m->units, at) == units);
    sa_mixed_mark(bits_of(m), at, units);
    m->used -= (uint32_t)units;
    mixed.used -= units * UNIT;
    begin = sa_mixed_end_before(bits_of(m), at);
    end = sa_mixed_next_first(bits_of(m), m->units, at);
    if (sa_align_up(begin, PAGE_UNITS) + PAGE_UNITS <= end) {
        uint32_t page = m->page;
        size_t n_pages = m->units / PAGE_UNITS;

        leave(m);
        cut(page, n_pages);
        return;
    }
    note_run(m, begin, end);
    set_longest(m, sa_max(m->longest, end - begin));
}

void mixed_check(void)
{
    size_t bytes = 0, used = 0;

    for (uint32_t page = 0; page < PAGES_MAX; page++) {
        struct span *m = spans[page];
        struct sa_mixed_walk walk;
        size_t free = 0;

        if (!m || m->page != page)
            continue;
        walk = (struct sa_mixed_walk){.pages = bits_of(m), .units = m->units};
        while (sa_mixed_run(&walk))
            free += walk.end - walk.begin;
        MODEL_CHECK(free + m->used == m->units);
        bytes += m->units * UNIT;
        used += m->used * UNIT;
    }
    MODEL_CHECK(bytes == mixed.bytes && used == mixed.used);
}
