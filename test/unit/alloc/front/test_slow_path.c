/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator without its entry points: sizes, alignments, zeroed blocks, what is said about
 * blocks, the fast paths together with the slow ones, and memory that runs out.
 */
#include "alloc/front/slow_path.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/fast_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/blocks.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

#define MIB (1ul << 20)

static void *slow_alloc(size_t size)
{
    return sa_front_alloc(size, 1, false);
}

static void *slow_alloc_zeroed(size_t size)
{
    return sa_front_alloc(size, 1, true);
}

static void slow_free(void *p)
{
    if (!sa_fast_free_other(p))
        sa_front_free(p);
}

static void slow_free_sized(void *p, size_t size)
{
    sa_front_free_sized(p, size, 0);
}

static void test_front_serves_every_small_size(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 3000; size++) {
        unsigned char *p = sa_front_alloc(size, 1, false);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % SA_MIN_ALIGN, 0);
        assert_true(sa_front_size(p, "test") >= size);
        assert_int_equal(sa_front_size(p, "test"), sa_front_estimate(size));
        assert_int_equal(sa_front_size_if_ours(p), sa_front_size(p, "test"));
        memset(p, 1, sa_front_size(p, "test"));
        sa_front_free(p);
    }
    assert_nothing_in_use();
}

/* Around every class's size and every power of two up to 1 GiB. */
static void test_front_serves_edges_of_sizes(void **state)
{
    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        for (int d = -1; d <= 1; d++) {
            size_t size = sa_size_classes.of[cls].size + (size_t)d;
            unsigned char *p = sa_front_alloc(size, 1, false);

            assert_non_null(p);
            assert_in_range(sa_front_size(p, "test"), size, size + size / 4 + 2 * SA_PAGE_BYTES);
            assert_int_equal(sa_front_size(p, "test"), sa_front_estimate(size));
            p[0] = p[size - 1] = 1;
            sa_front_free_sized(p, size, 0);
        }
    }
    for (unsigned log = 18; log <= 30; log++) {
        for (int d = -1; d <= 1; d++) {
            size_t size = ((size_t)1 << log) + (size_t)d;
            unsigned char *p = sa_front_alloc(size, 1, false);

            assert_non_null(p);
            assert_true(sa_front_size(p, "test") >= sa_front_estimate(size));
            p[0] = p[size - 1] = 1;
            sa_front_free_sized(p, size, 0);
        }
    }
    assert_nothing_in_use();
}

static void test_front_aligns(void **state)
{
    static const size_t sizes[] = {0, 1, 16, 100, 1024, 5000, 70000, 262144, 262145, 3 * MIB};

    (void)state;
    for (unsigned log = 0; log <= 30; log++) {
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            size_t align = (size_t)1 << log;
            unsigned char *p = sa_front_alloc(sizes[i], align, false), *q;

            assert_non_null(p);
            assert_int_equal((uintptr_t)p & (align - 1), 0);
            assert_true(sa_front_size(p, "test") >= sizes[i]);
            if (sizes[i])
                p[0] = p[sizes[i] - 1] = 1;
            q = sa_front_alloc(sizes[i], align, true);
            assert_true(q && ((uintptr_t)q & (align - 1)) == 0 && is_zero(q, sizes[i]));
            sa_front_free(q);
            sa_front_free_sized(p, sizes[i], align);
        }
    }
    assert_nothing_in_use();
}

static void test_front_refuses_impossible_sizes(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1,
                                   (size_t)1 << 48};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_null(sa_front_alloc(sizes[i], 1, false));
        assert_null(sa_front_alloc(sizes[i], 4096, true));
        if (sizes[i] > PTRDIFF_MAX)
            assert_int_equal(sa_front_estimate(sizes[i]), 0);
    }
    assert_null(sa_front_alloc(1, (size_t)1 << 62, false));
    assert_null(sa_front_alloc(1, (size_t)1 << 63, false));
    assert_null(sa_front_alloc(PTRDIFF_MAX, (size_t)1 << 62, false));
    assert_nothing_in_use();
}

/* Memory that was used and freed, by class and by span, before and after it went to the system. */
static void test_front_zeroes(void **state)
{
    struct test_random r = {0xf207};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t size = test_random_size(&r, 23);
        unsigned char *p = sa_front_alloc(size, 1, test_random_below(&r, 2));
        unsigned char *q = sa_front_alloc(size, 1, true);

        assert_true(p && q && is_zero(q, size));
        memset(p, 0xaa, size);
        memset(q, 0xbb, size);
        sa_front_free(p);
        sa_front_free(q);
        if (round % 100 == 0)
            sa_maintenance_release(test_random_below(&r, 64 * MIB));
    }
    assert_nothing_in_use();
}

/* Pointers of every kind: 0 unless it is the start of a block. */
static void test_front_knows_what_is_ours(void **state)
{
    char *small = sa_front_alloc(100, 1, false), *large = sa_front_alloc(MIB, 1, false);
    int local;

    (void)state;
    assert_int_equal(sa_front_size_if_ours(small), 112);
    assert_int_equal(sa_front_size_if_ours(large), MIB);
    for (int i = 1; i < 112; i++)
        assert_int_equal(sa_front_size_if_ours(small + i), 0);
    for (size_t i = 1; i < MIB; i += 4001)
        assert_int_equal(sa_front_size_if_ours(large + i), 0);
    assert_int_equal(sa_front_size_if_ours(&local), 0);
    assert_int_equal(sa_front_size_if_ours(NULL), 0);
    assert_int_equal(sa_front_size_if_ours((void *)1), 0);
    assert_int_equal(sa_front_size_if_ours((void *)UINTPTR_MAX), 0);
    assert_int_equal(sa_front_size_if_ours((void *)test_front_knows_what_is_ours), 0);
    sa_front_free(large);
    assert_int_equal(sa_front_size_if_ours(large), 0);
    sa_front_free(small);
    assert_nothing_in_use();
}

/* A random address is not ours, and asking is safe. */
static void test_front_can_be_asked_about_any_address(void **state)
{
    struct test_random r = {0xadd2};

    (void)state;
    for (int i = 0; i < 1000000; i++)
        assert_int_equal(
            sa_front_size_if_ours((void *)(test_random_next(&r) >> test_random_below(&r, 64))), 0);
}

/*
 * The test of an object's start on the fast paths, for every address of a span of every class: it
 * must accept all objects and, where the page is in the map with its class, nothing else.
 */
static void test_front_fast_free_accepts_starts_only(void **state)
{
    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        const struct sa_hot_class *of = sa_fast_of_class(&sa_hot, SA_CLASS_OFFSET(cls));
        struct sa_span *s;
        void *obj;
        size_t wrong = 0, starts = 0;

        assert_int_equal(sa_central_remove(cls, &obj, 1), 1);
        s = sa_pagemap_span((uintptr_t)obj);
        for (uintptr_t at = s->start; at < sa_span_end(s); at++) {
            bool accepts = sa_pagemap_class(at) == cls &&
                           (at & of->start_mask) * of->start_check >> SA_START_SHIFT == 0;

            starts += accepts;
            wrong += accepts != (sa_class_index(k, at - s->start) >= 0);
        }
        assert_int_equal(wrong, 0);
        assert_int_equal(starts, k->objects);
        sa_central_insert(cls, &obj, 1);
    }
}

/* Both kinds of paths on the same blocks: a model with contents, sized and unsized frees. */
static void random_load(int seed, int steps, bool in_thread)
{
    enum { BLOCKS = 500 };
    struct test_random r = {0xfa57 + (uint64_t)seed};
    struct {
        unsigned char *p;
        size_t size;
        unsigned char mark;
    } b[BLOCKS] = {{NULL, 0, 0}};

    for (int step = 0; step < steps; step++) {
        size_t i = test_random_below(&r, BLOCKS), size = test_random_size(&r, 14);
        bool zero = test_random_below(&r, 4) == 0, right = true;

        if (test_random_below(&r, 1000) == 0)
            size = test_random_size(&r, 21);
        if (!b[i].p) {
            b[i].p = zero ? sa_fast_alloc(SA_FOR_C, size, true, slow_alloc_zeroed)
                          : sa_fast_alloc(SA_FOR_C, size, false, slow_alloc);
            right &= b[i].p && (uintptr_t)b[i].p % 16 == 0;
            right &= !zero || is_zero(b[i].p, size);
            b[i].size = size;
            b[i].mark = (unsigned char)test_random_next(&r);
            memset(b[i].p, b[i].mark, size);
        } else {
            right &= b[i].p[0] == b[i].mark && memcmp(b[i].p, b[i].p + 1, b[i].size - 1) == 0;
            if (test_random_below(&r, 2))
                sa_fast_free(SA_FOR_C, b[i].p, slow_free);
            else
                sa_fast_free_sized(SA_FOR_C, b[i].p, b[i].size, slow_free_sized);
            b[i].p = NULL;
        }
        if (in_thread)
            THREAD_CHECK(right);
        else
            assert_true(right);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (b[i].p)
            sa_fast_free(SA_FOR_C, b[i].p, slow_free);
}

static void test_front_fast_and_slow_paths_agree(void **state)
{
    (void)state;
    random_load(1, 300000, false);
    assert_nothing_in_use();
}

static void load_in_thread(int index, void *arg)
{
    (void)arg;
    random_load(index, 40000, true);
}

static void test_front_serves_threads(void **state)
{
    (void)state;
    test_threads_run(4, load_in_thread, NULL);
    test_threads_check();
    if (test_per_cpu())
        assert_nothing_in_use();
}

#define PASSED 5000

static void *volatile passed[PASSED]; /* atomic */

/* Blocks are freed by another thread than the one that allocated them. */
static void pass_on(int index, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < PASSED; i++) {
        if (index == 0) {
            size_t *p = sa_fast_alloc(SA_FOR_C, 16 + i % 3000, false, slow_alloc);

            THREAD_CHECK(p != NULL);
            *p = i;
            __atomic_store_n(&passed[i], p, __ATOMIC_RELEASE);
        } else {
            size_t *p;

            while (!(p = __atomic_load_n(&passed[i], __ATOMIC_ACQUIRE)))
                ;
            THREAD_CHECK(*p == i);
            sa_fast_free(SA_FOR_C, p, slow_free);
        }
    }
}

static void test_front_frees_what_others_allocated(void **state)
{
    (void)state;
    test_threads_run(2, pass_on, NULL);
    test_threads_check();
}

/* Address space runs out, for small and large blocks; what is there goes on working. */
static void run_out(void *unused)
{
    static unsigned char *b[20000];
    size_t n = 0, kept;

    (void)unused;
    b[n++] = sa_front_alloc(100, 1, false);
    test_faults.mmap_after = 0;
    CHILD_CHECK(sa_front_alloc(100 * MIB, 1, false) == NULL);
    while (n < TEST_COUNT(b) && (b[n] = sa_front_alloc(n % 5 ? 3000 : 20000, 1, false)))
        memset(b[n++], 1, 3000);
    CHILD_CHECK(n < TEST_COUNT(b));
    CHILD_CHECK(sa_front_realloc(b[0], 50 * MIB) == NULL);
    for (kept = n / 2; n > kept; n--)
        sa_front_free(b[n - 1]);
    for (; n < kept + kept / 2; n++) {
        b[n] = sa_front_alloc(3000, 1, true);
        CHILD_CHECK(b[n] && is_zero(b[n], 3000));
    }
    test_faults_clear();
    CHILD_CHECK((b[n++] = sa_front_alloc(100 * MIB, 1, false)) != NULL);
    while (n)
        sa_front_free(b[--n]);
    sa_maintenance_release(PTRDIFF_MAX);
    CHILD_CHECK(heap_in_use() == 0);
}

static void test_front_recovers_when_memory_runs_out(void **state)
{
    (void)state;
    test_child_passes(run_out, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front_recovers_when_memory_runs_out),
        cmocka_unit_test(test_front_serves_every_small_size),
        cmocka_unit_test(test_front_serves_edges_of_sizes),
        cmocka_unit_test(test_front_aligns),
        cmocka_unit_test(test_front_refuses_impossible_sizes),
        cmocka_unit_test(test_front_zeroes),
        cmocka_unit_test(test_front_knows_what_is_ours),
        cmocka_unit_test(test_front_can_be_asked_about_any_address),
        cmocka_unit_test(test_front_fast_free_accepts_starts_only),
        cmocka_unit_test(test_front_fast_and_slow_paths_agree),
        cmocka_unit_test(test_front_serves_threads),
        cmocka_unit_test(test_front_frees_what_others_allocated),
    };

    test_start(TEST_CACHE_LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
