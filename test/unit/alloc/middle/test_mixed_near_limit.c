/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which spans become mixed when memory in use is near a limit: half-full ones of short objects,
 * also those of which pages went back, and also if the sparsest class has none to give; no span of
 * longer objects that is not sparse; and none of these far from the limit.
 */
#include "alloc/middle/mixed_spans.h"

#include "alloc/base/size_class.h"
#include "alloc/middle/central_empty.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/start.h"

#include <string.h>

#define MIB   (1ul << 20)
#define HELD  60000
#define SHORT 208 /* bytes of objects of which 1/2 stay */
#define OTHER 160 /* bytes of objects that fit between them */

static struct {
    void *p;
    unsigned cls;
} held[HELD];
static size_t count;

static uint64_t conversions(void)
{
    struct sa_mixed_stats s;

    sa_mixed_stats(&s);
    return s.conversions;
}

static void take(unsigned cls, size_t n)
{
    void *objs[32];

    while (n) {
        size_t got = sa_central_remove(cls, objs, n < 32 ? n : 32);

        assert_true(got > 0 && count + got <= HELD);
        for (size_t i = 0; i < got; i++) {
            memset(objs[i], (int)cls, sa_size_classes.of[cls].size);
            held[count].p = objs[i];
            held[count++].cls = cls;
        }
        n -= got;
    }
}

static void give(size_t i)
{
    const unsigned char *p = held[i].p;

    for (size_t k = 0; k < sa_size_classes.of[held[i].cls].size; k++)
        assert_int_equal(p[k], held[i].cls);
    sa_central_insert(held[i].cls, &held[i].p, 1);
    held[i] = held[--count];
}

/* Leaves each `keep`th of the objects of a class that together have so many bytes. */
static void leave(unsigned cls, size_t bytes, size_t keep)
{
    size_t first = count;

    take(cls, bytes / sa_size_classes.of[cls].size);
    for (size_t i = count; i-- > first;)
        if (i % keep)
            give(i);
}

/* Takes objects of OTHER bytes, more than a new span has; how many spans became mixed meanwhile. */
static uint64_t converted(void)
{
    unsigned cls = sa_size_class_find(OTHER);
    uint64_t before = conversions();

    take(cls, central_stats(cls).free_objects + 2 * sa_size_classes.of[cls].objects);
    return conversions() - before;
}

/* Sets a limit at so many times the memory in use, free pages left out. */
static void set_limit(enum sa_limit_kind kind, double times)
{
    while (sa_page_heap_release(&sa_page_heap_ordinary, 1024 * MIB))
        ;
    sa_limits_set(kind, (size_t)((double)sa_footprint_bytes() * times));
}

static void end(void)
{
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    while (count)
        give(count - 1);
    sa_central_flush();
    sa_mixed_validate();
    assert_int_equal(heap_in_use(), 0);
    assert_int_equal(sa_footprint_bytes(), sa_footprint_gross_bytes());
}

static void test_half_full_spans(void **state)
{
    unsigned other = sa_size_class_find(OTHER);
    size_t in_use, spans;

    (void)state;
    leave(sa_size_class_find(SHORT), 11 * MIB, 2);
    assert_int_equal(converted(), 0);
    set_limit(SA_LIMIT_SOFT, 1.2);
    assert_int_equal(converted(), 0);
    set_limit(SA_LIMIT_SOFT, 1);
    assert_true(converted() > 0);
    assert_int_equal(sa_pagemap_class((uintptr_t)held[count - 1].p), 0);
    assert_int_equal(sa_mixed_class((uintptr_t)held[count - 1].p), other);
    /* Spans of the class would take 1 MiB. */
    in_use = heap_in_use();
    spans = central_stats(other).spans;
    take(other, MIB / OTHER);
    assert_int_equal(central_stats(other).spans, spans);
    assert_true(heap_in_use() <= in_use);
    end();
}

/* The hard limit counts as well. */
static void test_half_full_spans_near_the_hard_limit(void **state)
{
    (void)state;
    leave(sa_size_class_find(SHORT), 11 * MIB, 2);
    set_limit(SA_LIMIT_HARD, 1.03);
    assert_true(converted() > 0);
    end();
}

/* Little is wasted: 3 MiB. */
static void test_full_spans(void **state)
{
    (void)state;
    leave(sa_size_class_find(SHORT), 6 * MIB, 2);
    set_limit(SA_LIMIT_SOFT, 1);
    assert_int_equal(converted(), 0);
    end();
}

/* Objects of a kernel page and a quarter, on full spans, of which each third is free. */
static void test_long_objects(void **state)
{
    size_t size = sa_vm.page_bytes + sa_vm.page_bytes / 4;
    unsigned cls = sa_size_class_find(size);
    size_t span = sa_size_classes.of[cls].size * sa_size_classes.of[cls].objects;

    (void)state;
    if (size > SA_MIXED_MAX)
        TEST_SKIP("objects of mixed spans are shorter");
    take(cls, 18 * MIB / span * sa_size_classes.of[cls].objects);
    for (size_t i = count; i-- > 0;)
        if (i % 3 == 0)
            give(i);
    set_limit(SA_LIMIT_SOFT, 1);
    assert_int_equal(converted(), 0);
    end();
}

/* Spans of which pages went back become mixed only near the limit. Their pages count again. */
static void test_emptied_spans(void **state)
{
    unsigned cls = sa_size_class_find(SHORT);
    size_t emptied;

    (void)state;
    leave(cls, 11 * MIB, 32);
    sa_central_empty(SIZE_MAX);
    emptied = central_stats(cls).emptied_bytes;
    if (!emptied) {
        end();
        TEST_SKIP("pages of the kernel are longer than these spans");
    }
    set_limit(SA_LIMIT_SOFT, 1);
    while (central_stats(cls).emptied_bytes == emptied && count < HELD / 2)
        converted();
    assert_true(central_stats(cls).emptied_bytes < emptied);
    end();
}

/* The sparsest class has pinned spans only. Another class serves. */
static void test_pinned_spans(void **state)
{
    unsigned sparsest = sa_size_class_find(96);
    size_t pinned;

    (void)state;
    leave(sparsest, MIB / 8, sa_size_classes.of[sparsest].objects);
    pinned = count;
    assert_true(pinned > 8);
    for (size_t i = 0; i < pinned; i++)
        assert_true(sa_central_pin(sparsest, held[i].p, true));
    leave(sa_size_class_find(SHORT), 11 * MIB, 2);
    set_limit(SA_LIMIT_SOFT, 1);
    assert_true(converted() > 0);
    for (size_t i = 0; i < pinned; i++)
        assert_true(sa_central_pin(sparsest, held[i].p, false));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_full_spans),
        cmocka_unit_test(test_half_full_spans_near_the_hard_limit),
        cmocka_unit_test(test_full_spans),
        cmocka_unit_test(test_long_objects),
        cmocka_unit_test(test_emptied_spans),
        cmocka_unit_test(test_pinned_spans),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("mixed_near_limit", tests, NULL, NULL);
}
