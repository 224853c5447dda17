/* SPDX-License-Identifier: Apache-2.0 */
/* The bitmaps of mixed spans, against an array of units. */
#include "alloc/middle/mixed_bits.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <string.h>

#define PAGES 3
#define UNITS (PAGES * SA_MIXED_PAGE_UNITS)

/* A block of the model: its first unit and length. */
struct piece {
    size_t at, units;
};

static void assert_bits(struct sa_mixed_page *pages, const unsigned char *taken)
{
    struct sa_mixed_walk walk = {.pages = pages, .units = UNITS};
    size_t at = 0;

    while (sa_mixed_run(&walk)) {
        for (; at < walk.begin; at++)
            assert_true(taken[at]);
        for (; at < walk.end; at++)
            assert_false(taken[at]);
    }
    for (; at < UNITS; at++)
        assert_true(taken[at]);
}

/* Random blocks come and go: runs, lengths and ends are those of an array with a byte for each
 * unit. Blocks have up to 90 units, so that many cross words and some end with the last unit. */
static void test_bits_are_those_of_an_array(void **state)
{
    struct sa_mixed_page pages[PAGES] = {{{0}, {0}}};
    unsigned char taken[UNITS] = {0};
    struct piece pieces[UNITS];
    struct test_random r = {7};
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t units = 1 + test_random_next(&r) % 90, at = test_random_next(&r) % UNITS, free = 0;

        if (n && test_random_next(&r) % 3 == 0) {
            struct piece *p = &pieces[test_random_next(&r) % n];

            assert_int_equal(sa_mixed_length(pages, UNITS, p->at), p->units);
            sa_mixed_mark(pages, p->at, p->units);
            memset(taken + p->at, 0, p->units);
            *p = pieces[--n];
        } else {
            while (free < units && at + free < UNITS && !taken[at + free])
                free++;
            if (free == units) {
                sa_mixed_mark(pages, at, units);
                memset(taken + at, 1, units);
                pieces[n++] = (struct piece){at, units};
            }
        }
        if (i % 64 == 0)
            assert_bits(pages, taken);
    }
    for (size_t at = 0; at < UNITS; at++) {
        size_t before = at, next = at;

        while (before && !taken[before - 1])
            before--;
        while (next < UNITS && !taken[next])
            next++;
        if (!taken[at]) {
            assert_int_equal(sa_mixed_end_before(pages, at), before);
            assert_int_equal(sa_mixed_next_first(pages, UNITS, at), next);
            assert_int_equal(sa_mixed_length(pages, UNITS, at), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_those_of_an_array),
    };

    return cmocka_run_group_tests_name("mixed_bits", tests, NULL, NULL);
}
