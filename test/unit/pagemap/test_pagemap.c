/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The radix map: classes and spans of pages in the home window and in others, and the look-up of
 * addresses of unknown origin, which must never answer with a span that does not hold the address.
 *
 * The map does not care whether addresses are mapped, so spans are placed where a test wants them.
 */
#include "pagemap/pagemap.h"

#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WINDOW(n) ((uintptr_t)(n) << SA_HOME_SHIFT)
#define HOME      SA_HOME_START
#define OTHER     WINDOW(0x456)

static struct sa_span *set_span(struct sa_span *s, uintptr_t start, uint32_t pages, unsigned cls)
{
    *s = (struct sa_span){.start = start,
                          .pages = pages,
                          .cls = (uint8_t)cls,
                          .state = cls ? SA_SPAN_OBJECTS : SA_SPAN_LARGE,
                          .heap = 1};
    assert_true(sa_pagemap_grow(start, sa_span_bytes(s)));
    if (cls)
        sa_pagemap_set_objects(s, SA_PAGE_BYTES);
    else
        sa_pagemap_set_ends(s);
    return s;
}

static int set_up(void **state)
{
    (void)state;
    test_start_layers();
    return 0;
}

/* Whether the mapping of the address is read-only and out of dumps: it cannot have memory, nor
 * hugepages. */
static bool is_closed(const void *p)
{
    unsigned long start, end;
    bool is_in = false, closed = false;
    char line[512];
    FILE *maps = fopen("/proc/self/smaps", "r");

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%lx-%lx", &start, &end) == 2)
            is_in = (uintptr_t)p >= start && (uintptr_t)p < end;
        else if (is_in && strncmp(line, "VmFlags:", 8) == 0)
            closed = strstr(line, " dd") && !strstr(line, " wr");
    }
    fclose(maps);
    return closed;
}

/* A table by address is writable as far as there are spans: less than a hugepage, whatever the
 * kernel's mode is. */
static void test_pagemap_opens_its_tables_as_far_as_needed(void **state)
{
    (void)state;
    assert_true(is_closed(&sa_hot.home_class[SA_HOME_PAGES / 2]));
    assert_true(is_closed(&sa_hot.home_any_class[SA_HOME_PAGES / 2]));
    assert_true(sa_pagemap_grow(WINDOW(0x457), SA_PAGE_BYTES));
    assert_false(is_closed(sa_pagemap.root[0x457].classes));
    assert_true(is_closed(sa_pagemap.root[0x457].classes + SA_HOME_PAGES / 2));
}

static void test_pagemap_knows_nothing_at_first(void **state)
{
    static const uintptr_t addresses[] = {0,
                                          1,
                                          8192,
                                          HOME,
                                          HOME + 12345,
                                          OTHER,
                                          UINTPTR_MAX,
                                          (uintptr_t)1 << SA_ADDRESS_BITS,
                                          WINDOW(SA_MAP_ROOTS - 1)};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(addresses); i++) {
        assert_null(sa_pagemap_span(addresses[i]));
        assert_null(sa_pagemap_find(addresses[i]));
        assert_int_equal(sa_pagemap_class(addresses[i]), 0);
    }
}

/* What free() reads: classes with spans of one page, as header offsets; nothing for longer ones. */
static void test_pagemap_home_window_is_what_the_fast_path_sees(void **state)
{
    static struct sa_span one, two;
    uintptr_t start = HOME + (400 << 20);
    const uint16_t *seen = &sa_hot.home_class[(start - HOME) / SA_PAGE_BYTES];

    (void)state;
    set_span(&one, start, 1, 9);
    set_span(&two, start + SA_PAGE_BYTES, 2, 9);
    assert_int_equal(seen[0], SA_CLASS_OFFSET(9));
    assert_int_equal(seen[1], 0);
    assert_int_equal(seen[2], 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sa_pagemap_class(start + (uintptr_t)i * SA_PAGE_BYTES), 9);
    sa_pagemap_clear_classes(&one);
    sa_pagemap_clear_classes(&two);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seen[i], 0);
        assert_int_equal(sa_pagemap_class(start + (uintptr_t)i * SA_PAGE_BYTES), 0);
    }
}

/* Objects of several pages: only the pages where they start say their class. */
static void test_pagemap_classes_at_a_step(void **state)
{
    static struct sa_span s;
    uintptr_t start = HOME + (500 << 20);

    (void)state;
    set_span(&s, start, 12, 0);
    s.cls = 70;
    s.state = SA_SPAN_OBJECTS;
    sa_pagemap_set_objects(&s, 3 * SA_PAGE_BYTES);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(sa_pagemap_class(start + (uintptr_t)i * SA_PAGE_BYTES), i % 3 ? 0 : 70);
        assert_ptr_equal(sa_pagemap_find(start + (uintptr_t)i * SA_PAGE_BYTES), &s);
    }
    sa_pagemap_clear_classes(&s);
    for (int i = 0; i < 12; i++)
        assert_int_equal(sa_pagemap_class(start + (uintptr_t)i * SA_PAGE_BYTES), 0);
}

static void objects_span_at(uintptr_t start)
{
    static struct sa_span spans[8];
    static int used;
    struct sa_span *s = set_span(&spans[used++], start, 4, 17);

    for (uintptr_t at = start; at < start + 4 * SA_PAGE_BYTES; at += 1000) {
        assert_ptr_equal(sa_pagemap_span(at), s);
        assert_ptr_equal(sa_pagemap_find(at), s);
        assert_int_equal(sa_pagemap_class(at), 17);
    }
    assert_null(sa_pagemap_find(start - 1));
    assert_null(sa_pagemap_find(start + 4 * SA_PAGE_BYTES));
    assert_int_equal(sa_pagemap_class(start - 1), 0);
    assert_int_equal(sa_pagemap_class(start + 4 * SA_PAGE_BYTES), 0);
    sa_pagemap_clear_classes(s);
    for (uintptr_t at = start; at < start + 4 * SA_PAGE_BYTES; at += 1000) {
        assert_int_equal(sa_pagemap_class(at), 0);
        assert_ptr_equal(sa_pagemap_find(at), s);
    }
    s->state = SA_SPAN_UNUSED;
    assert_null(sa_pagemap_find(start));
}

/* In the home window, in another, and at both edges of each. */
static void test_pagemap_objects_spans_in_several_windows(void **state)
{
    (void)state;
    objects_span_at(HOME + (100 << 20));
    objects_span_at(OTHER + (100 << 20));
    objects_span_at(HOME);
    objects_span_at(HOME + SA_HOME_BYTES - 4 * SA_PAGE_BYTES);
    objects_span_at(OTHER);
    objects_span_at(WINDOW(SA_MAP_ROOTS) - 4 * SA_PAGE_BYTES);
}

static void test_pagemap_large_spans_have_their_ends(void **state)
{
    static struct sa_span s, one;
    uintptr_t start = HOME + (200 << 20);

    (void)state;
    set_span(&s, start, 1000, 0);
    set_span(&one, sa_span_end(&s), 1, 0);
    assert_ptr_equal(sa_pagemap_find(start), &s);
    assert_ptr_equal(sa_pagemap_find(start + SA_PAGE_BYTES - 1), &s);
    assert_ptr_equal(sa_pagemap_find(sa_span_end(&s) - 1), &s);
    assert_ptr_equal(sa_pagemap_find(sa_span_end(&s)), &one);
    assert_null(sa_pagemap_find(start + 500 * SA_PAGE_BYTES));
    assert_int_equal(sa_pagemap_class(start), 0);
    for (uintptr_t at = start; at < sa_span_end(&s); at += 10000)
        assert_ptr_equal(sa_pagemap_find_around(at), &s);
    assert_ptr_equal(sa_pagemap_find_around(sa_span_end(&s) - 1), &s);
    assert_ptr_equal(sa_pagemap_find_around(sa_span_end(&s)), &one);
    assert_null(sa_pagemap_find_around(sa_span_end(&one)));
    assert_null(sa_pagemap_find_around(1ul << SA_ADDRESS_BITS));
    assert_null(sa_pagemap_find_around(UINTPTR_MAX));
}

/* Entries that were left behind by earlier spans must not be believed. */
static void test_pagemap_find_rejects_stale_entries(void **state)
{
    static struct sa_span old, moved;
    uintptr_t start = HOME + (300 << 20);

    (void)state;
    set_span(&old, start, 100, 0);
    old.pages = 10; /* shrunk: the entry of page 99 still names it */
    sa_pagemap_set_ends(&old);
    assert_ptr_equal(sa_pagemap_span(start + 99 * SA_PAGE_BYTES), &old);
    assert_null(sa_pagemap_find(start + 99 * SA_PAGE_BYTES));
    assert_ptr_equal(sa_pagemap_find(start + 9 * SA_PAGE_BYTES), &old);

    set_span(&moved, start + 200 * SA_PAGE_BYTES, 10, 5);
    set_span(&moved, start + 400 * SA_PAGE_BYTES, 10, 0); /* the record is used again elsewhere */
    assert_null(sa_pagemap_find(start + 200 * SA_PAGE_BYTES));
    assert_null(sa_pagemap_find(start + 205 * SA_PAGE_BYTES));
    assert_ptr_equal(sa_pagemap_find(start + 400 * SA_PAGE_BYTES), &moved);
    moved.state = SA_SPAN_UNUSED;
    assert_null(sa_pagemap_find(start + 400 * SA_PAGE_BYTES));
}

static void test_pagemap_grows_across_leaves_and_windows(void **state)
{
    uintptr_t leaf = SA_PAGE_BYTES << SA_MAP_LEAF_BITS, edge = WINDOW(0x700);
    static struct sa_span a, b;

    (void)state;
    /* 3 leaves before the edge to 2 behind it. */
    assert_true(sa_pagemap_grow(edge - 3 * leaf, 5 * leaf));
    set_span(&a, edge - 3 * leaf + leaf / 2, (uint32_t)(2 * leaf >> SA_PAGE_SHIFT), 0);
    assert_ptr_equal(sa_pagemap_find(a.start), &a);
    assert_ptr_equal(sa_pagemap_find(sa_span_end(&a) - 1), &a);
    set_span(&b, edge - 4 * SA_PAGE_BYTES, 8, 0);
    assert_ptr_equal(sa_pagemap_find(edge - 4 * SA_PAGE_BYTES), &b);
    assert_ptr_equal(sa_pagemap_find(edge + 4 * SA_PAGE_BYTES - 1), &b);
}

static void test_pagemap_grow_refuses_addresses_beyond_the_map(void **state)
{
    uintptr_t end = (uintptr_t)1 << SA_ADDRESS_BITS;

    (void)state;
    assert_true(sa_pagemap_grow(end - SA_PAGE_BYTES, SA_PAGE_BYTES));
    assert_false(sa_pagemap_grow(end - SA_PAGE_BYTES, 2 * SA_PAGE_BYTES));
    assert_false(sa_pagemap_grow(end, SA_PAGE_BYTES));
    assert_false(sa_pagemap_grow(end << 3, SA_PAGE_BYTES));
}

static void test_pagemap_grow_fails_and_recovers_when_memory_runs_out(void **state)
{
    uintptr_t start = WINDOW(0x800);
    long calls = 0;

    (void)state;
    /* The next mapping fails, then the one after it, until growing needs no more than succeed. */
    for (;; calls++) {
        test_faults_clear();
        test_faults.mmap_after = calls;
        if (sa_pagemap_grow(start, SA_PAGE_BYTES << 20))
            break;
        assert_null(sa_pagemap_find(start));
        assert_int_equal(sa_pagemap_class(start), 0);
    }
    test_faults_clear();
    assert_true(calls >= 2); /* a leaf of classes and blocks for 256 leaves of spans */
    assert_null(sa_pagemap_find(start));
    start += WINDOW(1);
    test_faults.mmap_after = 0;
    assert_false(sa_pagemap_grow(start, SA_PAGE_BYTES));
    test_faults_clear();
    assert_true(sa_pagemap_grow(start, SA_PAGE_BYTES));
}

/* The middle of a large span may be unknown (never wrong), its ends may not. */
static bool is_end(const struct sa_span *s, uintptr_t page)
{
    return page == s->start || page == sa_span_end(s) - SA_PAGE_BYTES;
}

/* Random spans, placed and taken away, against an array of what each page should say. */
static void test_pagemap_matches_a_plain_array(void **state)
{
    enum { PAGES = 3000, SPANS = 200 };
    static struct sa_span spans[SPANS];
    static struct sa_span *page_of[PAGES];
    struct test_random r = {0x9a9e};
    uintptr_t base = OTHER + (uintptr_t)0x7ffe000 - 100 * SA_PAGE_BYTES; /* over a leaf's edge */

    (void)state;
    for (int step = 0; step < 20000; step++) {
        struct sa_span *s = &spans[test_random_below(&r, SPANS)];
        size_t pages = test_random_size(&r, 7), at = test_random_below(&r, PAGES - pages);
        bool room = true;

        if (s->state != SA_SPAN_UNUSED) {
            if (s->cls)
                sa_pagemap_clear_classes(s);
            for (size_t i = 0; i < s->pages; i++)
                page_of[(s->start - base) / SA_PAGE_BYTES + i] = NULL;
            s->state = SA_SPAN_UNUSED;
        }
        for (size_t i = 0; i < pages; i++)
            room &= page_of[at + i] == NULL;
        if (room) {
            set_span(s, base + at * SA_PAGE_BYTES, (uint32_t)pages,
                     (unsigned)test_random_below(&r, 3));
            for (size_t i = 0; i < pages; i++)
                page_of[at + i] = s;
        }
        at = test_random_below(&r, PAGES);
        s = sa_pagemap_find(base + at * SA_PAGE_BYTES + test_random_below(&r, SA_PAGE_BYTES));
        if (!page_of[at])
            assert_null(s);
        else if (s || page_of[at]->cls || is_end(page_of[at], base + at * SA_PAGE_BYTES))
            assert_ptr_equal(s, page_of[at]);
        assert_int_equal(sa_pagemap_class(base + at * SA_PAGE_BYTES),
                         page_of[at] ? page_of[at]->cls : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pagemap_knows_nothing_at_first),
        cmocka_unit_test(test_pagemap_opens_its_tables_as_far_as_needed),
        cmocka_unit_test(test_pagemap_home_window_is_what_the_fast_path_sees),
        cmocka_unit_test(test_pagemap_classes_at_a_step),
        cmocka_unit_test(test_pagemap_objects_spans_in_several_windows),
        cmocka_unit_test(test_pagemap_large_spans_have_their_ends),
        cmocka_unit_test(test_pagemap_find_rejects_stale_entries),
        cmocka_unit_test(test_pagemap_grows_across_leaves_and_windows),
        cmocka_unit_test(test_pagemap_grow_refuses_addresses_beyond_the_map),
        cmocka_unit_test(test_pagemap_grow_fails_and_recovers_when_memory_runs_out),
        cmocka_unit_test(test_pagemap_matches_a_plain_array),
    };

    return cmocka_run_group_tests_name("pagemap", tests, set_up, NULL);
}
