/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as the front end keeps them: the soft limit gives back what is free and tells the program
 * once for each time that it is passed, outside of the gate; the hard one fails, lets go of what
 * caches hold first, and leaves room for what is freed. Each case runs in a child.
 */
#include "alloc/page_heap/account/limits.h"

#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

#define MIB (1ul << 20)

/* What records may add behind the back of a request: a block of the arena, and tables of the first
 * minutes. */
#define RECORDS MIB

struct list {
    void *first;
    size_t count;
};

static bool add(struct list *l, size_t size)
{
    void **p = sa_front_alloc(size, 1, false);

    if (!p)
        return false;
    memset(p, 1, size);
    *p = l->first;
    l->first = p;
    l->count++;
    return true;
}

static void drop(struct list *l, size_t count)
{
    while (l->first && count--) {
        void *next = *(void **)l->first;

        sa_front_free(l->first);
        l->first = next;
        l->count--;
    }
}

/* Blocks of all sizes come and go while less than the limit is in use: the footprint stays
 * within 1.05 of it. */
static void soft_limit_holds(void *unused)
{
    const size_t limit = 64 * MIB;
    static void *blocks[4096];
    static size_t sizes[4096];
    struct test_random r = {1};
    size_t in_use = 0, max = 0;

    (void)unused;
    sa_limits_set(SA_LIMIT_SOFT, limit);
    for (int i = 0; i < 60000; i++) {
        size_t k = test_random_below(&r, 4096), size;

        if (blocks[k])
            sa_front_free(blocks[k]);
        in_use -= sizes[k];
        /* Phases of small and of large blocks: what one leaves free is of no use to the other. */
        size = 1 + test_random_below(&r, i / 5000 % 2 ? 200000 : 20000);
        if (in_use + size > limit / 8 * 5)
            size = 1;
        blocks[k] = sa_front_alloc(size, 1, false);
        CHILD_CHECK(blocks[k] != NULL);
        sizes[k] = size;
        in_use += size;
        if (sa_footprint_bytes() > max)
            max = sa_footprint_bytes();
    }
    CHILD_CHECK(max <= limit + limit / 20);
    CHILD_CHECK(sa_limits.hits[SA_LIMIT_SOFT] > 0);
    CHILD_CHECK(sa_limits.shrinks[SA_LIMIT_SOFT] > 0);
    CHILD_CHECK(sa_limits.released_bytes[SA_LIMIT_SOFT] > 0);
    CHILD_CHECK(sa_limits.soft_calls == 0);
}

static void test_soft_limit_holds_while_memory_can_go(void **state)
{
    (void)state;
    test_child_passes(soft_limit_holds, NULL);
}

static int calls, depth;

static void tell(void *arg)
{
    struct list l = {0};

    CHILD_CHECK(arg == &calls);
    CHILD_CHECK(depth == 0); /* never within itself */
    CHILD_CHECK(sa_thread.gate_depth == 0);
    CHILD_CHECK(sa_thread.held_ranks == 0);
    depth++;
    calls++;
    CHILD_CHECK(add(&l, 20 * MIB) && add(&l, 100));
    drop(&l, 2);
    depth--;
}

static void told_once(void *unused)
{
    struct list l = {0}, more = {0};

    (void)unused;
    sa_soft_limit_set_callback(tell, &calls);
    sa_limits_set(SA_LIMIT_SOFT, 64 * MIB);
    while (l.count < 50)
        add(&l, MIB);
    CHILD_CHECK(calls == 0);
    while (l.count < 80)
        add(&l, MIB);
    CHILD_CHECK(calls == 1);
    /* Around the limit it is the same crossing. */
    for (int i = 0; i < 50; i++) {
        drop(&l, 17);
        while (l.count < 80)
            add(&l, MIB);
    }
    CHILD_CHECK(calls == 1);
    for (int i = 2; i < 5; i++) {
        drop(&l, 60);
        while (l.count < 80)
            add(&l, MIB);
        CHILD_CHECK(calls == i);
    }
    /* What is freed beyond the limit goes back without a request for more. */
    drop(&l, 12);
    CHILD_CHECK(sa_footprint_bytes() < 64 * MIB * 21 / 20 + (80 - 12 - 64) * MIB);
    /* A callback that comes when the limit is passed already is told, too. */
    sa_soft_limit_set_callback(NULL, NULL);
    while (l.count < 80)
        add(&l, MIB);
    sa_soft_limit_set_callback(tell, &calls);
    add(&more, MIB);
    CHILD_CHECK(calls == 5);
    CHILD_CHECK(sa_limits.soft_calls == 5);
}

static void test_program_is_told_once_for_each_crossing(void **state)
{
    (void)state;
    test_child_passes(told_once, NULL);
}

static void hard_limit_fails(void *arg)
{
    const size_t limit = 64 * MIB, size = *(size_t *)arg;
    struct list l = {0};
    size_t first;
    void *p;

    sa_limits_set(SA_LIMIT_HARD, limit);
    while (add(&l, size))
        if (l.count % 1000 == 0)
            CHILD_CHECK(sa_footprint_bytes() <= limit + RECORDS);
    CHILD_CHECK(sa_footprint_bytes() <= limit + RECORDS);
    CHILD_CHECK(l.count * size > (limit - limit / 8) / (1 + size / limit) - size);
    CHILD_CHECK(sa_limits.hits[SA_LIMIT_HARD] > 0);
    CHILD_CHECK(!sa_front_alloc(limit, 1, true));
    CHILD_CHECK(!sa_front_alloc(MIB, 65536, false) || size > MIB);
    /* What is freed can be had again, also where it lies scattered, and as blocks of another
     * size. */
    first = l.count;
    drop(&l, first / 2);
    while (add(&l, size))
        ;
    CHILD_CHECK(l.count >= first - first / 50);
    drop(&l, first / 2);
    p = sa_front_alloc(first / 2 * size * 3 / 4, 1, false);
    CHILD_CHECK(p != NULL);
    sa_front_free(p);
    drop(&l, SIZE_MAX);
    CHILD_CHECK(sa_footprint_bytes() <= limit + RECORDS);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    CHILD_CHECK(sa_front_alloc(limit, 1, true) != NULL);
}

static void test_hard_limit_fails(void **state)
{
    static size_t sizes[] = {64, 1000, 8192, 40000, 300000, MIB, 9 * MIB};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        test_child_passes(hard_limit_fails, &sizes[i]);
}

/* A large block grows where it lies while there is room for what is added, although there is none
 * for a copy. */
static void realloc_at_limit(void *unused)
{
    const size_t limit = 64 * MIB;
    char *p, *q;

    (void)unused;
    sa_limits_set(SA_LIMIT_HARD, limit);
    p = sa_front_alloc(30 * MIB, 1, false);
    CHILD_CHECK(p != NULL);
    memset(p, 7, 30 * MIB);
    for (size_t size = 31; size < 60; size++) {
        q = sa_front_realloc(p, size * MIB);
        CHILD_CHECK(q != NULL);
        p = q;
        memset(p + (size - 1) * MIB, 7, MIB);
    }
    CHILD_CHECK(!sa_front_realloc(p, 65 * MIB));
    for (size_t i = 0; i < 59 * MIB; i++)
        if (p[i] != 7)
            CHILD_CHECK(!"content kept");
    CHILD_CHECK(sa_front_realloc(p, 100) != NULL);
}

static void test_realloc_grows_up_to_the_limit(void **state)
{
    (void)state;
    test_child_passes(realloc_at_limit, NULL);
}

/* Limits below what is in use: what is free goes, what is used stays, nothing is added. */
static void below_use(void *unused)
{
    struct list used = {0}, free_ones = {0};
    size_t footprint;

    (void)unused;
    for (int i = 0; i < 200; i++) {
        add(&used, 100000);
        add(&used, 100000); /* what is free stays as long as it is half of what is used */
        add(&free_ones, 100000);
    }
    drop(&free_ones, 200);
    footprint = sa_footprint_bytes();
    sa_limits_set(SA_LIMIT_SOFT, 10 * MIB);
    CHILD_CHECK(add(&used, 100));
    sa_maintenance_release(sa_limits_surplus(SA_LIMIT_SOFT));
    CHILD_CHECK(sa_footprint_bytes() < footprint - 15 * MIB);
    sa_limits_set(SA_LIMIT_HARD, 1);
    CHILD_CHECK(!sa_front_alloc(MIB, 1, false));
    CHILD_CHECK(!sa_front_alloc(MIB, 1, true));
    CHILD_CHECK(sa_footprint_bytes() < footprint);
    for (void *p = used.first; p; p = *(void **)p)
        CHILD_CHECK(((char *)p)[99] == 1);
    drop(&used, SIZE_MAX);
    CHILD_CHECK(!sa_front_alloc(MIB, 1, false)); /* records alone are more than a byte */
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    CHILD_CHECK(add(&used, MIB));
}

static void test_limits_below_what_is_in_use(void **state)
{
    (void)state;
    test_child_passes(below_use, NULL);
}

enum { ROUNDS = SA_TSAN ? 3 : 20 }; /* slow there */

static void grow(int index, void *arg)
{
    struct test_random r = {(uint64_t)index + 1};
    const size_t limit = *(size_t *)arg, max = 256 * 1024;

    for (int round = 0; round < ROUNDS; round++) {
        struct list l = {0};

        while (add(&l, 16 + test_random_below(&r, max)))
            THREAD_CHECK(sa_footprint_bytes() <= limit + 8 * max + RECORDS);
        drop(&l, SIZE_MAX);
    }
}

/* Requests of 8 threads on their way are seen as taken before they are undone. */
static void threads_at_limit(void *unused)
{
    size_t limit = 48 * MIB;

    (void)unused;
    sa_limits_set(SA_LIMIT_HARD, limit);
    sa_limits_set(SA_LIMIT_SOFT, limit - limit / 8);
    test_threads_run(8, grow, &limit);
    test_threads_check();
    CHILD_CHECK(sa_footprint_bytes() <= limit);
    CHILD_CHECK(sa_limits.hits[SA_LIMIT_HARD] >= 8 * ROUNDS);
}

static void test_hard_limit_holds_between_threads(void **state)
{
    (void)state;
    test_child_passes(threads_at_limit, NULL);
}

static void test_limits_can_be_read(void **state)
{
    (void)state;
    assert_true(sa_limits_get(SA_LIMIT_SOFT) == SA_NO_LIMIT);
    assert_true(sa_limits_get(SA_LIMIT_HARD) == SA_NO_LIMIT);
    assert_false(sa_limits.active);
    sa_limits_set(SA_LIMIT_SOFT, 1ul << 40);
    assert_true(sa_limits.active);
    assert_int_equal(sa_limits_get(SA_LIMIT_SOFT), 1ul << 40);
    assert_true(sa_limits_get(SA_LIMIT_HARD) == SA_NO_LIMIT);
    assert_true(sa_limits_have_room(1ul << 50));
    sa_limits_set(SA_LIMIT_HARD, 1ul << 30);
    assert_false(sa_limits_have_room((1ul << 30) + 1));
    assert_int_equal(sa_limits_surplus(SA_LIMIT_HARD), 0);
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
    assert_int_equal(sa_limits_get(SA_LIMIT_HARD), 1ul << 30);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    assert_false(sa_limits.active);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_can_be_read),
        cmocka_unit_test(test_soft_limit_holds_while_memory_can_go),
        cmocka_unit_test(test_program_is_told_once_for_each_crossing),
        cmocka_unit_test(test_hard_limit_fails),
        cmocka_unit_test(test_realloc_grows_up_to_the_limit),
        cmocka_unit_test(test_limits_below_what_is_in_use),
        cmocka_unit_test(test_hard_limit_holds_between_threads),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
