/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitmaps of pages against an array of booleans: every answer and every count, for a hugepage's length, a
 * region's, and small ones in which every word boundary matters.
 */
#include "alloc/page_heap/range_tracker.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <string.h>

#define PAGES_MOST 131072

static uint64_t words[PAGES_MOST / 64];
static bool model[PAGES_MOST];
static struct sa_range_tracker tracker;

static void begin(uint32_t pages)
{
    memset(words, 0, sizeof(words));
    memset(model, 0, sizeof(model));
    sa_range_init(&tracker, words, pages);
}

/* The end of the run of equal pages that begins at `at`. */
static uint32_t run_end(uint32_t at)
{
    uint32_t end = at;

    while (end < tracker.pages && model[end] == model[at])
        end++;
    return end;
}

/* What sa_range_alloc promises, found by trying everything. */
static long model_find(uint32_t n, uint32_t align)
{
    uint32_t best = UINT32_MAX;
    long found = -1;

    for (uint32_t at = 0, end; at < tracker.pages; at = end) {
        uint32_t first = (at + align - 1) / align * align;

        end = run_end(at);
        if (!model[at] && first + n <= end && end - at < best) {
            best = end - at;
            found = first;
        }
    }
    return found;
}

static void model_set(uint32_t at, uint32_t n, bool taken)
{
    memset(&model[at], taken, n);
}

static void check(uint32_t allocations)
{
    uint32_t taken = 0, longest = 0;

    for (uint32_t at = 0, end; at < tracker.pages; at = end) {
        end = run_end(at);
        assert_int_equal(sa_bits_next(words, tracker.pages, at, !model[at]), end);
        assert_int_equal(sa_bits_next(words, tracker.pages, at, model[at]), at);
        if (model[at])
            taken += end - at;
        else if (end - at > longest)
            longest = end - at;
        assert_int_equal(sa_bits_count(words, at, end - at), model[at] ? end - at : 0);
        assert_int_equal(sa_range_is_free(&tracker, at, end - at), !model[at]);
        assert_false(sa_range_is_free(&tracker, at, end - at + 1));
    }
    assert_int_equal(tracker.taken, taken);
    assert_int_equal(tracker.longest, longest);
    assert_int_equal(tracker.allocations, allocations);
}

static void random_operations(uint32_t pages, int steps, int check_every, unsigned log_most)
{
    static struct {
        uint32_t at, n;
    } held[4096];
    struct test_random r = {pages};
    unsigned count = 0;

    begin(pages);
    for (int step = 0; step < steps; step++) {
        bool grow = test_random_below(&r, 100) < (step / 500 % 2 ? 30u : 65u);

        if (grow && count < 4096) {
            uint32_t n = (uint32_t)test_random_size(&r, log_most);
            uint32_t align = 1u << test_random_below(&r, 6);
            long expect = model_find(n, align), at = sa_range_alloc(&tracker, n, align);

            assert_int_equal(at, expect);
            if (at >= 0) {
                model_set((uint32_t)at, n, true);
                held[count].at = (uint32_t)at;
                held[count++].n = n;
            }
        } else if (count) {
            unsigned i = (unsigned)test_random_below(&r, count);
            uint32_t at = held[i].at, n = held[i].n, keep = (uint32_t)test_random_below(&r, n);

            if (keep && test_random_below(&r, 3) == 0) { /* shorten it, lengthen it again */
                sa_range_put(&tracker, at + keep, n - keep, false);
                model_set(at + keep, n - keep, false);
                held[i].n = keep;
                if (test_random_below(&r, 2)) {
                    sa_range_take(&tracker, at + keep, n - keep, false);
                    model_set(at + keep, n - keep, true);
                    held[i].n = n;
                }
            } else {
                sa_range_put(&tracker, at, n, true);
                model_set(at, n, false);
                held[i] = held[--count];
            }
        }
        if (step % check_every == 0)
            check(count);
    }
}

static void test_range_serves_a_hugepage(void **state)
{
    (void)state;
    random_operations(256, 20000, 1, 5);
    random_operations(256, 5000, 1, 8);
}

static void test_range_serves_small_runs(void **state)
{
    (void)state;
    random_operations(64, 5000, 1, 4);
    random_operations(128, 5000, 1, 5);
}

static void test_range_serves_a_region(void **state)
{
    (void)state;
    random_operations(PAGES_MOST, 600, 50, 12);
}

/* Every range of a run of 128 pages. */
static void test_range_fills_and_counts_any_range(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 128; at++)
        for (uint32_t n = 0; at + n <= 128; n++) {
            begin(128);
            sa_range_take(&tracker, at, n, true);
            model_set(at, n, true);
            check(1);
            assert_int_equal(sa_bits_count(words, 0, 128), n);
        }
    assert_false(sa_range_is_free(&tracker, UINT32_MAX, 1));
    assert_false(sa_range_is_free(&tracker, 1, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_serves_a_hugepage),
        cmocka_unit_test(test_range_serves_small_runs),
        cmocka_unit_test(test_range_serves_a_region),
        cmocka_unit_test(test_range_fills_and_counts_any_range),
    };

    return cmocka_run_group_tests_name("range_tracker", tests, NULL, NULL);
}
