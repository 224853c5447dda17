/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of stacks are said to be out of use: only those where nothing else can lie. */
#include "tool/leaks/dead_stacks.h"

#include "test/support/cmocka.h"
#include "test/support/made_target.h"

#define RW    (SA_ACCESS_READ | SA_ACCESS_WRITE)
#define BASE  0x7f0000000000
#define GUARD 4096
#define BYTES 65536

static uint64_t stack[BYTES / 8];

/* The end of the dead part of a stack at BASE; 0: none. */
static uint64_t dead(bool guard, unsigned access, struct sa_target_thread *threads, size_t count)
{
    struct sa_target t = {.kind = &made_kind, .pid = 100};
    struct sa_threads list = {.threads = threads, .count = count};
    struct sa_holes holes = {NULL, 0, 0};
    uint64_t end;

    made_count = 0;
    made_add(BASE - 2 * GUARD, GUARD, RW, stack);
    made_add(BASE - GUARD, GUARD, guard ? 0 : RW, stack);
    made_add(BASE, BYTES, access, stack);
    made_add(BASE + BYTES, GUARD, RW, stack);
    assert_true(sa_stacks_find_dead(&t, &list, &holes));
    assert_true(holes.count <= 1);
    end = holes.count ? holes.holes[0].end : 0;
    if (holes.count)
        assert_int_equal(holes.holes[0].start, BASE);
    sa_holes_free(&holes);
    return end;
}

static void test_below_the_stack_pointer(void **state)
{
    struct sa_target_thread two[] = {{.tid = 101, .sp = BASE + 40000, .pointer = BASE + 64000},
                                     {.tid = 102, .sp = BASE + 50000, .pointer = 1}};

    (void)state;
    memset(stack, 0, sizeof(stack));
    assert_int_equal(dead(true, RW, two, 1), BASE + 40000 - 128);
    assert_int_equal(dead(false, RW, two, 1), 0); /* other data may lie there */
    assert_int_equal(dead(true, SA_ACCESS_READ, two, 1), 0);
    assert_int_equal(dead(true, RW, two, 2), 0); /* two stacks */
    two[0].tid = 100;                            /* the first thread's needs no guard */
    assert_int_equal(dead(false, RW, two, 1), BASE + 40000 - 128);
    two[0].sp = BASE + 100;
    assert_int_equal(dead(true, RW, two, 1), 0);
    two[0].sp = UINT64_MAX;
    two[1].sp = 0;
    assert_int_equal(dead(true, RW, two, 2), 0);
}

static void test_threads_that_have_ended(void **state)
{
    const size_t at = BYTES - 2304;
    struct sa_target_thread other[] = {{.tid = 101, .sp = 4096, .pointer = BASE - 1}};

    (void)state;
    memset(stack, 0, sizeof(stack));
    assert_int_equal(dead(true, RW, other, 1), 0); /* no control block */
    stack[at / 8] = stack[at / 8 + 2] = BASE + at;
    assert_int_equal(dead(true, RW, other, 1), BASE + at);
    assert_int_equal(dead(false, RW, other, 1), 0);
    other[0].pointer = BASE + at; /* it lives, and runs on another stack */
    assert_int_equal(dead(true, RW, other, 1), 0);
    other[0].pointer = 0; /* not known, so it may live */
    assert_int_equal(dead(true, RW, other, 1), 0);
    assert_int_equal(dead(true, RW, other, 0), 0);
    other[0].pointer = BASE + BYTES;
    stack[at / 8 + 2]++;
    assert_int_equal(dead(true, RW, other, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_below_the_stack_pointer),
        cmocka_unit_test(test_threads_that_have_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
