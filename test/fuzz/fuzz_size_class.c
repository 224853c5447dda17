/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes for any kernel's page size: the class of a size is the least that holds it, and an
 * offset into a span is an object's start exactly where a division says so; and the tables of the
 * fast path name the same classes.
 */
#include "alloc/base/size_class.h"

#include "alloc/base/bits.h"
#include "alloc/front/slow_path.h"
#include "alloc/hot/hot.h"
#include "test/fuzz/fuzz.h"
#include "test/support/start.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    test_start(TEST_CACHE_LIMIT);
    return 0;
}

static unsigned least_class(size_t size)
{
    unsigned cls = 1;

    while (sa_size_classes.of[cls].size < size)
        cls++;
    return cls;
}

static void check_size(size_t size)
{
    unsigned cls = least_class(size);

    FUZZ_EQUAL(sa_size_class_find(size), cls);
    if (size < sa_hot.small_limit)
        FUZZ_EQUAL(sa_hot.small_class[size], SA_CLASS_OFFSET(cls));
    else
        FUZZ_EQUAL(sa_hot.mid_class[sa_hot_mid_index(size)], SA_CLASS_OFFSET(cls));
    FUZZ_EQUAL(sa_front_estimate(size), sa_size_classes.of[cls].size);
}

static void check_index(const struct sa_class *c, size_t offset)
{
    bool start = offset % c->size == 0 && offset / c->size < c->objects;

    FUZZ_EQUAL(sa_class_index(c, offset), start ? (long)(offset / c->size) : -1);
}

static void check_shape(const struct sa_class *c, size_t kernel_page)
{
    size_t bytes = (size_t)c->pages << SA_PAGE_SHIFT;

    FUZZ_EQUAL(bytes % kernel_page, 0);
    FUZZ_EQUAL(c->objects, bytes / c->size);
    FUZZ_CHECK(c->map_step == SA_PAGE_BYTES ? sa_is_pow2(c->pages) || c->size == SA_PAGE_BYTES
                                            : c->map_step == c->size);
    FUZZ_CHECK(c->batch >= 2 && c->batch <= c->max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pages[] = {4096, 16384, 65536};
    struct fuzz_input in = {data, data + size};

    while (fuzz_left(&in)) {
        size_t kernel_page = pages[fuzz_below(&in, 3)];
        const struct sa_class *c;

        sa_size_class_init(kernel_page, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
        check_size(1 + fuzz_number(&in, 4) % SA_MID_MAX);
        c = &sa_size_classes.of[1 + fuzz_below(&in, sa_size_classes.count - 1)];
        check_shape(c, kernel_page);
        check_index(c, fuzz_number(&in, 3));
        check_index(c, fuzz_number(&in, 8));
        check_index(c, fuzz_below(&in, 65536) * c->size);
        check_index(c, fuzz_below(&in, 65536) * c->size + fuzz_byte(&in) - 128u);
    }
    return 0;
}
