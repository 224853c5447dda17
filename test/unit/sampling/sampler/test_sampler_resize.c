/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks that are resized, and freed in every way. The estimated live bytes are exact,
 * because every block is sampled at interval 1. */
#include "test/support/sampled.h"

#include "alloc/base/attrs.h"
#include "alloc/front/fast_path.h"
#include "test/support/child.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

static void slow_free(void *p)
{
    if (!sa_fast_free_other(p))
        sa_front_free(p);
}

static void slow_free_sized(void *p, size_t size)
{
    sa_front_free_sized(p, size, 0);
}

static void *slow_alloc(size_t size)
{
    return sa_front_alloc(size, 1, false);
}

struct block {
    unsigned char *p;
    size_t size, align;
};

/* What a live block counts for: the whole of it if it was sampled, at whatever interval of 1. */
static double counted(const struct block *b)
{
    const struct sa_span *s;

    if (!b->p || sa_pagemap_class((uintptr_t)b->p))
        return 0;
    s = sa_pagemap_find((uintptr_t)b->p);
    return s && s->sample ? (double)sa_front_size(b->p, "test") : 0;
}

static void block_free(struct test_random *r, struct block *b)
{
    switch (test_random_below(r, 4)) {
    case 0:
        sa_front_free(b->p);
        break;
    case 1:
        sa_fast_free(SA_FOR_C, b->p, slow_free);
        break;
    default:
        if (b->align <= SA_MIN_ALIGN)
            sa_fast_free_sized(SA_FOR_C, b->p, b->size, slow_free_sized);
        else
            sa_front_free_sized(b->p, b->size, b->align);
    }
    b->p = NULL;
}

static void block_alloc(struct test_random *r, struct block *b, unsigned seed)
{
    b->size = test_random_size(r, test_random_below(r, 20) ? 14 : 22);
    b->align = test_random_below(r, 4) ? 1 : (size_t)1 << test_random_below(r, 15);
    if (b->align == 1)
        b->p = sa_fast_alloc(SA_FOR_C, b->size, false, slow_alloc);
    else
        b->p = sa_front_alloc(b->size, b->align, false);
    assert_non_null(b->p);
    fill(b->p, b->size, seed);
}

static void block_resize(struct test_random *r, struct block *b, unsigned seed)
{
    size_t size = test_random_below(r, 2) ? test_random_size(r, 22)
                                          : b->size + b->size / (1 + test_random_below(r, 50));

    if (size > 8 * MIB)
        size = 1;
    b->p = sa_front_realloc(b->p, size);
    assert_non_null(b->p);
    assert_filled(b->p, sa_min(size, b->size), seed);
    b->size = size;
    b->align = 1;
    fill(b->p, size, seed);
}

/* Sampling goes on and off meanwhile, so that blocks of both kinds become each other by realloc. */
static void test_sampler_follows_all_ways_to_free_and_resize(void **state)
{
    enum { BLOCKS = 100 };
    static struct block b[BLOCKS];
    struct test_random r = {0xa11};

    (void)state;
    for (int step = 0; step < (SA_TSAN ? 1500 : 12000); step++) {
        unsigned i = (unsigned)test_random_below(&r, BLOCKS);
        double sum = 0;

        if (step % 200 == 0)
            set_interval(test_random_below(&r, 3) ? 1 : 0);
        if (!b[i].p) {
            block_alloc(&r, &b[i], i);
        } else if (test_random_below(&r, 3)) {
            assert_filled(b[i].p, b[i].size, i);
            block_free(&r, &b[i]);
        } else {
            block_resize(&r, &b[i], i);
        }
        if (step % 10)
            continue;
        for (int k = 0; k < BLOCKS; k++)
            sum += counted(&b[k]);
        assert_true(live().bytes == sum);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (b[i].p)
            block_free(&r, &b[i]);
    assert_nothing_left();
    set_interval(1);
}

/* --- resizing --- */

/* Within its class a sampled object stays where it is; else it becomes a sampled block of another
 * size. */
static void test_sampler_objects_are_resized(void **state)
{
    unsigned char *p = sa_front_alloc(100, 1, false), *q;

    (void)state;
    fill(p, 100, 1);
    for (size_t size = 97; size <= 112; size++)
        assert_ptr_equal(sa_front_realloc(p, size), p);
    assert_int_equal(live().samples, 1);
    q = sa_front_realloc(p, 200);
    assert_true(q != p && own_page(q));
    assert_filled(q, 100, 1);
    assert_int_equal(live().samples, 1);
    assert_true(live().bytes == (double)sa_front_size(q, "test"));
    p = sa_front_realloc(q, 400000);
    assert_false(own_page(p));
    assert_filled(p, 100, 1);
    assert_int_equal(live().samples, 1);
    assert_true(live().bytes == (double)sa_front_size(p, "test"));
    q = sa_front_realloc(p, 10);
    assert_true(own_page(q));
    assert_filled(q, 10, 1);
    assert_true(live().bytes == 16);
    sa_front_free(q);
    assert_nothing_left();
}

/* The size that the record of the only sample names, as profiles get it. */
static size_t recorded_request(void)
{
    struct sa_copied c;
    size_t requested;

    assert_true(sa_live_copy(false, &c));
    assert_int_equal(c.count, 1);
    requested = c.samples[0].key.requested;
    sa_live_free_copied(&c);
    return requested;
}

/* A block that stays where it is has a new size in its record, and in what was allocated but not
 * asked for. */
static void test_sampler_record_has_the_size_asked_for_last(void **state)
{
    static const size_t small[] = {112, 97, 100, 111, 100}, large[] = {460000, 300000, 400001};
    unsigned char *p = sa_front_alloc(100, 1, false);

    (void)state;
    assert_int_equal(recorded_request(), 100);
    for (size_t i = 0; i < TEST_COUNT(small); i++) {
        assert_ptr_equal(sa_front_realloc(p, small[i]), p);
        assert_int_equal(recorded_request(), small[i]);
        assert_true(live().slack_bytes == (double)(112 - small[i]));
    }
    sa_front_free(p);
    assert_nothing_left();
    assert_true(live().slack_bytes == 0);

    p = sa_front_alloc(400000, 1, false);
    for (size_t i = 0; i < TEST_COUNT(large); i++) {
        p = sa_front_realloc(p, large[i]);
        assert_int_equal(recorded_request(), large[i]);
        assert_true(live().slack_bytes == (double)(sa_front_size(p, "test") - large[i]));
    }
    for (size_t size = sa_front_size(p, "test"); size > 390000; size -= 1234) {
        assert_ptr_equal(sa_front_realloc(p, size), p);
        assert_int_equal(recorded_request(), size);
        assert_true(live().slack_bytes == (double)(sa_front_size(p, "test") - size));
    }
    sa_front_free(p);
    assert_nothing_left();
}

/*
 * A large block that grows without being copied was never there twice: the peak is the largest it
 * has been. Its record follows it.
 */
static void grow(void *unused)
{
    size_t size = MIB, max = 0;
    void *in_the_way[64], *p = sa_front_alloc(size, 1, false), *q;
    int n = 0, moved = 0;

    (void)unused;
    while (size < 64 * MIB) {
        size += size / 4 + 12345;
        q = sa_front_realloc(p, size);
        CHILD_CHECK(q != NULL);
        moved += q != p;
        p = q;
        max = sa_max(max, sa_front_size(p, "test"));
        CHILD_CHECK(live().samples == 1);
        CHILD_CHECK(live().bytes == (double)sa_front_size(p, "test"));
        CHILD_CHECK(sa_pagemap_find((uintptr_t)p)->sample->span->start == (uintptr_t)p);
        set_interval(0);
        in_the_way[n++] = sa_front_alloc(300000, 1, false);
        set_interval(1);
    }
    CHILD_CHECK(moved > 3);
    CHILD_CHECK(live().peak_bytes == (double)max);
    while (size > MIB) {
        size -= size / 3;
        p = sa_front_realloc(p, size);
        CHILD_CHECK(live().samples == 1);
        CHILD_CHECK(live().bytes == (double)sa_front_size(p, "test"));
    }
    CHILD_CHECK(live().peak_bytes == (double)max);
    sa_front_free(p);
    CHILD_CHECK(live().samples == 0 && live().bytes == 0);
    while (n)
        sa_front_free(in_the_way[--n]);
}

static void test_sampler_large_blocks_are_resized(void **state)
{
    (void)state;
    test_child_passes(grow, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_large_blocks_are_resized),
        cmocka_unit_test(test_sampler_follows_all_ways_to_free_and_resize),
        cmocka_unit_test(test_sampler_objects_are_resized),
        cmocka_unit_test(test_sampler_record_has_the_size_asked_for_last),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("sampler_resize", tests, NULL, NULL);
}
