/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of new spans: a class that has many takes several at a time, so that they lie side by side
 * although another class grows, too; and gives back what it does not need.
 */
#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/start.h"

#define SPANS 640 /* of a class: runs of 16, the longest, from 512 on */
#define RUN   16

#define OBJECTS_MAX 256

/* Objects in the order in which they came, a span's worth at a time. */
static void *held[2][SPANS * OBJECTS_MAX];
static size_t holds[2];

static void hold_span(int which, unsigned cls)
{
    size_t want = sa_size_classes.of[cls].objects;

    while (want) {
        size_t n = sa_central_remove(cls, held[which] + holds[which], want);

        assert_true(n > 0);
        holds[which] += n;
        want -= n;
    }
}

static void give_all(int which, unsigned cls)
{
    sa_central_insert(cls, held[which], holds[which]);
    holds[which] = 0;
}

/* Every object is on a span, and every span counted. */
static void assert_adds_up(int which, unsigned cls)
{
    struct sa_central_stats s = central_stats(cls);
    size_t spans = 0;

    assert_int_equal(s.spans * sa_size_classes.of[cls].objects, s.free_objects + holds[which]);
    assert_int_equal(s.spans_requested - s.spans_returned, s.spans);
    for (int i = 0; i < SA_CENTRAL_BUCKETS; i++)
        spans += s.utilization[i];
    assert_int_equal(spans, s.spans);
}

/* How many of the spans of held objects, from one on, are followed by the one that came next. */
static size_t spans_in_order(int which, unsigned cls, size_t from)
{
    size_t each = sa_size_classes.of[cls].objects, n = 0;

    for (size_t i = from; i + 1 < holds[which] / each; i++) {
        const struct sa_span *a = sa_pagemap_find((uintptr_t)held[which][i * each]);
        const struct sa_span *b = sa_pagemap_find((uintptr_t)held[which][(i + 1) * each]);

        n += sa_span_end(a) == b->start;
    }
    return n;
}

static void test_runs_lie_side_by_side(void **state)
{
    const unsigned a = sa_size_class_find(64), b = sa_size_class_find(128);
    size_t in_use = heap_in_use();

    (void)state;
    assert_true(sa_size_classes.of[a].objects <= OBJECTS_MAX);
    assert_int_equal(sa_size_classes.of[a].pages, 1);
    assert_int_equal(sa_size_classes.of[b].pages, 1);
    for (int i = 0; i < SPANS; i++) {
        hold_span(0, a);
        hold_span(1, b);
        assert_adds_up(0, a);
        assert_true(central_stats(a).spans - holds[0] / sa_size_classes.of[a].objects < RUN);
        assert_true(central_stats(a).utilization[0] <= central_stats(a).spans / 32 + 1);
    }
    /* One of sixteen is the last of its run, and the address space may have a border somewhere. */
    assert_true(spans_in_order(0, a, 512) >= (SPANS - 512) * 7 / 8);
    assert_true(spans_in_order(1, b, 512) >= (SPANS - 512) * 7 / 8);
    give_all(0, a);
    give_all(1, b);
    assert_int_equal(central_stats(a).spans, 0); /* new ones went with those that became empty */
    assert_int_equal(central_stats(b).spans, 0);
    assert_int_equal(heap_in_use(), in_use);
}

/* So many that the next one begins a run, of which it is all that is used. */
static unsigned begin_run(size_t size)
{
    const unsigned cls = sa_size_class_find(size);

    while (holds[0] < 512 * sa_size_classes.of[cls].objects ||
           central_stats(cls).utilization[0] < RUN / 2)
        hold_span(0, cls);
    assert_adds_up(0, cls);
    return cls;
}

static void test_runs_go_when_they_are_not_needed(void **state)
{
    unsigned cls = begin_run(64);
    size_t left;

    (void)state;
    sa_transfer_plunder();
    left = central_stats(cls).utilization[0];
    hold_span(0, cls);
    hold_span(0, cls);
    sa_transfer_plunder(); /* two were needed since, and what was left goes */
    assert_int_equal(central_stats(cls).utilization[0], 0);
    assert_adds_up(0, cls);
    assert_true(left > 2);
    begin_run(64);
    sa_transfer_plunder();
    hold_span(0, cls);
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* What is used again and again stays, but for what was there in any case. */
static void test_runs_stay_while_they_are_used(void **state)
{
    unsigned cls = begin_run(64);
    size_t left;

    (void)state;
    sa_transfer_plunder();
    for (left = central_stats(cls).utilization[0] + 1; left; left--)
        hold_span(0, cls);
    left = central_stats(cls).utilization[0]; /* of another run */
    assert_int_equal(left, RUN - 1);
    sa_transfer_plunder(); /* there was a moment without any */
    assert_int_equal(central_stats(cls).utilization[0], left);
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

static void test_runs_go_at_once_when_memory_is_wanted(void **state)
{
    unsigned cls = begin_run(64);
    size_t in_use = heap_in_use(), left = central_stats(cls).utilization[0];

    (void)state;
    assert_true(left > 1);
    sa_transfer_flush();
    assert_int_equal(central_stats(cls).utilization[0], 0);
    assert_int_equal(heap_in_use(), in_use - left * SA_PAGE_BYTES);
    assert_adds_up(0, cls);
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

static void test_runs_go_when_the_class_shrinks(void **state)
{
    unsigned cls = begin_run(64);
    const size_t each = sa_size_classes.of[cls].objects;

    (void)state;
    while (holds[0]) {
        holds[0] -= each;
        sa_central_insert(cls, held[0] + holds[0], each);
        assert_adds_up(0, cls);
        assert_true(central_stats(cls).utilization[0] <= central_stats(cls).spans / 32 + 1);
    }
    assert_int_equal(central_stats(cls).spans, 0);
}

/* A class that goes up and down by a span goes on with its run, and asks the page heap for no
 * more. */
static void test_runs_stay_when_it_does_not(void **state)
{
    unsigned cls = begin_run(64);
    const size_t each = sa_size_classes.of[cls].objects;
    uint64_t requested;

    (void)state;
    sa_transfer_flush();
    hold_span(0, cls);
    requested = central_stats(cls).spans_requested;
    for (int i = 0; i < 1000; i++) {
        holds[0] -= each;
        sa_central_insert(cls, held[0] + holds[0], each);
        hold_span(0, cls);
    }
    assert_in_range(central_stats(cls).spans_requested - requested, 900,
                    1020); /* as many as became empty */
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* Nobody has an object of a new span: that ends the program, also before it gets as far as the
 * span. */
static void free_of_new(void *address)
{
    void *objs[] = {address};

    CHILD_CHECK(sa_pagemap_class((uintptr_t)address) == 0);
    sa_central_insert(sa_size_class_find(64), objs, 1);
}

static void test_runs_are_no_blocks_yet(void **state)
{
    unsigned cls = begin_run(64);
    const size_t size = sa_size_classes.of[cls].size, each = sa_size_classes.of[cls].objects;
    const struct sa_span *s = sa_pagemap_find((uintptr_t)held[0][holds[0] - 1]);

    (void)state;
    assert_true(central_stats(cls).utilization[0] > 0);
    test_child_aborts(free_of_new, (char *)sa_span_end(s) + size, "double free: 0x");
    hold_span(0, cls);
    assert_int_equal(sa_pagemap_class(sa_span_end(s) + size), cls);
    assert_int_equal(sa_pagemap_find(sa_span_end(s))->state, SA_SPAN_OBJECTS);
    assert_int_equal(holds[0] % each, 0);
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* New spans are not what spans have: what others free is better. */
static void test_runs_are_not_offered(void **state)
{
    unsigned cls = begin_run(64);

    (void)state;
    assert_true(central_stats(cls).utilization[0] > 0);
    assert_false(sa_central_has(cls));
    sa_central_insert(cls, held[0] + --holds[0], 1);
    assert_true(sa_central_has(cls));
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* Where memory is limited, and for classes of few objects, one span at a time. */
static void test_runs_are_not_for_all(void **state)
{
    const unsigned few = sa_size_class_find(1024);
    unsigned cls;

    (void)state;
    assert_true(sa_size_classes.of[few].objects <= 16);
    for (int i = 0; i < SPANS; i++) {
        hold_span(0, few);
        assert_int_equal(central_stats(few).utilization[0], 0);
    }
    give_all(0, few);
    cls = begin_run(64);
    sa_limits_set(SA_LIMIT_HARD, (size_t)1 << 40);
    sa_transfer_flush();
    for (int i = 0; i < RUN; i++) {
        hold_span(0, cls);
        assert_int_equal(central_stats(cls).utilization[0], 0);
    }
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    give_all(0, cls);
    assert_int_equal(central_stats(cls).spans, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_lie_side_by_side),
        cmocka_unit_test(test_runs_go_when_they_are_not_needed),
        cmocka_unit_test(test_runs_stay_while_they_are_used),
        cmocka_unit_test(test_runs_go_at_once_when_memory_is_wanted),
        cmocka_unit_test(test_runs_go_when_the_class_shrinks),
        cmocka_unit_test(test_runs_stay_when_it_does_not),
        cmocka_unit_test(test_runs_are_no_blocks_yet),
        cmocka_unit_test(test_runs_are_not_offered),
        cmocka_unit_test(test_runs_are_not_for_all),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("central_runs", tests, NULL, NULL);
}
