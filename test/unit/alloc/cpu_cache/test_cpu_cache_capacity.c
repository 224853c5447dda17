/* SPDX-License-Identifier: Apache-2.0 */
/* How much capacity a class gets: what its misses are worth. Bounds and budgets are tested by
 * test_cpu_cache. */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/size_class.h"
#include "alloc/page_heap/account/heap_types.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define LIMIT (1024ul * 1024)

static void *cache_alloc(unsigned cls)
{
    struct sa_sampling_decision decision = {.sampled = false};

    return sa_cpu_cache_alloc(cls, &decision);
}

static size_t capacity(unsigned cls)
{
    return sa_state_cap(sa_hot.slabs[sa_percpu_cpu()]->header[cls].state);
}

/* Where blocks come and go at random a cache misses ever more rarely, and is not given more for
 * that. */
static void test_cpu_cache_capacity_stays_where_misses_are_rare(void **state)
{
    const unsigned cls = sa_size_class_find(1024);
    struct test_random r = {0x0a9a};
    void *live[400] = {0};

    (void)state;
    for (int step = 0; step < 2000000; step++) {
        void **at = &live[test_random_below(&r, TEST_COUNT(live))];

        if (*at)
            sa_cpu_cache_free(cls, *at);
        *at = test_random_below(&r, 2) ? cache_alloc(cls) : NULL;
        /* A walk of 10 in standard deviation: within 50 it is but for one step in a million. */
        assert_true(capacity(cls) <= 4u * sa_size_classes.of[cls].batch);
    }
    for (size_t i = 0; i < TEST_COUNT(live); i++)
        if (live[i])
            sa_cpu_cache_free(cls, live[i]);
}

/* Where many are allocated and then freed, all of them are cached in the end, though they are as
 * many between two misses. */
static void test_cpu_cache_capacity_grows_to_the_batch(void **state)
{
    const unsigned cls = sa_size_class_find(1024);
    static void *objs[600];

    (void)state;
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < TEST_COUNT(objs); i++)
            objs[i] = cache_alloc(cls);
        for (size_t i = 0; i < TEST_COUNT(objs); i++)
            sa_cpu_cache_free(cls, objs[i]);
    }
    assert_in_range(capacity(cls), TEST_COUNT(objs), sa_size_classes.of[cls].max);
}

/* After a fall of the heap, a class that is full keeps a batch. */
static void test_cpu_cache_keeps_a_batch_after_a_fall(void **state)
{
    const unsigned cls = sa_size_class_find(1024);
    const size_t batch = sa_size_classes.of[cls].batch;
    static void *objs[1200];

    (void)state;
    assert_in_range(capacity(cls), 4 * batch, sa_size_classes.of[cls].max); /* the test before */
    for (size_t i = 0; i < TEST_COUNT(objs); i++)
        objs[i] = cache_alloc(cls);
    for (size_t i = 0; i < TEST_COUNT(objs); i++) {
        sa_page_heap_fall = SA_FALL_ANSWERED; /* the page heap ends it with each span */
        sa_cpu_cache_free(cls, objs[i]);
    }
    assert_in_range(capacity(cls), 1, batch);
    sa_page_heap_fall = SA_FALL_NONE;
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < TEST_COUNT(objs) / 2; i++)
            objs[i] = cache_alloc(cls);
        for (size_t i = 0; i < TEST_COUNT(objs) / 2; i++)
            sa_cpu_cache_free(cls, objs[i]);
    }
    assert_in_range(capacity(cls), 4 * batch, sa_size_classes.of[cls].max); /* it grows again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_cache_capacity_stays_where_misses_are_rare),
        cmocka_unit_test(test_cpu_cache_capacity_grows_to_the_batch),
        cmocka_unit_test(test_cpu_cache_keeps_a_batch_after_a_fall),
    };

    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("cpu_cache_capacity", tests, NULL, NULL);
}
