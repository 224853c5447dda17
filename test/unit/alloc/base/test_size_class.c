/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes on kernels with pages of 4, 16 and 64 KiB: bounds on waste, shape of spans and
 * slabs, the look-up for every size, and the index of an object against plain division for every
 * offset of every span.
 */
#include "alloc/base/size_class.h"

#include "alloc/base/bits.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/percpu.h"
#include "test/support/cmocka.h"

static const size_t kernel_pages[] = {4096, 16384, 65536};

#define BEGIN_WORDS  ((unsigned)(SA_SLAB_BEGIN / 8))
#define HEADER_WORDS ((unsigned)(sizeof(struct sa_slab) / 8))

/* Runs the body once for each kernel page size, with the tables made for it. */
#define EACH_KERNEL(page)                                                                          \
    for (size_t k_ = 0, page;                                                                      \
         k_ < TEST_COUNT(kernel_pages) &&                                                          \
         (page = kernel_pages[k_], sa_size_class_init(page, BEGIN_WORDS, HEADER_WORDS), 1);        \
         k_++)

static void test_size_class_sizes_ascend_in_multiples_of_16(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        assert_in_range(sa_size_classes.count, 2, SA_CLASSES_MAX);
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            assert_int_equal(sa_size_classes.of[cls].size % 16, 0);
            assert_true(sa_size_classes.of[cls].size > sa_size_classes.of[cls - 1].size);
        }
        assert_int_equal(sa_size_classes.of[1].size, 16);
        assert_int_equal(sa_size_classes.of[sa_size_classes.count - 1].size, SA_MID_MAX);
        assert_int_equal(sa_size_classes.of[0].size, 0);
        assert_int_equal(page % 4096, 0);
    }
}

/* The least class that holds the size, for every size; above 128 bytes at most 1/8 of it is
 * lost. */
static void test_size_class_find_is_least_for_every_size(void **state)
{
    (void)state;
    sa_size_class_init(4096, BEGIN_WORDS, HEADER_WORDS);
    for (size_t size = 1, min = 1; size <= SA_MID_MAX; size++) {
        size_t object;

        while (sa_size_classes.of[min].size < size)
            min++;
        assert_int_equal(sa_size_class_find(size), min);
        object = sa_size_classes.of[min].size;
        if (size <= 128)
            assert_true(object - size < 16);
        else
            assert_true((object - size) * 8 <= object);
    }
}

/* A kilobyte with a header: with its share of the span, a block of 1032 bytes takes 1093 at most.
 * Without a class of its own it would take 1171, because seven blocks of 1152 fit on a page. */
static void test_size_class_for_a_kilobyte_with_a_header_is_close(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        const struct sa_class *c = &sa_size_classes.of[sa_size_class_find(1032)];

        assert_in_range(c->size, 1024 + 32, 1024 + 64);
        assert_true(((size_t)c->pages << SA_PAGE_SHIFT) <= 1093ul * c->objects);
        assert_true(page >= 4096);
    }
}

/* The table of classes does not depend on the kernel; only spans do. */
static void test_size_class_sizes_are_the_same_on_every_kernel(void **state)
{
    struct sa_size_classes small;

    (void)state;
    sa_size_class_init(4096, BEGIN_WORDS, HEADER_WORDS);
    small = sa_size_classes;
    EACH_KERNEL(page)
    {
        assert_int_equal(sa_size_classes.count, small.count);
        for (unsigned cls = 1; cls < small.count; cls++)
            assert_int_equal(sa_size_classes.of[cls].size, small.of[cls].size);
        assert_true(page >= 4096);
    }
}

static void test_size_class_spans_are_kernel_pages_with_little_tail(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];
            size_t bytes = (size_t)c->pages << SA_PAGE_SHIFT;

            assert_int_equal(bytes % page, 0);
            assert_int_equal(c->objects, bytes / c->size);
            assert_true(c->objects >= 1);
            /* What is left behind the last object. */
            assert_true(bytes % c->size * (c->size <= 8192 ? 16 : 8) <= bytes);
        }
    }
}

/* Those are what free's fast path takes; without class_size, 832 bytes would need two pages. */
static void test_size_class_small_spans_are_one_page(void **state)
{
    (void)state;
    sa_size_class_init(4096, BEGIN_WORDS, HEADER_WORDS);
    for (unsigned cls = 1; sa_size_classes.of[cls].size <= SA_SMALL_MAX; cls++)
        assert_int_equal(sa_size_classes.of[cls].pages, 1);
}

/* One of the two shapes in which an address tells the start of an object from its middle. */
static void test_size_class_spans_have_one_of_two_shapes(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];

            if (c->map_step == SA_PAGE_BYTES)
                assert_true(sa_is_pow2(c->pages) || c->size == SA_PAGE_BYTES);
            else
                assert_true(c->map_step == c->size && c->size % page == 0 &&
                            c->size % SA_PAGE_BYTES == 0);
        }
    }
}

static void test_size_class_batches_fit_what_moves_them(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];

            assert_in_range(c->batch, 2, SA_MOVE_MAX);
            assert_in_range(c->max, c->batch, SA_SLOTS_MAX);
            assert_true(page > 0);
        }
    }
}

/* The slots of a class follow a word of their own, and no two classes share one; at all places that
 * a class may have. */
static void test_size_class_slots_do_not_overlap(void **state)
{
    (void)state;
    EACH_KERNEL(page)
    {
        size_t next = HEADER_WORDS;

        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];

            assert_in_range(c->near, sa_min(c->batch, c->max), SA_NEAR_MAX);
            assert_true(c->near_begin >= next + 1);
            next = (size_t)c->near_begin + c->near;
        }
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];
            size_t middle = sa_class_slots(c, (uint32_t)sa_min(SA_MIDDLE_MAX, c->max));

            if (c->max <= SA_MIDDLE_MAX) {
                assert_int_equal(middle, c->begin);
                continue;
            }
            assert_true(middle >= next + 1);
            next = middle + SA_MIDDLE_MAX;
        }
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];

            assert_int_equal(sa_class_slots(c, 1), c->near_begin);
            assert_int_equal(sa_class_slots(c, c->max), c->begin);
            if (c->begin == c->near_begin) {
                assert_int_equal(c->near, c->max);
                continue;
            }
            assert_true(c->begin >= next + 1);
            /* A few hundred lie in one page, with the word before them. */
            if (c->max > SA_MIDDLE_MAX)
                assert_true((BEGIN_WORDS + c->begin - 1) % 512 + 361 <= 512);
            next = (size_t)c->begin + c->max;
        }
        assert_true(sa_size_classes.slab_words >= next);
        assert_true(page > 0);
    }
}

static long index_by_division(const struct sa_class *c, size_t offset)
{
    return offset % c->size || offset / c->size >= c->objects ? -1 : (long)(offset / c->size);
}

static void test_size_class_index_matches_division_for_every_offset(void **state)
{
    size_t wrong = 0;

    (void)state;
    EACH_KERNEL(page)
    {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            const struct sa_class *c = &sa_size_classes.of[cls];
            size_t end = ((size_t)c->pages << SA_PAGE_SHIFT) + c->size;

            for (size_t offset = 0; offset <= end; offset++)
                wrong += sa_class_index(c, offset) != index_by_division(c, offset);
        }
        assert_int_equal(wrong, 0);
        assert_true(page > 0);
    }
}

/* Offsets from a span that the pointer does not belong to: huge, or negative as an unsigned. */
static void test_size_class_index_rejects_far_offsets(void **state)
{
    (void)state;
    sa_size_class_init(4096, BEGIN_WORDS, HEADER_WORDS);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *c = &sa_size_classes.of[cls];

        for (unsigned bit = 24; bit < 64; bit++) {
            assert_int_equal(sa_class_index(c, (size_t)1 << bit), -1);
            assert_int_equal(sa_class_index(c, -((size_t)1 << bit)), -1);
            assert_int_equal(sa_class_index(c, ((size_t)1 << bit) / c->size * c->size), -1);
        }
        assert_int_equal(sa_class_index(c, -(size_t)c->size), -1);
        assert_int_equal(sa_class_index(c, SIZE_MAX), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_class_sizes_ascend_in_multiples_of_16),
        cmocka_unit_test(test_size_class_find_is_least_for_every_size),
        cmocka_unit_test(test_size_class_for_a_kilobyte_with_a_header_is_close),
        cmocka_unit_test(test_size_class_sizes_are_the_same_on_every_kernel),
        cmocka_unit_test(test_size_class_spans_are_kernel_pages_with_little_tail),
        cmocka_unit_test(test_size_class_small_spans_are_one_page),
        cmocka_unit_test(test_size_class_spans_have_one_of_two_shapes),
        cmocka_unit_test(test_size_class_batches_fit_what_moves_them),
        cmocka_unit_test(test_size_class_slots_do_not_overlap),
        cmocka_unit_test(test_size_class_index_matches_division_for_every_offset),
        cmocka_unit_test(test_size_class_index_rejects_far_offsets),
    };

    return cmocka_run_group_tests_name("size_class", tests, NULL, NULL);
}
