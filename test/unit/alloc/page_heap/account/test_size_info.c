/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of spans by length against a plain list of spans; and that buckets cover every length
 * once. */
#include "alloc/page_heap/account/size_info.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#define SPANS 500
#define BITS  31 /* lengths have at most so many */

static void test_size_info_buckets_cover_all_lengths(void **state)
{
    (void)state;
    for (unsigned b = 1; b < SA_SIZE_BUCKETS - 1; b++) {
        assert_int_equal(sa_size_info_bucket(sa_size_info_min(b)), b);
        assert_int_equal(sa_size_info_bucket(sa_size_info_max(b)), b);
        assert_int_equal(sa_size_info_max(b) + 1, sa_size_info_min(b + 1));
    }
    assert_true(sa_size_info_bucket(UINT32_MAX) < SA_SIZE_BUCKETS);
}

static void test_size_info_counts_spans_and_pages(void **state)
{
    struct test_random r = {0x512e};
    static struct sa_size_info info;
    static size_t length[SPANS];
    uint64_t allocated[SA_SIZE_BUCKETS] = {0}, live[SA_SIZE_BUCKETS] = {0};
    size_t largest = 0;

    (void)state;
    for (int step = 0; step < 50000; step++) {
        size_t i = test_random_below(&r, SPANS);
        unsigned b;

        if (length[i]) {
            b = sa_size_info_bucket(length[i]);
            sa_size_info_free(&info, length[i], length[i] / 3);
            live[b] -= length[i];
            length[i] = 0;
        } else {
            length[i] = test_random_size(&r, BITS);
            b = sa_size_info_bucket(length[i]);
            sa_size_info_alloc(&info, length[i], length[i] / 3);
            allocated[b] += length[i];
            live[b] += length[i];
            largest = length[i] > largest ? length[i] : largest;
        }
    }
    for (unsigned b = 0; b < SA_SIZE_BUCKETS; b++) {
        struct sa_size_pages pages = sa_size_info_pages(&info, b);
        uint64_t spans = 0;

        for (size_t i = 0; i < SPANS; i++)
            spans += length[i] && sa_size_info_bucket(length[i]) == b;
        assert_int_equal(pages.allocated, allocated[b]);
        assert_int_equal(pages.allocated - pages.freed, live[b]);
        assert_int_equal(info.count[b].allocs - info.count[b].frees, spans);
    }
    assert_int_equal(info.largest_pages, largest);
    for (size_t i = 0; i < SPANS; i++)
        if (length[i])
            sa_size_info_free(&info, length[i], length[i] / 3);
    assert_int_equal(info.slack_pages, 0);
    assert_int_equal(info.small_live_pages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_info_buckets_cover_all_lengths),
        cmocka_unit_test(test_size_info_counts_spans_and_pages),
    };

    return cmocka_run_group_tests_name("size_info", tests, NULL, NULL);
}
