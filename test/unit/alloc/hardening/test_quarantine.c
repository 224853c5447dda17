/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quarantine, by addresses that it never looks at: it gives every block back once, holds no
 * more than it may, finds what comes twice, and chooses at random.
 */
#include "alloc/hardening/quarantine.h"

#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

#define LIMIT  (1ul << 20)
#define BLOCKS 60000

static unsigned char held[BLOCKS]; /* the model */

static struct sa_quarantined block(unsigned i, unsigned cls)
{
    return (struct sa_quarantined){(void *)(0x100000000ul + i * 1024ul), cls};
}

static unsigned number(struct sa_quarantined b)
{
    return (unsigned)(((uintptr_t)b.block - 0x100000000ul) / 1024);
}

/* Takes a block out and out of the model. */
static bool take(bool all, unsigned cls)
{
    struct sa_quarantined b;

    if (!sa_quarantine_take(false, all, &b))
        return false;
    assert_int_equal(b.cls, cls);
    assert_true(number(b) < BLOCKS && held[number(b)]);
    held[number(b)] = 0;
    return true;
}

static void empty(unsigned cls)
{
    struct sa_quarantine_stats s;

    while (take(true, cls))
        ;
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_int_equal(held[i], 0);
    sa_quarantine_stats(&s);
    assert_int_equal(s.small_bytes, 0);
    assert_int_equal(s.small_blocks, 0);
    assert_int_equal(sa_quarantine_count(cls), 0);
}

/* Of small and of larger blocks: never more bytes or blocks than allowed, and all come out once. */
static void test_quarantine_is_bounded(void **state)
{
    static const size_t sizes[] = {16, 64, 1024, 100000};

    (void)state;
    for (size_t k = 0; k < TEST_COUNT(sizes); k++) {
        unsigned cls = sa_size_class_find(sizes[k]);
        size_t max = 0;

        for (unsigned i = 0; i < BLOCKS; i++) {
            struct sa_quarantine_stats s;

            assert_int_equal(sa_quarantine_put(block(i, cls)), SA_QUARANTINE_TAKEN);
            held[i] = 1;
            while (take(false, cls))
                ;
            sa_quarantine_stats(&s);
            assert_true(s.small_bytes <= LIMIT);
            max = s.small_blocks > max ? s.small_blocks : max;
            assert_int_equal(s.small_bytes, s.small_blocks * sa_size_classes.of[cls].size);
        }
        assert_int_equal(sa_quarantine_count(cls), max);
        assert_true(max >= (sizes[k] < 128 ? LIMIT / 128 : LIMIT / sizes[k] * 3 / 4));
        empty(cls);
    }
}

/* Whatever came and went before, a block that is there is found, and one that is not is not. */
static void test_quarantine_finds_what_comes_twice(void **state)
{
    unsigned cls = sa_size_class_find(64);
    struct test_random random = {1};

    (void)state;
    for (unsigned turn = 0; turn < 200000; turn++) {
        unsigned i = (unsigned)test_random_below(&random, BLOCKS);

        assert_int_equal(sa_quarantine_put(block(i, cls)),
                         held[i] ? SA_QUARANTINE_TWICE : SA_QUARANTINE_TAKEN);
        held[i] = 1;
        while (take(false, cls))
            ;
    }
    empty(cls);
}

/* How long a block stays has the geometric distribution of a random choice: one of N stays longer
 * than N with chance 1/e. Of 20000 blocks the share then is off by 0.0034; within 6 of those here.
 */
static void test_quarantine_chooses_at_random(void **state)
{
    unsigned cls = sa_size_class_find(1024), room = LIMIT / 1024, stayed = 0;

    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(sa_quarantine_put(block(i, cls)), SA_QUARANTINE_TAKEN);
        held[i] = 1;
        while (take(false, cls))
            ;
        if (i >= 20000 && i < 40000)
            stayed += held[i - room];
    }
    empty(cls);
    assert_in_range(stayed, (0.3679 - 0.0204) * 20000, (0.3679 + 0.0204) * 20000);
}

/*
 * A program that allocates what has just left the quarantine, and frees it: no block stays for
 * long. Of N blocks one stays for 12 N turns with chance exp(-12), so of all 8192 more than 3 do
 * with a chance below 1e-7.
 */
static void test_quarantine_keeps_no_block_for_ever(void **state)
{
    const unsigned room = LIMIT / 128;
    unsigned cls = sa_size_class_find(64), stayed = 0;
    struct sa_quarantined b = block(0, cls);

    (void)state;
    for (unsigned i = 0; i < room; i++) {
        assert_int_equal(sa_quarantine_put(block(i, cls)), SA_QUARANTINE_TAKEN);
        held[i] = 1;
    }
    b = block(room, cls);
    for (unsigned turn = 0; turn < 12 * room; turn++) {
        assert_int_equal(sa_quarantine_put(b), SA_QUARANTINE_TAKEN);
        assert_true(sa_quarantine_take(false, false, &b));
        held[number(b)] = 2;
    }
    for (unsigned i = 0; i < room; i++)
        stayed += held[i] == 1;
    assert_in_range(stayed, 0, 3);
    while (sa_quarantine_take(false, true, &b))
        continue;
    memset(held, 0, sizeof(held));
}

static void test_quarantine_refuses_what_is_too_large(void **state)
{
    unsigned cls = sa_size_class_find(SA_MID_MAX);

    (void)state;
    assert_int_equal(sa_quarantine_put(block(0, cls)), SA_QUARANTINE_REFUSED);
    assert_false(take(true, cls));
}

/* Without memory for its tables it takes nothing. */
static void test_quarantine_without_memory(void **state)
{
    (void)state;
    test_faults.mmap_after = 0;
    assert_int_equal(sa_quarantine_put(block(1, 1)), SA_QUARANTINE_REFUSED);
    test_faults_clear();
    assert_int_equal(sa_quarantine_put(block(1, 1)), SA_QUARANTINE_TAKEN);
    held[1] = 1;
    empty(1);
}

int main(void)
{
    static const uint64_t secret[4] = {5, 6, 7, 8};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quarantine_without_memory),
        cmocka_unit_test(test_quarantine_is_bounded),
        cmocka_unit_test(test_quarantine_finds_what_comes_twice),
        cmocka_unit_test(test_quarantine_chooses_at_random),
        cmocka_unit_test(test_quarantine_keeps_no_block_for_ever),
        cmocka_unit_test(test_quarantine_refuses_what_is_too_large),
    };

    test_start_layers();
    sa_hardening_init(&(struct sa_hardening){.quarantine_bytes = LIMIT}, secret);
    sa_quarantine_init(LIMIT);
    return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
