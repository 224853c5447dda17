/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are left out, and sets of pages, against an array of booleans. */
#include "tool/heap/page_set.h"
#include "tool/leaks/holes.h"

#include "test/support/cmocka.h"

#include <stdlib.h>
#include <string.h>

#define SPACE  400
#define ROUNDS 2000

static void test_holes_match_model(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bool out[SPACE + 1] = {false};
        struct sa_holes h = {NULL, 0, 0};

        for (int i = rand_r(&seed) % 80; i; i--) {
            uint64_t start = (uint64_t)rand_r(&seed) % SPACE;
            uint64_t end = (uint64_t)rand_r(&seed) % SPACE;

            if (rand_r(&seed) % 2)
                end = start + end % 10 < SPACE ? start + end % 10 : SPACE;
            assert_true(sa_holes_add(&h, start, end));
            for (uint64_t at = start; at < end; at++)
                out[at] = true;
        }
        sa_holes_sort(&h);
        for (uint64_t at = 0; at < SPACE; at++) {
            uint64_t end = at + 1 + (uint64_t)rand_r(&seed) % (SPACE - at), first = at;
            const struct sa_hole *found = sa_holes_find(&h, at, end);

            while (first < end && !out[first])
                first++;
            assert_int_equal(found != NULL, first < end);
            if (!found)
                continue;
            assert_int_equal(found->start > at ? found->start : at, first);
            assert_false(out[found->end]);
        }
        sa_holes_free(&h);
    }
}

static void test_page_sets_match_model(void **state)
{
    unsigned seed = 2;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        bool in[SPACE] = {false};
        struct sa_page_set set = {NULL, 0, 0};

        for (int i = rand_r(&seed) % 60; i; i--) {
            uint64_t address = (uint64_t)rand_r(&seed) % (SPACE * 4096);

            assert_true(sa_page_set_add(&set, address));
            if (address)
                in[address / 4096] = true;
        }
        sa_page_set_sort(&set);
        for (int i = 0; i < SPACE; i++) {
            uint64_t start = (uint64_t)rand_r(&seed) % (SPACE * 4096);
            uint64_t end = start + 1 + (uint64_t)rand_r(&seed) % (SPACE * 4096 - start);
            bool any = false;

            for (uint64_t page = start / 4096; page <= (end - 1) / 4096; page++)
                any |= in[page];
            assert_int_equal(sa_page_set_meets(&set, start, end), any);
        }
        sa_page_set_free(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes_match_model),
        cmocka_unit_test(test_page_sets_match_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
