/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region: which hole is filled, and what comes of hugepages that the kernel backs as a whole.
 * What happens in any sequence is compared with arrays by test/fuzz/fuzz_huge_region.c.
 */
#include "alloc/page_heap/huge/huge_region.h"

#include "test/support/cmocka.h"

#include <stdlib.h>

static struct sa_huge_region *region;
static const uint64_t now_ns = 5000000000;

static void begin(void)
{
    free(region);
    region = calloc(1, sizeof(*region));
    assert_non_null(region);
    sa_huge_region_init(region, 1000, now_ns);
}

/* The first of n pages, taken; or -1. */
static long take(uint32_t n, uint32_t align, bool eager, bool *ret_zero)
{
    struct sa_region_place place = sa_huge_region_find(region, n, align, eager);
    size_t unbacked = region->unbacked_pages;

    if (place.at < 0)
        return -1;
    sa_huge_region_cancel(region, &place);
    place = sa_huge_region_find(region, n, align, eager); /* there again */
    sa_huge_region_commit(region, &place, eager);
    assert_int_equal(unbacked - region->unbacked_pages, place.grows);
    *ret_zero = place.zero;
    return place.at;
}

/* Best fit: a hole is filled by what fits it, not by what comes first. */
static void test_region_fits_best(void **state)
{
    bool zero;

    (void)state;
    begin();
    assert_int_equal(take(1000, 1, false, &zero), 0);
    assert_int_equal(take(200, 1, false, &zero), 1000);
    assert_int_equal(take(300, 1, false, &zero), 1200);
    assert_int_equal(take(200, 1, false, &zero), 1500);
    sa_huge_region_put(region, 0, 1000, true, now_ns);
    sa_huge_region_put(region, 1200, 300, true, now_ns);
    assert_int_equal(take(280, 1, false, &zero), 1200);
    assert_false(zero);
    assert_int_equal(take(400, 1, false, &zero), 0);
    assert_int_equal(take(SA_REGION_PAGES, 1, false, &zero), -1);
}

/* Where the kernel gives memory by the hugepage, all of one has it that was touched. */
static void test_region_notes_hugepages_that_come_whole(void **state)
{
    struct sa_region_release release;
    bool zero;

    (void)state;
    begin();
    assert_int_equal(take(300, 1, true, &zero), 0);
    assert_true(zero);
    assert_int_equal(sa_huge_region_backed(region), 512 - 300);
    assert_true(sa_huge_region_extend(region, 300, 300, true));
    assert_int_equal(sa_huge_region_backed(region), 768 - 600);
    assert_true(sa_huge_region_begin(region, 1, &release));
    assert_int_equal(release.index, 2);
    assert_false(release.empty);
    sa_huge_region_end(region, &release, release.mask, now_ns);
    assert_int_equal(sa_huge_region_backed(region), 0);
    assert_true(sa_huge_region_extend(region, 600, 10, true)); /* in pieces: only these */
    assert_int_equal(sa_huge_region_backed(region), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region_fits_best),
        cmocka_unit_test(test_region_notes_hugepages_that_come_whole),
    };

    return cmocka_run_group_tests_name("huge_region", tests, NULL, NULL);
}
