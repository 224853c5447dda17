/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the central free lists in debug builds: they pass in every state that calls lead
 * to, and end the program when a span's live count, bitmap, list or class is wrong.
 */
#include "alloc/middle/central_free_list.h"

#include "alloc/base/size_class.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define SMALL 4 /* more than 64 objects on a span: the bitmap lies beside its record */
#define LARGE sa_size_class_find(1024) /* fewer: it lies in the record */
#define HELD  300

static void *held[HELD];

static struct sa_span *span_of(const void *object)
{
    return sa_pagemap_span((uintptr_t)object);
}

/* Objects come and go at random, many times; the checks pass after each step. */
static void come_and_go(void *unused)
{
    struct test_random r = {0x5a11};
    const unsigned classes[] = {SMALL, (unsigned)LARGE};

    (void)unused;
    for (size_t k = 0; k < TEST_COUNT(classes); k++) {
        size_t n = 0;

        for (int step = 0; step < 2000; step++) {
            if (n == 0 || (n < HELD && test_random_below(&r, 2))) {
                n += sa_central_remove(classes[k], held + n, 1 + test_random_below(&r, HELD - n));
            } else {
                size_t back = 1 + test_random_below(&r, n);

                n -= back;
                sa_central_insert(classes[k], held + n, back);
            }
            sa_central_validate();
        }
        sa_central_insert(classes[k], held, n);
        sa_central_flush();
        sa_central_validate();
    }
}

/* Takes objects, damages the span of the last one, and checks. */
static void damage(unsigned cls, void (*fn)(struct sa_span *s))
{
    size_t n = sa_central_remove(cls, held, 3);

    CHILD_CHECK(n > 0);
    sa_central_validate();
    fn(span_of(held[n - 1]));
    sa_central_validate();
}

static void more_live(struct sa_span *s)
{
    s->live++;
}

static void one_bit_more(struct sa_span *s)
{
    if (s->objects > 64)
        s->more_bits[0] ^= 1;
    else
        s->bits ^= 1;
}

static void other_list(struct sa_span *s)
{
    s->list ^= 1;
}

static void other_class(struct sa_span *s)
{
    s->cls++;
}

static void no_live(struct sa_span *s)
{
    s->live = 0; /* and all objects are free */
    for (size_t w = 0; w < (s->objects + 63u) / 64; w++)
        s->more_bits[w] = ~0ull;
}

#define DAMAGE(name)                                                                               \
    static void small_##name(void *unused)                                                         \
    {                                                                                              \
        (void)unused;                                                                              \
        damage(SMALL, name);                                                                       \
    }                                                                                              \
    static void large_##name(void *unused)                                                         \
    {                                                                                              \
        (void)unused;                                                                              \
        damage(LARGE, name);                                                                       \
    }

DAMAGE(more_live)
DAMAGE(one_bit_more)
DAMAGE(other_list)
DAMAGE(other_class)

static void small_no_live(void *unused)
{
    (void)unused;
    damage(SMALL, no_live);
}

static void test_central_validate_passes(void **state)
{
    (void)state;
    test_child_passes(come_and_go, NULL);
}

static void test_central_validate_finds_damage(void **state)
{
    (void)state;
    test_child_aborts(small_more_live, NULL, "free_bits(s)");
    test_child_aborts(large_more_live, NULL, "internal error");
    test_child_aborts(small_one_bit_more, NULL, "free_bits(s)");
    test_child_aborts(large_one_bit_more, NULL, "free_bits(s)");
    test_child_aborts(small_other_list, NULL, "s->list == list");
    test_child_aborts(large_other_list, NULL, "s->list == list");
    test_child_aborts(small_other_class, NULL, "s->cls == cls");
    test_child_aborts(large_other_class, NULL, "s->cls == cls");
    test_child_aborts(small_no_live, NULL, "NEW_LIST");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_validate_passes),
        cmocka_unit_test(test_central_validate_finds_damage),
    };

    test_start_layers();
    CHILD_CHECK(sa_size_classes.of[SMALL].objects > 64);
    CHILD_CHECK(sa_size_classes.of[LARGE].objects > 4 && sa_size_classes.of[LARGE].objects <= 64);
    return cmocka_run_group_tests_name("central_validate", tests, NULL, NULL);
}
