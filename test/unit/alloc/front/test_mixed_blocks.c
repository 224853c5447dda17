/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on mixed spans by way of the slow paths, while other threads take, free and resize blocks
 * on the same spans: no lookup fails, no two blocks overlap, and nothing is left at the end. All
 * the time; and beyond a soft limit, where fuller spans become mixed, while pages of free objects
 * go back. And caches do not keep blocks there of sizes that are no longer used. Blocks there have
 * the alignment that was asked for, though most objects of their class do not.
 */
#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define SLOTS   512  /* that threads use in the first test */
#define MORE    4096 /* and in the second one */
#define MOST    65536
#define ROUNDS  20000

#define KEPT 64

static size_t *kept[KEPT];  /* blocks of a page each, which stay where they are */
static size_t *slots[MOST]; /* atomic: whoever takes a block out owns it */
static size_t slot_count;   /* SLOTS or MORE */

/* The first and the last word of a block hold its size. */
static size_t *make(size_t size)
{
    size_t words = size / sizeof(size_t), *p = sa_front_alloc(size, 1, false);

    assert_non_null(p);
    p[0] = p[words - 1] = size;
    return p;
}

static void finish(size_t *p, uint64_t r)
{
    size_t size = p[0], words = size / sizeof(size_t);

    assert_int_equal(p[words - 1], size);
    assert_true(sa_front_size(p, "size") >= size);
    if (r % 8 == 0) {
        p = sa_front_realloc(p, 2 * size);
        assert_non_null(p);
        assert_int_equal(p[0], size);
        assert_int_equal(p[words - 1], size);
    }
    sa_front_free_aligned(p, 0);
}

static void *work(void *arg)
{
    struct test_random r = {(uintptr_t)arg};

    for (int i = 0; i < ROUNDS; i++) {
        /* Other sizes after each 1000 blocks, which all threads use at about the same time. */
        struct test_random of_phase = {1 + (uint64_t)i / 1000};
        size_t most = 64 + test_random_below(&of_phase, 6000);
        size_t *old, *p = make(i % 8 ? 16 + 8 * test_random_below(&r, most / 8) : SA_PAGE_BYTES);

        old = __atomic_exchange_n(&slots[test_random_below(&r, slot_count)], p, __ATOMIC_ACQ_REL);
        if (old)
            finish(old, test_random_next(&r));
        if (i % 4 == 0 && kept[0])
            assert_int_equal(sa_front_size(kept[test_random_below(&r, KEPT)], "size"),
                             SA_PAGE_BYTES);
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void finish_all(void)
{
    struct sa_mixed_stats s;
    int64_t mixed = 0;

    for (size_t i = 0; i < MOST; i++) {
        if (slots[i])
            finish(slots[i], 1);
        slots[i] = NULL;
    }
    for (int i = 0; i < KEPT; i++) {
        if (kept[i])
            finish(kept[i], 1);
        kept[i] = NULL;
    }
    sa_mixed_validate();
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        mixed += (int64_t)(sa_mixed_objects(cls) * sa_size_classes.of[cls].size);
    sa_mixed_stats(&s);
    assert_int_equal(mixed, s.used_bytes);
}

static void test_threads_share_mixed_spans(void **state)
{
    struct sa_mixed_stats s;

    (void)state;
    slot_count = SLOTS;
    work((void *)77); /* on spans of classes, of which many become sparse */
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = make(SA_PAGE_BYTES);
        finish(make(SA_PAGE_BYTES), 1); /* so that spans are cut beside those that stay */
    }
    run_threads();
    sa_mixed_use = SA_MIXED_AUTO;
    sa_mixed_stats(&s);
    assert_true(s.conversions > 0);
    assert_true(s.taken > 100);
    finish_all();
}

static void test_threads_beyond_a_limit(void **state)
{
    struct sa_limit_stats limit;
    struct sa_mixed_stats before, s;
    struct test_random r = {5};

    (void)state;
    /* Half of short blocks stay, 16 MiB, so that hardly a page has free objects alone. */
    for (size_t i = 0; i < MOST; i++)
        slots[i] = make(16 + 8 * test_random_below(&r, 120));
    for (size_t i = 0; i < MOST; i += 2) {
        finish(slots[i], 1);
        slots[i] = NULL;
    }
    slot_count = MORE;
    sa_limits_set(SA_LIMIT_SOFT, 1 << 20);
    sa_mixed_stats(&before);
    run_threads();
    sa_mixed_stats(&s);
    assert_true(s.conversions > before.conversions);
    assert_true(s.taken > before.taken + 100);
    sa_limits_stats(SA_LIMIT_SOFT, &limit);
    assert_true(limit.hits > 0);
    finish_all();
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
}

/* What is in caches goes back while other sizes come from mixed spans, a multiple of what the
 * caches may hold. */
static void test_caches_give_back_what_is_not_used(void **state)
{
    enum { OLD = 512, NEW = 1152 };
    const unsigned cls = sa_size_class_find(OLD);
    size_t cpus = (size_t)sysconf(_SC_NPROCESSORS_CONF),
           most = 4 * TEST_CACHE_LIMIT * cpus + (8 << 20);
    size_t n = most / NEW, **blocks = malloc(n * sizeof(*blocks));

    (void)state;
    assert_non_null(blocks);
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (int i = 0; i < SLOTS; i++)
        slots[i] = make(OLD);
    for (int i = 0; i < SLOTS; i++) {
        sa_front_free_aligned(slots[i], 0);
        slots[i] = NULL;
    }
    assert_true(sa_mixed_objects(cls) > 0);
    for (size_t i = 0; i < n; i++)
        blocks[i] = make(NEW);
    assert_int_equal(sa_mixed_objects(cls), 0);
    for (size_t i = 0; i < n; i++)
        sa_front_free_aligned(blocks[i], 0);
    free(blocks);
    sa_mixed_use = SA_MIXED_AUTO;
    finish_all();
}

/* Half of the blocks have an alignment. Those in caches that were allocated without one do not. */
static void test_alignments(void **state)
{
    struct test_random r = {9};
    size_t less = 0, aligned = 0;

    (void)state;
    slot_count = MORE;
    work((void *)78);
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (int i = 0; i < 20 * ROUNDS; i++) {
        struct test_random of_phase = {1 + (uint64_t)i / 4000};
        size_t align = (size_t)16 << test_random_below(&r, 10), *p;
        size_t most = sa_max(64 + test_random_below(&of_phase, 8000), align);
        size_t size = align * (1 + test_random_below(&r, most / align));
        bool plain = i % 2;

        p = sa_front_alloc(size, plain ? 1 : align, false);
        assert_non_null(p);
        p[0] = p[size / sizeof(size_t) - 1] = size;
        less += plain && align > SA_MIXED_ALIGN && (uintptr_t)p % align;
        aligned += !plain && align > SA_MIXED_ALIGN;
        assert_true(plain || (uintptr_t)p % align == 0);
        p = __atomic_exchange_n(&slots[test_random_below(&r, slot_count)], p, __ATOMIC_ACQ_REL);
        if (p)
            finish(p, 1);
    }
    sa_mixed_use = SA_MIXED_AUTO;
    assert_true(less > 1000);
    assert_true(aligned > 1000);
    finish_all();
}

/* Aligned blocks are found near a limit as others are: on mixed spans, too. What cannot be had does
 * not count. */
static void test_alignments_near_a_limit(void **state)
{
    enum { SIZE = 1024 };
    struct test_random r = {11};
    size_t got[2] = {0};

    (void)state;
    for (size_t i = 0; i < MOST; i++)
        slots[i] = make(64 + 8 * test_random_below(&r, 190));
    for (size_t i = 0; i < MOST; i++)
        if (i % 8) {
            finish(slots[i], 1);
            slots[i] = NULL;
        }
    sa_maintenance_release_requested(0); /* empties the caches */
    sa_limits_set(SA_LIMIT_HARD, sa_footprint_bytes() + (1 << 20));
    for (int aligned = 0; aligned < 2; aligned++) {
        static size_t *blocks[MOST];
        int64_t before = sa_in_use.bytes;
        size_t n = 0;

        /* Until 1000 requests in a row have failed: a pass may release memory between two. */
        for (int failed = 0; failed < 1000; failed++) {
            assert_true(n < MOST);
            blocks[n] = sa_front_alloc(SIZE, aligned ? SIZE : 1, false);
            if (blocks[n]) {
                n++;
                failed = -1;
            }
        }
        got[aligned] = n;
        while (n)
            sa_front_free_aligned(blocks[--n], 0);
        assert_in_range(sa_in_use.bytes - before + (1 << 19), 0, 1 << 20);
    }
    assert_true(got[0] > 1000);
    assert_true(got[1] >= got[0] - got[0] / 8);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    finish_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caches_give_back_what_is_not_used),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_alignments_near_a_limit),
        cmocka_unit_test(test_threads_share_mixed_spans),
        cmocka_unit_test(test_threads_beyond_a_limit),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("mixed_blocks", tests, NULL, NULL);
}
