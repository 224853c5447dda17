/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that realloc lengthens again and again: they stay where they are as long as there is room,
 * are blocks of the class of their size for everybody who asks, are sampled like others, and leave
 * nothing behind in the caches.
 */
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/vm.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/sampled.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <math.h>

#define KIB 1024ul

/* With other pages than of 4 KiB, fewer classes have a span for each object. */
#define SKIP_UNLESS_ALONE()                                                                        \
    do {                                                                                           \
        if (sa_vm.page_step != 1 || sa_vm.page_bytes != 4096)                                      \
            TEST_SKIP("pages of another size");                                                    \
    } while (0)

static unsigned class_of(const void *p)
{
    return sa_pagemap_class((uintptr_t)p);
}

/* Objects of the class in caches of all kinds. */
static size_t cached(unsigned cls)
{
    struct sa_cpu_class_stats cpus;

    sa_cpu_cache_class_stats(cls, &cpus);
    return cpus.objects + transfer_stats(cls).objects;
}

/* From the first class that has a span for each object to 1 MiB, in small steps, without a copy. */
static void test_realloc_in_place_keeps_the_address(void **state)
{
    unsigned char *p, *first;

    (void)state;
    /* From here on: a block that is freed into the cache of one CPU is not found from another
     * one. */
    test_pin();
    SKIP_UNLESS_ALONE();
    set_interval(0);
    p = first = sa_front_alloc(65 * KIB, 1, false);
    fill(p, 65 * KIB, 1);
    for (size_t size = 66 * KIB; size < MIB; size += 1000) {
        unsigned cls;

        p = sa_front_realloc(p, size);
        assert_ptr_equal(p, first);
        cls = class_of(p);
        assert_int_equal(cls, size > SA_MID_MAX ? 0 : sa_size_class_find(size));
        assert_true(sa_front_size(p, "test") >= size);
        assert_int_equal(sa_front_size_if_ours(p), sa_front_size(p, "test"));
        if (cls)
            assert_int_equal(central_stats(cls).spans, 1);
        p[size - 1] = 2;
    }
    for (unsigned cls = sa_size_class_find(72 * KIB); cls < sa_size_classes.count; cls++)
        assert_int_equal(central_stats(cls).spans, 0);
    assert_filled(p, 65 * KIB, 1);
    sa_front_free(p);
    assert_nothing_in_use();
}

/* Of each class on the way: freed by its size, it is reused as any block of that class. */
static void test_realloc_in_place_makes_blocks_of_the_class(void **state)
{
    (void)state;
    SKIP_UNLESS_ALONE();
    set_interval(0);
    for (size_t size = 72 * KIB; size <= SA_MID_MAX; size += 8 * KIB) {
        unsigned char *p = sa_front_realloc(sa_front_alloc(65 * KIB, 1, false), size);

        fill(p, size, 3);
        sa_front_free_sized(p, size, 0);
        assert_ptr_equal(sa_front_alloc(size, 1, false), p);
        sa_front_free_sized(p, size, 0);
    }
    assert_nothing_in_use();
}

/* What is behind the block is in use: it is copied, as other blocks are. */
static void test_realloc_in_place_stops_at_neighbours(void **state)
{
    unsigned char *p, *wall, *q;

    (void)state;
    set_interval(0);
    p = sa_front_alloc(128 * KIB, 1, false);
    wall = sa_front_alloc(128 * KIB, 1, false);
    assert_ptr_equal(wall, p + 128 * KIB);
    fill(p, 128 * KIB, 4);
    fill(wall, 128 * KIB, 5);
    q = sa_front_realloc(p, 129 * KIB);
    assert_ptr_not_equal(q, p);
    assert_filled(q, 128 * KIB, 4);
    assert_filled(wall, 128 * KIB, 5);
    sa_front_free(q);
    sa_front_free(wall);
    assert_nothing_in_use();
}

/* A block of the class that is cached serves before the page heap is asked. */
static void test_realloc_in_place_takes_what_is_cached(void **state)
{
    unsigned char *p, *cached_one;

    (void)state;
    set_interval(0);
    cached_one = sa_front_alloc(128 * KIB, 1, false);
    p = sa_front_alloc(100 * KIB, 1, false);
    fill(p, 100 * KIB, 7);
    sa_front_free(cached_one);
    p = sa_front_realloc(p, 128 * KIB);
    assert_ptr_equal(p, cached_one);
    assert_filled(p, 100 * KIB, 7);
    sa_front_free(p);
    assert_nothing_in_use();
}

/* Buffers that begin small, grow and are freed, again and again: they do not pile up in the
 * caches. */
static void test_realloc_in_place_does_not_fill_caches(void **state)
{
    static const size_t ends[] = {70 * KIB, 130 * KIB, 200 * KIB, 256 * KIB};

    (void)state;
    for (int64_t interval = 0; interval <= 300000; interval += 300000) {
        set_interval(interval);
        for (size_t i = 0; i < TEST_COUNT(ends); i++) {
            unsigned cls = sa_size_class_find(ends[i]);
            size_t settled = 0;

            for (int round = 0; round < 200; round++) {
                unsigned char *p = sa_front_alloc(1000, 1, false);

                for (size_t size = 1000; size < ends[i]; size += size / 4)
                    p = sa_front_realloc(p, size);
                p = sa_front_realloc(p, ends[i]);
                sa_front_free(p);
                if (round == 20)
                    settled = cached(cls);
                if (round > 20)
                    assert_in_range(cached(cls), 0, settled + 1);
            }
        }
        sa_maintenance_release(PTRDIFF_MAX);
    }
    set_interval(0);
    assert_nothing_in_use();
}

/* A sampled block that grows lies on pages of its own each time, and holds no other memory. */
static void test_realloc_in_place_of_sampled_blocks(void **state)
{
    unsigned char *p;

    (void)state;
    SKIP_UNLESS_ALONE();
    set_interval(1);
    p = sa_front_alloc(65 * KIB, 1, false);
    fill(p, 1000, 6);
    for (size_t size = 66 * KIB; size <= SA_MID_MAX; size += 5000) {
        p = sa_front_realloc(p, size);
        assert_true(own_page(p));
        assert_int_equal(live().samples, 1);
        assert_true(live().bytes == (double)sa_front_size(p, "test"));
    }
    p = sa_front_realloc(p, 300000);
    assert_true(!own_page(p));
    assert_int_equal(live().samples, 1);
    assert_true(live().bytes == (double)sa_front_size(p, "test"));
    assert_filled(p, 1000, 6);
    sa_front_free(p);
    assert_int_equal(live().samples, 0);
    set_interval(0);
    assert_nothing_in_use();
}

/*
 * Each growth is an allocation, tried with the probability of its class. The number that is sampled
 * is binomial; 5 deviations are allowed, once in 1.7 million by chance, and the seed is fixed.
 */
static void test_realloc_in_place_is_tried(void **state)
{
    enum { ROUNDS = SA_TSAN ? 300 : 3000 };
    double expected = 0, variance = 0, error;
    int won = 0;

    (void)state;
    set_interval(400000);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *p = sa_front_alloc(65 * KIB, 1, false);

        for (size_t size = 74 * KIB; size < 400 * KIB; size += size / 7) {
            unsigned cls = size > SA_MID_MAX ? 0 : sa_size_class_find(size);
            const struct sa_span *s;
            double q;

            p = sa_front_realloc(p, size);
            s = sa_pagemap_find((uintptr_t)p);
            won += s && s->sample && !class_of(p);
            q = cls ? sa_rate_of_class(cls).p
                    : 1 - exp(-(double)sa_front_size(p, "test") / 400000.0);
            expected += q;
            variance += q * (1 - q);
        }
        sa_front_free(p);
    }
    set_interval(0);
    error = (won - expected) / sqrt(variance);
    if (fabs(error) > 5)
        fail_msg("%d sampled, expected %.1f +- %.1f", won, expected, sqrt(variance));
    assert_nothing_in_use();
}

/* Threads that let blocks grow, hand them on, and free them in every way, while others look at the
 * figures. */
#define SLOTS 32

static struct slot {
    unsigned char *p; /* atomic; the rest belongs to who has taken it out */
    size_t size;
    unsigned seed;
} slots[SLOTS];

static void grow_one(struct test_random *r, unsigned char *p, size_t size, unsigned seed)
{
    struct slot *slot = &slots[test_random_below(r, SLOTS)];
    unsigned char *none = NULL;
    size_t more = sa_min(size + size / (1 + test_random_below(r, 30)) + 1, MIB);

    for (size_t i = 0; i < size; i += 997)
        THREAD_CHECK(p[i] == pattern(seed, i));
    p = sa_front_realloc(p, more);
    THREAD_CHECK(p != NULL);
    for (size_t i = 0; i < sa_min(size, more); i += 997)
        THREAD_CHECK(p[i] == pattern(seed, i));
    for (size_t i = 0; i < more; i += 997)
        p[i] = pattern(seed, i);
    if (test_random_below(r, 20) == 0) {
        sa_front_free(p);
    } else if (test_random_below(r, 20) == 0) {
        sa_front_free_sized(p, more, 0);
    } else if (__atomic_compare_exchange_n(&slot->p, &none, (unsigned char *)1, false,
                                           __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        slot->size = more;
        slot->seed = seed;
        __atomic_store_n(&slot->p, p, __ATOMIC_RELEASE);
    } else {
        sa_front_free_sized(p, more, 0);
    }
}

static void grow_in_thread(int index, void *arg)
{
    struct test_random r = {(uint64_t)index + 77};

    (void)arg;
    for (int i = 0; i < (SA_TSAN ? 1000 : 8000); i++) {
        struct slot *slot = &slots[test_random_below(&r, SLOTS)];
        unsigned char *p = __atomic_load_n(&slot->p, __ATOMIC_RELAXED);
        struct sa_central_stats stats;

        if (i % 64 == 0)
            for (unsigned cls = 80; cls < sa_size_classes.count; cls++)
                sa_central_stats(cls, &stats);
        if ((uintptr_t)p > 1 && __atomic_compare_exchange_n(&slot->p, &p, (unsigned char *)1, false,
                                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            size_t size = slot->size;
            unsigned seed = slot->seed;

            __atomic_store_n(&slot->p, NULL, __ATOMIC_RELEASE);
            grow_one(&r, p, size, seed);
            continue;
        }
        p = sa_front_alloc(60000, 1, false);
        THREAD_CHECK(p != NULL);
        for (size_t at = 0; at < 60000; at += 997)
            p[at] = pattern((unsigned)i, at);
        grow_one(&r, p, 60000, (unsigned)i);
    }
}

static void test_realloc_in_place_in_threads(void **state)
{
    (void)state;
    set_interval(1000000);
    test_threads_run(4, grow_in_thread, NULL);
    test_threads_check();
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].p)
            sa_front_free_sized(slots[i].p, slots[i].size, 0);
        slots[i].p = NULL;
    }
    set_interval(0);
    assert_int_equal(live().samples, 0);
    assert_nothing_in_use();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_realloc_in_place_in_threads),
        cmocka_unit_test(test_realloc_in_place_keeps_the_address),
        cmocka_unit_test(test_realloc_in_place_makes_blocks_of_the_class),
        cmocka_unit_test(test_realloc_in_place_stops_at_neighbours),
        cmocka_unit_test(test_realloc_in_place_takes_what_is_cached),
        cmocka_unit_test(test_realloc_in_place_does_not_fill_caches),
        cmocka_unit_test(test_realloc_in_place_of_sampled_blocks),
        cmocka_unit_test(test_realloc_in_place_is_tried),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("grow", tests, NULL, NULL);
}
