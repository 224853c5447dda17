/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end with everything hardened: the functions keep their promises, sizes are exact,
 * places are random, and nothing stays behind. What is done to programs that misuse it is tested
 * from outside.
 */
#include "alloc/base/hardening.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/fast_path.h"
#include "alloc/front/slow_path.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "stats/stats_snapshot.h"
#include "test/support/blocks.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <stdlib.h>

#define MIB (1ul << 20)

static void *slow_alloc(size_t size)
{
    return sa_front_alloc(size, 1, false);
}

/* Must not be reached by the fast path: it would have handed a block out, or taken one back,
 * unchecked. */
static unsigned slow_frees;

static void slow_free(void *p)
{
    if (sa_fast_free_other(p))
        fail_msg("%p was freed without a check", p);
    slow_frees++;
    sa_front_free(p);
}

static void slow_free_sized(void *p, size_t size)
{
    slow_frees++;
    sa_front_free_sized(p, size, 0);
}

static void assert_nothing_left(void)
{
    sa_fork_gate_enter();
    sa_hardened_flush();
    sa_fork_gate_leave();
    assert_nothing_in_use();
}

/* Of all sizes, through the fast paths' code: the usable size is what was asked for, and frees are
 * checked. */
static void test_hardened_sizes_are_exact(void **state)
{
    unsigned frees = slow_frees;
    size_t n = 0;

    (void)state;
    for (size_t size = 0; size < MIB; size += size < 3000 ? 1 : size / 61) {
        unsigned char *p = sa_fast_alloc(SA_FOR_C, size, false, slow_alloc);
        size_t usable = sa_max(size, 1);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % SA_MIN_ALIGN, 0);
        assert_int_equal(sa_front_size(p, "test"), usable);
        assert_int_equal(sa_front_size_if_ours(p), usable);
        assert_false(sa_fast_realloc_stays(p, size));
        memset(p, 0xff, usable);
        if (size % 2)
            sa_fast_free_sized(SA_FOR_C, p, size, slow_free_sized);
        else
            sa_fast_free(SA_FOR_C, p, slow_free);
        assert_int_equal(sa_front_size_if_ours(p), 0);
        n++;
    }
    assert_int_equal(slow_frees - frees, n);
    assert_nothing_left();
}

static size_t in_use(void)
{
    struct sa_snapshot s;

    sa_snapshot_take(&s);
    return s.in_use_bytes;
}

/* What a block takes is by how much there is more in use: with what shows overflows. */
static void test_hardened_estimates_are_what_is_in_use(void **state)
{
    (void)state;
    for (size_t size = 0; size < MIB; size += size < 600 ? 1 : size / 7) {
        size_t before = in_use();
        void *p = sa_front_alloc(size, 1, false);

        assert_non_null(p);
        assert_int_equal(in_use() - before, sa_front_estimate(size));
        sa_front_free(p);
    }
    assert_int_equal(sa_front_estimate(SIZE_MAX), 0);
    assert_nothing_left();
}

static void test_hardened_alignments(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 1ul << 21; align *= 2)
        for (size_t size = 0; size <= 300000; size = size * 3 + 7) {
            unsigned char *p = sa_front_alloc(size, align, true);

            assert_int_equal((uintptr_t)p % align, 0);
            assert_int_equal(sa_front_size(p, "test"), sa_max(size, 1));
            assert_true(is_zero(p, size));
            fill(p, size, 3);
            sa_front_free_sized(p, size, align);
        }
    assert_nothing_left();
}

/* Reallocations keep the content, in place or not, and the sizes that they name. */
static void test_hardened_realloc(void **state)
{
    struct test_random r = {77};
    size_t size = 100;
    unsigned char *p = sa_front_alloc(size, 1, false);

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        size_t more = 1 + (i % 2 ? size + test_random_below(&r, 20) : test_random_size(&r, 23));

        fill(p, size, i);
        p = sa_front_realloc(p, more);
        assert_filled(p, sa_min(size, more), i);
        assert_int_equal(sa_front_size(p, "test"), more);
        size = more;
    }
    sa_front_free_sized(p, size, 0);
    assert_nothing_left();
}

/* A hundred blocks of a size in the order in which they came: as many neighbours as chance has it,
 * not all. */
static void test_hardened_places_are_random(void **state)
{
    unsigned char *p[100];
    int steps = 0, up = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        p[i] = sa_front_alloc(40, 1, false);
        steps += i && labs(p[i] - p[i - 1]) == 48;
        up += i && p[i] > p[i - 1];
    }
    for (int i = 0; i < 100; i++)
        sa_front_free(p[i]);
    assert_in_range(steps, 0, 20);
    assert_in_range(up, 25, 75);
    assert_nothing_left();
}

/* Freed and allocated again, a block is elsewhere: of 300 pairs at most a few meet. */
static void test_hardened_freed_blocks_are_not_used_again_soon(void **state)
{
    int same = 0;

    (void)state;
    for (int i = 0; i < 300; i++) {
        void *p = sa_front_alloc(500, 1, false);
        uintptr_t before = (uintptr_t)p;

        sa_front_free(p);
        p = sa_front_alloc(500, 1, false);
        same += (uintptr_t)p == before;
        sa_front_free(p);
    }
    assert_in_range(same, 0, 3);
    assert_nothing_left();
}

/* The page behind a large block is inaccessible; what is freed is, too. */
static void test_hardened_guards(void **state)
{
    (void)state;
    for (size_t size = SA_MID_MAX; size < 8 * MIB; size = size * 2 + 4096) {
        char *p = sa_front_alloc(size, 1, false);
        char *end = (char *)sa_align_up((uintptr_t)p + size, sa_vm.page_bytes);

        while (sa_sys_is_readable(end) && end < p + size + SA_PAGE_BYTES)
            end += sa_vm.page_bytes;
        assert_false(sa_sys_is_readable(end));
        assert_true(sa_sys_is_readable(p + size - 8 - size % 8));
        sa_front_free(p);
        assert_false(sa_sys_is_readable(p));
    }
    assert_nothing_left();
}

/* What is in the quarantine is not counted as in use, and the sum of the page's rows stays the sum
 * of mappings. */
static void test_hardened_figures(void **state)
{
    struct sa_snapshot before, after;
    void *p[200];

    (void)state;
    sa_snapshot_take(&before);
    for (int i = 0; i < 200; i++)
        p[i] = sa_front_alloc(i % 10 ? 2000 : 300000, 1, false);
    for (int i = 0; i < 200; i++)
        sa_front_free(p[i]);
    sa_snapshot_take(&after);
    assert_int_equal(after.in_use_bytes, before.in_use_bytes);
    assert_int_equal(after.large_blocks, before.large_blocks);
    assert_true(after.quarantine_bytes >= before.quarantine_bytes + 180 * 2000);
    assert_int_equal(sa_snapshot_actual(&after) + after.released_bytes, after.system_bytes);
    assert_nothing_left();
}

/* Out of address space, what the quarantine has is given up before an allocation fails. */
static void out_of_memory(void *unused)
{
    void *p[64];

    (void)unused;
    for (int i = 0; i < 64; i++)
        CHILD_CHECK((p[i] = sa_front_alloc(100000, 1, false)) != NULL);
    for (int i = 0; i < 64; i++)
        sa_front_free(p[i]);
    test_faults.mmap_after = 0;
    for (int i = 0; i < 40; i++)
        CHILD_CHECK(sa_front_alloc(100000, 1, false) != NULL);
}

static void test_hardened_out_of_memory(void **state)
{
    (void)state;
    test_child_passes(out_of_memory, NULL);
}

int main(void)
{
    static const uint64_t secret[4] = {15, 16, 17, 18};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hardened_sizes_are_exact),
        cmocka_unit_test(test_hardened_estimates_are_what_is_in_use),
        cmocka_unit_test(test_hardened_alignments),
        cmocka_unit_test(test_hardened_realloc),
        cmocka_unit_test(test_hardened_places_are_random),
        cmocka_unit_test(test_hardened_freed_blocks_are_not_used_again_soon),
        cmocka_unit_test(test_hardened_guards),
        cmocka_unit_test(test_hardened_figures),
        cmocka_unit_test(test_hardened_out_of_memory),
    };

    test_start_layers();
    sa_hardening_init(&(struct sa_hardening){.canaries = true,
                                             .scatter = true,
                                             .guards = true,
                                             .junk_freed = true,
                                             .quarantine_bytes = 8 * MIB},
                      secret);
    sa_quarantine_init(8 * MIB);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("hardened", tests, NULL, NULL);
}
