/* SPDX-License-Identifier: Apache-2.0 */
/* Bitmaps of pages: every range of a run in which every word boundary matters. What is chosen, and
 * every count after any sequence, is compared with an array of booleans by
 * test/fuzz/fuzz_range_tracker.c. */
#include "alloc/page_heap/huge/range_tracker.h"

#include "alloc/base/bits.h"
#include "test/support/cmocka.h"

#include <string.h>

#define PAGES 128

static void test_range_fills_and_counts_any_range(void **state)
{
    uint64_t words[PAGES / 64];
    struct sa_range_tracker tracker;

    (void)state;
    for (uint32_t at = 0; at < PAGES; at++)
        for (uint32_t n = 0; at + n <= PAGES; n++) {
            uint32_t behind = PAGES - at - n;

            memset(words, 0, sizeof(words));
            sa_range_init(&tracker, words, PAGES);
            sa_range_take(&tracker, at, n, true);
            assert_int_equal(tracker.taken, n);
            assert_int_equal(tracker.longest, n ? sa_max(at, behind) : PAGES);
            assert_int_equal(tracker.allocations, 1);
            assert_int_equal(sa_bits_count(words, 0, PAGES), n);
            assert_int_equal(sa_bits_count(words, at, n), n);
            assert_int_equal(sa_bits_next(words, PAGES, 0, true), n ? at : PAGES);
            assert_int_equal(sa_bits_next(words, PAGES, at, false), at + n);
            assert_true(sa_range_is_free(&tracker, 0, at));
            assert_true(sa_range_is_free(&tracker, at + n, behind));
            assert_int_equal(sa_range_is_free(&tracker, 0, at + 1), n == 0);
            assert_false(sa_range_is_free(&tracker, at + n, behind + 1));
        }
    assert_false(sa_range_is_free(&tracker, UINT32_MAX, 1));
    assert_false(sa_range_is_free(&tracker, 1, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_fills_and_counts_any_range),
    };

    return cmocka_run_group_tests_name("range_tracker", tests, NULL, NULL);
}
