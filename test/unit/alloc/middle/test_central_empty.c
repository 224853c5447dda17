/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free objects without memory: only pages without a live object go back, the footprint and the
 * kernel agree on how many, they count again before the objects are handed out, a hard limit counts
 * them all the time, and a kernel that refuses changes nothing.
 */
#include "alloc/middle/central_empty.h"

#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

#define HELD 1200

bool __real_sa_vm_release(void *p, size_t bytes);
bool __wrap_sa_vm_release(void *p, size_t bytes);

static size_t refuse_after = SIZE_MAX, released_bytes;

bool __wrap_sa_vm_release(void *p, size_t bytes)
{
    if (!refuse_after || !__real_sa_vm_release(p, bytes))
        return false;
    refuse_after--;
    released_bytes += bytes;
    return true;
}

static void *held[HELD];
static size_t count;

static void fill(unsigned cls, size_t n)
{
    while (n) {
        size_t more = sa_central_remove(cls, held + count, n < 32 ? n : 32);

        assert_true(more > 0);
        for (size_t i = 0; i < more; i++) /* each object holds its own address */
            memset(held[count + i], (int)((uintptr_t)held[count + i] >> 4 & 0xff) | 1,
                   sa_size_classes.of[cls].size);
        count += more;
        n -= more;
    }
}

static void assert_intact(unsigned cls, const void *object)
{
    const unsigned char *bytes = object, is = (unsigned char)((uintptr_t)object >> 4 | 1);

    for (size_t i = 0; i < sa_size_classes.of[cls].size; i++)
        assert_int_equal(bytes[i], is);
}

static void drop(unsigned cls, struct test_random *r, size_t n)
{
    while (n--) {
        size_t k = test_random_below(r, count);

        assert_intact(cls, held[k]);
        sa_central_insert(cls, &held[k], 1);
        held[k] = held[--count];
    }
}

static size_t resident(unsigned cls)
{
    size_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sa_span *s = sa_pagemap_span((uintptr_t)held[i]);
        bool first = true;

        for (size_t k = 0; k < i && first; k++)
            first = sa_pagemap_span((uintptr_t)held[k]) != s;
        sum += first ? sa_vm_resident((void *)s->start, sa_span_bytes(s)) : 0;
    }
    assert_true(sum >= count * sa_size_classes.of[cls].size * 7 / 8);
    return sum;
}

/* Of all of the class, with 1/8 to 1 of its objects free. */
static void test_only_pages_without_live_objects(void **state)
{
    static const size_t sizes[] = {512, 1024, 2816, 4096, 5120, 7680, 9216, 24576, 40960, 106496};
    struct test_random r = {7};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned cls = sa_size_class_find(sizes[i]);
        size_t n = sizes[i] > 20000 ? 60 : 400, before, was, given, fresh;
        const struct sa_class *k = &sa_size_classes.of[cls];
        size_t tail = ((size_t)k->pages << SA_PAGE_SHIFT) - k->objects * (size_t)k->size;

        if (k->objects < 2)
            continue;
        fill(cls, n);
        fresh = central_stats(cls).free_objects * k->size;
        for (int step = 0; step < 8; step++) {
            drop(cls, &r, n / 8 - (step == 7 ? 1 : 0));
            before = sa_footprint_bytes();
            was = resident(cls);
            released_bytes = 0;
            given = sa_central_empty(SIZE_MAX);
            assert_int_equal(given, released_bytes);
            assert_int_equal(sa_footprint_bytes(), before - given);
            /* What was never handed out, and what lies behind the last object, held nothing. */
            assert_true(was - resident(cls) <= given);
            assert_true(was - resident(cls) + central_stats(cls).spans * tail + fresh >= given);
            assert_int_equal(sa_central_empty(SIZE_MAX), 0);
            for (size_t h = 0; h < count; h++)
                assert_intact(cls, held[h]);
        }
        assert_true(sizes[i] < 1024 || central_stats(cls).emptied_bytes > 0);
        drop(cls, &r, count);
        assert_int_equal(central_stats(cls).emptied_bytes, 0);
        assert_int_equal(sa_footprint_bytes(), sa_footprint_gross_bytes());
    }
}

/* Objects that come back count, before they are written; what stays empty lies behind the last
 * object of a span. */
static void test_count_again_when_handed_out(void **state)
{
    unsigned cls = sa_size_class_find(9216);
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t tail = ((size_t)k->pages << SA_PAGE_SHIFT) - k->objects * (size_t)k->size;
    struct test_random r = {3};

    (void)state;
    fill(cls, 300);
    for (int i = 0; i < 300; i++) {
        size_t before = sa_footprint_bytes(), emptied = central_stats(cls).emptied_bytes;
        size_t heap = heap_in_use();

        if (count > 100 && test_random_below(&r, 2))
            drop(cls, &r, test_random_below(&r, 50));
        else if (count < HELD - 100)
            fill(cls, test_random_below(&r, 50));
        if (heap == heap_in_use()) /* no span came or went */
            assert_int_equal(sa_footprint_bytes() + central_stats(cls).emptied_bytes,
                             before + emptied);
        if (i % 5 == 0)
            sa_central_empty(SIZE_MAX);
    }
    while (central_stats(cls).free_objects)
        fill(cls, 1);
    assert_true(central_stats(cls).emptied_bytes <= central_stats(cls).spans * tail);
    drop(cls, &r, count);
    assert_int_equal(central_stats(cls).emptied_bytes, 0);
}

static void test_hard_limit_counts_all(void **state)
{
    unsigned cls = sa_size_class_find(24576);
    struct test_random r = {5};

    (void)state;
    fill(cls, 120);
    drop(cls, &r, 90);
    sa_limits_set(SA_LIMIT_HARD, sa_footprint_bytes());
    assert_true(sa_central_empty(SIZE_MAX) > 24576);
    assert_false(sa_limits_have_room(1));
    assert_int_equal(sa_limits_surplus(SA_LIMIT_HARD), 0);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    drop(cls, &r, count);
}

static void test_refused(void **state)
{
    unsigned cls = sa_size_class_find(24576);
    struct test_random r = {9};
    size_t before, given;

    (void)state;
    fill(cls, 120);
    drop(cls, &r, 90);
    before = sa_footprint_bytes();
    refuse_after = 3;
    released_bytes = 0;
    given = sa_central_empty(SIZE_MAX);
    assert_true(given > 0);
    assert_int_equal(given, released_bytes);
    assert_int_equal(sa_footprint_bytes(), before - given);
    refuse_after = SIZE_MAX;
    assert_true(sa_central_empty(SIZE_MAX) > 0); /* the rest */
    fill(cls, 90);
    drop(cls, &r, count);
    assert_int_equal(sa_footprint_bytes(), sa_footprint_gross_bytes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_pages_without_live_objects),
        cmocka_unit_test(test_count_again_when_handed_out),
        cmocka_unit_test(test_hard_limit_counts_all),
        cmocka_unit_test(test_refused),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("central_empty", tests, NULL, NULL);
}
