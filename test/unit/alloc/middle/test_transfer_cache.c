/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer cache: last in first out, bounded, what does not fit goes to the central free list,
 * idle objects are passed on, counters, in debug builds the checks. One CPU at a time;
 * test_transfer_shards.c has more.
 */
#include "alloc/middle/transfer_cache.h"

#include "alloc/base/bits.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_shards.h"
#include "alloc/page_heap/account/heap_types.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/faults.h"
#include "test/support/start.h"

#include <string.h>

#define CLS 8

static void test_transfer_gives_the_last_first(void **state)
{
    void *in[10], *out[10];

    (void)state;
    assert_int_equal(sa_transfer_remove(0, CLS, in, 10), 10);
    assert_int_equal(transfer_stats(CLS).objects, 0); /* all came from the central list */
    sa_transfer_insert(0, CLS, in, 10);
    assert_int_equal(transfer_stats(CLS).objects, 10);
    assert_int_equal(sa_transfer_remove(0, CLS, out, 4), 4);
    assert_memory_equal(out, in + 6, 4 * sizeof(void *));
    assert_int_equal(sa_transfer_remove(0, CLS, out, 10), 6); /* what is there is enough */
    assert_memory_equal(out, in, 6 * sizeof(void *));
    sa_central_insert(CLS, in, 10);
    assert_int_equal(central_stats(CLS).spans, 0);
}

static void test_transfer_counts_hits_and_misses(void **state)
{
    const size_t batch = sa_size_classes.of[CLS].batch;
    struct sa_transfer_stats before = transfer_stats(CLS), after;
    void *objs[SA_MOVE_MAX];

    (void)state;
    assert_int_equal(sa_transfer_remove(0, CLS, objs, batch), batch); /* miss */
    assert_int_equal(sa_transfer_remove(0, CLS, objs + batch, 1), 1); /* miss, partial */
    sa_transfer_insert(0, CLS, objs, batch + 1);                      /* hit */
    assert_int_equal(sa_transfer_remove(0, CLS, objs, batch), batch); /* hit */
    sa_transfer_insert(0, CLS, objs, batch);                          /* hit */
    after = transfer_stats(CLS);
    assert_int_equal(after.remove_misses - before.remove_misses, 2);
    assert_int_equal(after.remove_partial - before.remove_partial, 1);
    assert_int_equal(after.remove_hits - before.remove_hits, 1);
    assert_int_equal(after.insert_hits - before.insert_hits, 2);
    assert_int_equal(after.insert_misses - before.insert_misses, 0);
    sa_transfer_flush();
    assert_int_equal(central_stats(CLS).spans, 0);
}

static void *many[20000];

/* So many out of the cache and the spans, and back. */
static void take_and_give(unsigned cls, size_t count)
{
    for (size_t n = 0; n < count; n++)
        assert_int_equal(sa_transfer_remove(0, cls, many + n, 1), 1);
    for (size_t n = 0; n < count; n++)
        sa_transfer_insert(0, cls, many + n, 1);
}

/* Never more than its capacity, which never exceeds the maximum; the rest goes to the spans. */
static void test_transfer_is_bounded(void **state)
{
    const unsigned cls = sa_size_class_find(32768);
    const size_t max = transfer_stats(cls).max_capacity;
    uint64_t before;

    (void)state;
    assert_true(max > 0 && max + SA_MOVE_MAX < TEST_COUNT(many));
    assert_int_equal(transfer_stats(cls).capacity,
                     0);          /* no memory for a class that was never used */
    take_and_give(cls, max + 10); /* the next time it has been missed */
    before = transfer_stats(cls).insert_misses;
    take_and_give(cls, max + 10);
    assert_int_equal(transfer_stats(cls).capacity, max);
    assert_int_equal(transfer_stats(cls).objects, max);
    assert_int_equal(transfer_stats(cls).insert_misses - before, 10);
    sa_transfer_flush();
    assert_int_equal(transfer_stats(cls).objects, 0);
    assert_int_equal(central_stats(cls).spans, 0);
}

static size_t stock; /* of many */

static void take(size_t n)
{
    for (; n; n--)
        CHILD_CHECK(sa_transfer_remove(0, CLS, many + stock++, 1) == 1);
}

static void give(size_t n)
{
    for (; n; n--)
        sa_transfer_insert(0, CLS, many + --stock, 1);
}

/* What nobody has missed goes to the spans beyond an eighth of the capacity; also again, after a
 * time in which nobody took anything. */
static void short_until_missed(void *unused)
{
    const size_t max = transfer_stats(CLS).max_capacity, few = max / 8;

    (void)unused;
    CHILD_CHECK(few > sa_size_classes.of[CLS].batch && 3 * max < TEST_COUNT(many));
    take(3 * max);
    give(2 * few); /* as with arrays that grow: only ever given */
    CHILD_CHECK(transfer_stats(CLS).objects == few);
    take(few); /* misses nothing */
    give(few + 1);
    CHILD_CHECK(transfer_stats(CLS).objects == few);
    take(few + 1); /* misses the last one */
    give(2 * max);
    CHILD_CHECK(transfer_stats(CLS).objects == max);
    for (int i = 0; i < 3; i++) { /* some is taken each time */
        sa_transfer_plunder();
        take(few);
        give(few);
        CHILD_CHECK(transfer_stats(CLS).capacity == max);
    }
    sa_transfer_plunder(); /* sees that some were taken */
    give(few);
    CHILD_CHECK(transfer_stats(CLS).capacity == max);
    sa_transfer_plunder(); /* nothing was */
    sa_transfer_flush();
    take(2 * few);
    give(2 * few);
    CHILD_CHECK(transfer_stats(CLS).objects == few && transfer_stats(CLS).capacity == few);
}

static void test_transfer_is_short_until_missed(void **state)
{
    (void)state;
    test_child_passes(short_until_missed, NULL);
}

/* What was not taken between two plunders is passed on, the rest stays. */
static void test_transfer_plunder_passes_on_what_is_idle(void **state)
{
    void *objs[100], *out[30];

    (void)state;
    sa_transfer_plunder();
    for (int i = 0; i < 100; i++)
        assert_int_equal(sa_transfer_remove(0, CLS, objs + i, 1), 1);
    sa_transfer_insert(0, CLS, objs, 100);
    sa_transfer_plunder(); /* 0 was the least since the last time: nothing is idle yet */
    assert_int_equal(transfer_stats(CLS).objects, 100);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(sa_transfer_remove(0, CLS, out, 30), 30);
        sa_transfer_insert(0, CLS, out, 30);
    }
    sa_transfer_plunder(); /* it never fell below 70 */
    assert_int_equal(transfer_stats(CLS).objects, 30);
    sa_transfer_plunder(); /* nothing was taken */
    assert_int_equal(transfer_stats(CLS).objects, 0);
    assert_int_equal(central_stats(CLS).spans, 0);
}

/* After a fall of the heap, what is given beyond a batch goes to the spans; and that is no sign of
 * a lack of capacity. */
static void after_a_fall(void *unused)
{
    const size_t batch = sa_size_classes.of[CLS].batch, few = transfer_stats(CLS).max_capacity / 8;

    (void)unused;
    CHILD_CHECK(few > batch);
    take(few);
    for (size_t n = few; n; n--) {
        sa_page_heap_fall = SA_FALL_BEGUN; /* the page heap ends it with each span */
        give(1);
    }
    CHILD_CHECK(transfer_stats(CLS).objects == batch);
    take(few);
    sa_page_heap_fall = SA_FALL_NONE;
    give(few);
    CHILD_CHECK(transfer_stats(CLS).objects == few && transfer_stats(CLS).capacity == few);
}

static void test_transfer_takes_a_batch_after_a_fall(void **state)
{
    (void)state;
    test_child_passes(after_a_fall, NULL);
}

static void test_transfer_passes_on_the_oldest(void **state)
{
    void *objs[20], *out[10];

    (void)state;
    assert_int_equal(sa_transfer_remove(0, CLS, objs, 20), 20);
    sa_transfer_insert(0, CLS, objs, 10);
    sa_transfer_plunder();
    sa_transfer_insert(0, CLS, objs + 10, 10);
    sa_transfer_plunder(); /* 10 were never needed: they go, and the last 10 stay */
    assert_int_equal(sa_transfer_remove(0, CLS, out, 10), 10);
    assert_memory_equal(out, objs + 10, sizeof(out));
    sa_transfer_insert(0, CLS, out, 10);
    sa_transfer_flush();
    assert_int_equal(central_stats(CLS).spans, 0);
}

/* Without memory for its slots the cache is left out. */
static void without_slots(void *unused)
{
    void *objs[32];

    (void)unused;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        size_t n = sa_transfer_remove(0, cls, objs, 4);

        CHILD_CHECK(n >= 1);
        test_faults.mmap_after = 0;
        sa_transfer_insert(0, cls, objs, n);
        test_faults_clear();
    }
}

static void test_transfer_does_without_slots(void **state)
{
    (void)state;
    test_child_passes(without_slots, NULL);
}

#ifdef SA_DEBUG
/* A stack with 10 objects. */
static struct sa_transfer *filled(void)
{
    void *objs[10];

    CHILD_CHECK(sa_transfer_remove(0, CLS, objs, 10) == 10);
    sa_transfer_insert(0, CLS, objs, 10);
    sa_transfer_plunder();
    sa_transfer_validate();
    return &sa_transfer_first[sa_first_use_index(CLS)];
}

static void high_low_water(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    filled()->low_water = 11;
    sa_transfer_validate();
}

static void too_many(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    struct sa_transfer *t = filled();

    (void)unused;
    t->used = (uint16_t)((uintptr_t)t->slots[-1] + 1);
    sa_transfer_validate();
}

static void other_class(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    struct sa_transfer *t = filled();

    (void)unused;
    sa_central_remove(CLS + 1, &t->slots[3], 1);
    sa_transfer_validate();
}

/* No lock is taken for the damage: each child has one thread. */
static void test_transfer_validate_finds_damage(void **state)
{
    (void)state;
    test_child_aborts(high_low_water, NULL, "low_water");
    test_child_aborts(too_many, NULL, "transfer_room");
    test_child_aborts(other_class, NULL, "sa_mixed_class");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer_does_without_slots),
        cmocka_unit_test(test_transfer_gives_the_last_first),
        cmocka_unit_test(test_transfer_counts_hits_and_misses),
        cmocka_unit_test(test_transfer_is_bounded),
        cmocka_unit_test(test_transfer_is_short_until_missed),
        cmocka_unit_test(test_transfer_plunder_passes_on_what_is_idle),
        cmocka_unit_test(test_transfer_takes_a_batch_after_a_fall),
        cmocka_unit_test(test_transfer_passes_on_the_oldest),
#ifdef SA_DEBUG
        cmocka_unit_test(test_transfer_validate_finds_damage),
#endif
    };

    test_start_layers();
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
