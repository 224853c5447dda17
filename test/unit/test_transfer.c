/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer cache: last in first out, bounded, what does not fit goes to the central free list,
 * idle objects are passed on, counters; and its split in domains with a made-up topology.
 */
#include "alloc/middle/transfer.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"
#include "test/unit/objects.h"

#include <string.h>

#define CLS 8

static struct sa_transfer_stats stats(unsigned cls)
{
    struct sa_transfer_stats s;

    sa_transfer_stats(cls, &s);
    return s;
}

static size_t spans(unsigned cls)
{
    struct sa_central_stats s;

    sa_central_stats(cls, &s);
    return s.spans;
}

static void test_transfer_gives_the_last_first(void **state)
{
    void *in[10], *out[10];

    (void)state;
    assert_int_equal(sa_transfer_remove(0, CLS, in, 10), 10);
    assert_int_equal(stats(CLS).objects, 0); /* all came from the central list */
    sa_transfer_insert(0, CLS, in, 10);
    assert_int_equal(stats(CLS).objects, 10);
    assert_int_equal(sa_transfer_remove(0, CLS, out, 4), 4);
    assert_memory_equal(out, in + 6, 4 * sizeof(void *));
    assert_int_equal(sa_transfer_remove(0, CLS, out, 10), 6); /* what is there is enough */
    assert_memory_equal(out, in, 6 * sizeof(void *));
    sa_central_insert(CLS, in, 10);
    assert_int_equal(spans(CLS), 0);
}

static void test_transfer_counts_hits_and_misses(void **state)
{
    const size_t batch = sa_size_classes.of[CLS].batch;
    struct sa_transfer_stats before = stats(CLS), after;
    void *objs[SA_MOVE_MOST];

    (void)state;
    assert_int_equal(sa_transfer_remove(0, CLS, objs, batch), batch); /* miss */
    assert_int_equal(sa_transfer_remove(0, CLS, objs + batch, 1), 1); /* miss, partial */
    sa_transfer_insert(0, CLS, objs, batch + 1);                      /* hit */
    assert_int_equal(sa_transfer_remove(0, CLS, objs, batch), batch); /* hit */
    sa_transfer_insert(0, CLS, objs, batch);                          /* hit */
    after = stats(CLS);
    assert_int_equal(after.remove_misses - before.remove_misses, 2);
    assert_int_equal(after.remove_partial - before.remove_partial, 1);
    assert_int_equal(after.remove_hits - before.remove_hits, 1);
    assert_int_equal(after.insert_hits - before.insert_hits, 2);
    assert_int_equal(after.insert_misses - before.insert_misses, 0);
    sa_transfer_flush();
    assert_int_equal(spans(CLS), 0);
}

/* Never more than its capacity, which never exceeds the maximum; the rest goes to the spans. */
static void test_transfer_is_bounded(void **state)
{
    const unsigned cls = sa_size_class_find(32768);
    static void *objs[20000];
    size_t most = stats(cls).max_capacity, n = 0;

    (void)state;
    assert_true(most > 0 && most + SA_MOVE_MOST < TEST_COUNT(objs));
    assert_int_equal(stats(cls).capacity, 0); /* no memory for a class that was never used */
    while (n < most + 10)
        n += sa_transfer_remove(0, cls, objs + n, 1);
    for (size_t i = 0; i < n; i++)
        sa_transfer_insert(0, cls, objs + i, 1);
    assert_int_equal(stats(cls).capacity, most);
    assert_int_equal(stats(cls).objects, most);
    assert_int_equal(stats(cls).insert_misses, 10);
    sa_transfer_flush();
    assert_int_equal(stats(cls).objects, 0);
    assert_int_equal(spans(cls), 0);
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
    assert_int_equal(stats(CLS).objects, 100);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(sa_transfer_remove(0, CLS, out, 30), 30);
        sa_transfer_insert(0, CLS, out, 30);
    }
    sa_transfer_plunder(); /* it never fell below 70 */
    assert_int_equal(stats(CLS).objects, 30);
    sa_transfer_plunder(); /* nothing was taken */
    assert_int_equal(stats(CLS).objects, 0);
    assert_int_equal(spans(CLS), 0);
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
    assert_int_equal(spans(CLS), 0);
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

static void churn(int index, void *unused)
{
    struct test_random r = {0x77a + (uint64_t)index};
    void *mine[600];
    size_t count = 0;

    (void)unused;
    for (int step = 0; step < 4000; step++) {
        unsigned cls = CLS;
        size_t n = 1 + test_random_below(&r, SA_MOVE_MOST);

        if (test_random_below(&r, 2) && count + n <= TEST_COUNT(mine)) {
            n = sa_transfer_remove(index, cls, mine + count, n);
            THREAD_CHECK(n > 0);
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_claim(mine[count + i]));
            count += n;
        } else if (count) {
            n = sa_min(n, count);
            count -= n;
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_give_up(mine[count + i]));
            sa_transfer_insert(index, cls, mine + count, n);
        }
        if (index == 0 && step % 100 == 0)
            sa_transfer_plunder();
        if (index == 1 && step % 500 == 0)
            sa_transfer_flush();
    }
    for (size_t i = 0; i < count; i++)
        THREAD_CHECK(object_give_up(mine[i]));
    for (size_t i = 0; i < count; i += SA_MOVE_MOST)
        sa_transfer_insert(index, CLS, mine + i, sa_min(count - i, SA_MOVE_MOST));
}

static void test_transfer_hands_nothing_out_twice_to_threads(void **state)
{
    (void)state;
    test_threads_run(4, churn, NULL);
    test_threads_check();
    sa_transfer_flush();
    assert_int_equal(stats(CLS).objects, 0);
    assert_int_equal(spans(CLS), 0);
}

static void split_fails(void *unused)
{
    static const uint8_t domain_of[] = {0, 1};

    (void)unused;
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 1) == 0);
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 1000) == 0);
    test_faults.mmap_after = 0;
    /* 64 domains need more metadata than what is left of a block. */
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 64) == 0);
    CHILD_CHECK(sa_transfer_domains() == 1);
    test_faults_clear();
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 2) == 1);
    CHILD_CHECK(sa_transfer_domains() == 2);
}

static void test_transfer_split_fails_without_memory(void **state)
{
    (void)state;
    test_child_passes(split_fails, NULL);
}

/* CPUs 0, 2 and 4 share a cache, 1 and 3 another, 5 has its own. */
static void test_transfer_split_keeps_domains_apart(void **state)
{
    static const uint8_t domain_of[] = {0, 1, 0, 1, 0, 2};
    const size_t capacity = stats(CLS).max_capacity;
    void *objs[6], *out[6];

    (void)state;
    assert_int_equal(sa_transfer_domains(), 1);
    for (int i = 0; i < 6; i++)
        assert_int_equal(sa_transfer_remove(i, CLS, &objs[i], 1), 1);
    sa_transfer_insert(2, CLS, &objs[0], 1); /* before the split: stays in domain 0 */
    assert_int_equal(sa_transfer_split(domain_of, 6, 3), 1);
    assert_int_equal(sa_transfer_domains(), 3);
    assert_int_equal(sa_transfer_split(domain_of, 6, 3), 0); /* once */
    assert_int_equal(stats(CLS).max_capacity, 3 * capacity);

    sa_transfer_insert(1, CLS, &objs[1], 1);
    sa_transfer_insert(5, CLS, &objs[5], 1);
    assert_int_equal(stats(CLS).objects, 3);
    assert_int_equal(sa_transfer_remove(3, CLS, out, 1), 1);
    assert_ptr_equal(out[0], objs[1]);
    assert_int_equal(sa_transfer_remove(4, CLS, out, 1), 1);
    assert_ptr_equal(out[0], objs[0]);
    assert_int_equal(sa_transfer_remove(5, CLS, out, 1), 1);
    assert_ptr_equal(out[0], objs[5]);
    assert_int_equal(stats(CLS).objects, 0);

    /* CPUs that the topology does not name, and none at all, count as domain 0. */
    sa_transfer_insert(6, CLS, &objs[0], 1);
    assert_int_equal(sa_transfer_remove(0, CLS, out, 1), 1);
    assert_ptr_equal(out[0], objs[0]);
    sa_transfer_insert(-1, CLS, &objs[0], 1);
    assert_int_equal(sa_transfer_remove(8191, CLS, out, 1), 1);
    assert_ptr_equal(out[0], objs[0]);

    for (int i = 0; i < 6; i++)
        sa_transfer_insert(i, CLS, &objs[i], 1);
    sa_transfer_flush(); /* of every domain */
    assert_int_equal(stats(CLS).objects, 0);
    assert_int_equal(spans(CLS), 0);
}

static void test_transfer_hands_nothing_out_twice_across_domains(void **state)
{
    (void)state;
    test_threads_run(6, churn, NULL);
    test_threads_check();
    sa_transfer_flush();
    assert_int_equal(spans(CLS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfer_does_without_slots),
        cmocka_unit_test(test_transfer_split_fails_without_memory),
        cmocka_unit_test(test_transfer_gives_the_last_first),
        cmocka_unit_test(test_transfer_counts_hits_and_misses),
        cmocka_unit_test(test_transfer_is_bounded),
        cmocka_unit_test(test_transfer_plunder_passes_on_what_is_idle),
        cmocka_unit_test(test_transfer_passes_on_the_oldest),
        cmocka_unit_test(test_transfer_hands_nothing_out_twice_to_threads),
        /* From here on the cache is split, which cannot be undone. */
        cmocka_unit_test(test_transfer_split_keeps_domains_apart),
        cmocka_unit_test(test_transfer_hands_nothing_out_twice_across_domains),
    };

    test_start_floors();
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
