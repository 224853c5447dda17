/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on mixed spans by way of the slow paths, while other threads take, free and resize blocks
 * on the same spans: no lookup fails, no two blocks overlap, and nothing is left at the end.
 */
#include "alloc/base/size_class.h"
#include "alloc/front/slow_path.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/transfer_cache.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <pthread.h>
#include <string.h>

#define THREADS 4
#define SLOTS   512
#define ROUNDS  20000

#define KEPT 64

static size_t *kept[KEPT];   /* blocks of a page each, which stay where they are */
static size_t *slots[SLOTS]; /* atomic: whoever takes a block out owns it */

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

        old = __atomic_exchange_n(&slots[test_random_below(&r, SLOTS)], p, __ATOMIC_ACQ_REL);
        if (old)
            finish(old, test_random_next(&r));
        if (i % 4 == 0 && kept[0])
            assert_int_equal(sa_front_size(kept[test_random_below(&r, KEPT)], "size"),
                             SA_PAGE_BYTES);
    }
    return NULL;
}

static void test_threads_share_mixed_spans(void **state)
{
    pthread_t threads[THREADS];
    struct sa_mixed_stats s;
    int64_t mixed = 0;

    (void)state;
    work((void *)77); /* on spans of classes, of which many become sparse */
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = make(SA_PAGE_BYTES);
        finish(make(SA_PAGE_BYTES), 1); /* so that spans are cut beside those that stay */
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    sa_mixed_stats(&s);
    assert_true(s.conversions > 0);
    assert_true(s.taken > 100);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i])
            finish(slots[i], 1);
    for (int i = 0; i < KEPT; i++)
        finish(kept[i], 1);
    sa_mixed_validate();
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        mixed += (int64_t)(sa_mixed_objects(cls) * sa_size_classes.of[cls].size);
    sa_mixed_stats(&s);
    assert_int_equal(mixed, s.used_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_mixed_spans),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("mixed_blocks", tests, NULL, NULL);
}
