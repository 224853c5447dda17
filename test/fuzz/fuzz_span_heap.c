/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain heap of spans on a system of memory that is only numbers (test/support/fake_system.h),
 * whose calls fail when the input says so, as do requests for records. The spans that the map knows
 * fill what is mapped, ends and states are right, free neighbours of one state are merged, the sums
 * are the heap's figures, and what is freed can all be given back.
 */
#include "alloc/page_heap/plain/span_heap.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "test/fuzz/heap_steps.h"
#include "test/support/page_heap_walk.h"

static struct sa_span_heap heap;

/* What the walk has found: pages, by state. */
static size_t found[SA_SPAN_QUARANTINED + 1];

static void walk_range(uintptr_t start, uintptr_t end)
{
    unsigned before = SA_SPAN_UNUSED;

    while (start < end) {
        struct sa_span *s = sa_pagemap_span(start);

        FUZZ_CHECK(s && s->start == start && s->pages > 0 && sa_span_end(s) <= end);
        FUZZ_CHECK(sa_pagemap_span(sa_span_end(s) - 1) == s);
        FUZZ_CHECK(s->state == SA_SPAN_BACKED || s->state == SA_SPAN_RELEASED ||
                   s->state == SA_SPAN_LARGE || (s->state == SA_SPAN_MOVING && s == heap.recent));
        FUZZ_CHECK(s->state == SA_SPAN_LARGE || s->state != before); /* merged */
        found[s->state] += s->pages;
        before = s->state;
        start = sa_span_end(s);
    }
    FUZZ_CHECK(start == end);
}

/* Checks the heap as it is, with or without a span freed last that is in no list. */
static void check_spans(void)
{
    size_t in_use = lost;

    for (unsigned i = 0; i < count; i++)
        in_use += spans[i]->pages;
    memset(found, 0, sizeof(found));
    sa_lock_acquire(&heap.lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_validate(&heap);
    sa_lock_release(&heap.lock, SA_RANK_PAGE_HEAP);
    page_heap_each_range(walk_range);
    FUZZ_EQUAL(found[SA_SPAN_LARGE], in_use);
    FUZZ_EQUAL(found[SA_SPAN_MOVING], heap.recent ? heap.recent->pages : 0);
    FUZZ_EQUAL(found[SA_SPAN_BACKED], heap.backed.pages);
}

/* The same, and what the heap says of itself, for which all free spans join the lists. */
static void check(void)
{
    static struct sa_size_info sizes;
    static struct sa_span_ages ages;
    struct sa_page_heap_stats s;
    size_t aged[2] = {0, 0};

    check_spans();
    sa_span_heap_stats(&heap, &s);
    FUZZ_CHECK(!heap.recent);
    check_spans();
    FUZZ_EQUAL(s.in_use_bytes, found[SA_SPAN_LARGE] << SA_PAGE_SHIFT);
    FUZZ_EQUAL(s.backed_bytes, found[SA_SPAN_BACKED] << SA_PAGE_SHIFT);
    FUZZ_EQUAL(s.released_bytes, found[SA_SPAN_RELEASED] << SA_PAGE_SHIFT);
    FUZZ_EQUAL(s.moving_bytes, 0);
    FUZZ_EQUAL(s.mapped_bytes, s.in_use_bytes + s.backed_bytes + s.released_bytes);
    sa_span_heap_walk(&heap, &sizes, &ages);
    for (int i = 0; i < SA_AGE_LENGTHS; i++) {
        aged[0] += ages.backed[i].pages;
        aged[1] += ages.released[i].pages;
    }
    FUZZ_EQUAL(aged[0], found[SA_SPAN_BACKED]);
    FUZZ_EQUAL(aged[1], found[SA_SPAN_RELEASED]);
    FUZZ_CHECK(fake_held() <= found[SA_SPAN_BACKED]);
}

static void take(struct fuzz_input *in)
{
    size_t n = fuzz_size(in, fuzz_byte(in) % 4 ? 6 : 15), align = 1;
    uint8_t how = fuzz_byte(in);
    struct sa_span *s;

    if (count == SPANS)
        return;
    if (how % 4 == 0)
        align <<= fuzz_below(in, 11);
    s = sa_span_heap_alloc(&heap, n, align);
    if (!s) {
        FUZZ_CHECK(fake.map_fails || fuzz_arena.fails_after == 0 ||
                   heap.mapped_pages + n + align > FAKE_PAGES / 4);
        return;
    }
    FUZZ_CHECK(s->pages == n || (fuzz_arena.fails_after == 0 && s->pages > n));
    spans_enter(in, s, align, how);
}

static void give(struct fuzz_input *in, unsigned i)
{
    struct sa_span *s = spans[i];
    uint8_t how = fuzz_byte(in);
    size_t pages = s->pages, in_use = heap.in_use_pages;
    uintptr_t start = s->start;
    bool moved_away = how % 8 == 0;

    s->moved = how % 8 == 1;
    spans_leave(i, moved_away);
    sa_span_heap_free(&heap, s, moved_away);
    if (heap.in_use_pages == in_use) { /* the kernel lost the range, which must not come back */
        FUZZ_CHECK(s->moved && fake.renew_loses);
        fake_own(start, pages, true);
        lost += pages;
    }
}

static void resize(struct fuzz_input *in, unsigned i)
{
    struct sa_span *s = spans[i];
    size_t old = s->pages, n;

    if (fuzz_byte(in) % 2) {
        n = old + fuzz_size(in, 8);
        if (!sa_span_heap_extend(&heap, s, n)) {
            FUZZ_EQUAL(s->pages, old);
            return;
        }
        FUZZ_CHECK(s->pages == n || (fuzz_arena.fails_after == 0 && s->pages > n));
        fake_own(s->start + (old << SA_PAGE_SHIFT), s->pages - old, true);
        fake_touch(s->start + (old << SA_PAGE_SHIFT), s->pages - old);
    } else {
        n = 1 + fuzz_below(in, old);
        fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, false);
        sa_span_heap_shrink(&heap, s, n);
        if (s->pages != n) { /* out of memory for records */
            FUZZ_CHECK(s->pages == old && fuzz_arena.fails_after == 0);
            fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, true);
        }
    }
}

static void set_faults(struct fuzz_input *in)
{
    uint8_t which = fuzz_byte(in);

    faults_set(in, which);
    fuzz_arena.fails_after = which & 8 ? (long)fuzz_below(in, 20) : -1;
    sa_vm.map_failures = which & 16;
}

static void tick(void)
{
    sa_span_heap_tick(&heap, now_ns);
}

static void other(struct fuzz_input *in, unsigned what)
{
    if (what == 0)
        sa_span_heap_release(&heap, fuzz_number(in, 4));
    else if (what == 1)
        sa_span_heap_unmap(&heap, fuzz_number(in, 3));
    else
        set_faults(in);
}

static const struct heap_actions actions = {take, give, resize, tick, other};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    spans_begin(0);
    memset(&heap, 0, sizeof(heap));
    sa_vm.map_failures = 0;
    fake.random.state = 1 + fuzz_byte(&in);
    sa_span_heap_init(&heap, SA_HEAP_ORDINARY, "salloc:heap",
                      SA_HOME_START + fuzz_byte(&in) * SA_PAGE_BYTES, false);
    for (int i = 0; fuzz_left(&in); i++) {
        spans_step(&in, &actions);
        if (i < 300 || i % 256 == 0)
            (i % 2 ? check_spans : check)();
    }
    faults_end();
    while (count)
        give(&in, count - 1);
    check();
    sa_span_heap_release(&heap, PTRDIFF_MAX);
    check();
    FUZZ_EQUAL(heap.in_use_pages, lost);
    FUZZ_EQUAL(heap.backed.pages, 0);
    sa_span_heap_unmap(&heap, PTRDIFF_MAX);
    check();
    FUZZ_EQUAL(heap.mapped_pages, lost);
    return 0;
}
