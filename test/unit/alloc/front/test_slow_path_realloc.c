/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc below the entry points: what a block holds survives every way of changing its size, and a
 * failure leaves it alone.
 */
#include "alloc/front/slow_path.h"

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "test/support/blocks.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <sys/resource.h>

#define MIB (1ul << 20)

/*
 * Random blocks, resized again and again: the content up to the smaller size stays, also when pages
 * are moved (from 1 MiB on), extended in place or cut.
 */
static void test_front_realloc_keeps_content(void **state)
{
    enum { BLOCKS = 60 };
    struct test_random r = {0x2ea};
    static struct {
        unsigned char *p;
        size_t size;
    } b[BLOCKS];

    (void)state;
    for (int step = 0; step < 6000; step++) {
        unsigned i = (unsigned)test_random_below(&r, BLOCKS);
        size_t size = test_random_size(&r, step % 2 ? 12 : 22);
        unsigned char *p;

        if (!b[i].p) {
            b[i].p = sa_front_alloc(size, 1, false);
            assert_non_null(b[i].p);
            b[i].size = size;
            fill(b[i].p, size, i);
            continue;
        }
        if (test_random_below(&r, 8) == 0) {
            assert_filled(b[i].p, b[i].size, i);
            sa_front_free_sized(b[i].p, b[i].size, 0);
            b[i].p = NULL;
            continue;
        }
        if (test_random_below(&r, 3)) /* near the old size: in place if it can be */
            size = b[i].size + b[i].size / (1 + test_random_below(&r, 100));
        if (size > 32 * MIB)
            size = MIB;
        p = sa_front_realloc(b[i].p, size);
        assert_non_null(p);
        assert_true(sa_front_size(p, "test") >= size);
        assert_filled(p, sa_min(size, b[i].size), i);
        b[i].p = p;
        b[i].size = size;
        fill(p, size, i);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (b[i].p)
            sa_front_free(b[i].p);
    assert_nothing_in_use();
}

/* What malloc_usable_size grants belongs to the program: it survives a realloc, too. */
static void test_front_realloc_keeps_all_usable_bytes(void **state)
{
    static const size_t sizes[] = {10, 1000, 100000, 262145, 300000, 700001, 3 * MIB + 1};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned char *p = sa_front_alloc(sizes[i], 1, false), *in_the_way;
        size_t usable = sa_front_size(p, "test");

        in_the_way = sa_front_alloc(sizes[i], 1, false);
        fill(p, usable, 7);
        p = sa_front_realloc(p, 2 * usable);
        assert_non_null(p);
        assert_filled(p, usable, 7);
        sa_front_free(p);
        sa_front_free(in_the_way);
    }
    assert_nothing_in_use();
}

static void test_front_realloc_failing_leaves_the_block(void **state)
{
    static const size_t sizes[] = {10, 5000, 300000, 2 * MIB};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned char *p = sa_front_alloc(sizes[i], 1, false);

        fill(p, sizes[i], 9);
        assert_null(sa_front_realloc(p, PTRDIFF_MAX));
        assert_null(sa_front_realloc(p, SIZE_MAX));
        assert_filled(p, sizes[i], 9);
        sa_front_free_sized(p, sizes[i], 0);
    }
    assert_nothing_in_use();
}

/* A block that grows step by step is moved without copying; its pages go along. */
static void test_front_realloc_grows_a_large_block(void **state)
{
    unsigned char *p = sa_front_alloc(MIB, 1, false);
    size_t size = MIB;

    (void)state;
    fill(p, size, 3);
    while (size < 64 * MIB) {
        void *in_the_way = sa_front_alloc(300000, 1, false);

        p = sa_front_realloc(p, size + size / 2);
        assert_non_null(p);
        assert_filled(p, MIB, 3);
        p[size] = 1;
        size += size / 2;
        p[size - 1] = 1;
        sa_front_free(in_the_way);
    }
    sa_front_free(p);
    assert_nothing_in_use();
}

/*
 * Buffers that grow by half and are freed, up to 1.5 MiB, again and again: they find memory that
 * others have left. Each is written once, in hundreds of pages; were they moved by their pages,
 * most of these would be lost and have to be found again.
 */
static void test_front_realloc_reuses_memory(void **state)
{
    enum { BUFFERS = 16, WARM = 2000, STEPS = SA_TSAN || SA_ASAN ? 4000 : 20000 };
    static struct {
        unsigned char *p;
        size_t size;
    } b[BUFFERS];
    struct test_random r = {0x9207};
    struct rusage before, after;

    (void)state;
    for (int step = 0; step < WARM + STEPS; step++) {
        unsigned i = (unsigned)test_random_below(&r, BUFFERS);
        size_t size = b[i].size ? b[i].size + b[i].size / 2 : 1000;

        if (step == WARM)
            getrusage(RUSAGE_SELF, &before);
        if (size > MIB + MIB / 2) {
            sa_front_free(b[i].p);
            b[i].p = NULL;
            b[i].size = 0;
            continue;
        }
        b[i].p = b[i].p ? sa_front_realloc(b[i].p, size) : sa_front_alloc(size, 1, false);
        assert_non_null(b[i].p);
        memset(b[i].p + b[i].size, 1, size - b[i].size);
        b[i].size = size;
    }
    getrusage(RUSAGE_SELF, &after);
    for (unsigned i = 0; i < BUFFERS; i++)
        if (b[i].p)
            sa_front_free(b[i].p);
    /* Moved by their pages: more than ten for each step. */
    assert_in_range(after.ru_minflt - before.ru_minflt, 0, STEPS);
    assert_nothing_in_use();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front_realloc_keeps_content),
        cmocka_unit_test(test_front_realloc_keeps_all_usable_bytes),
        cmocka_unit_test(test_front_realloc_failing_leaves_the_block),
        cmocka_unit_test(test_front_realloc_grows_a_large_block),
        cmocka_unit_test(test_front_realloc_reuses_memory),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("front_realloc", tests, NULL, NULL);
}
