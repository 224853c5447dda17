/* SPDX-License-Identifier: Apache-2.0 */
/* Free spans by length against a plain array that is searched from end to end. */
#include "alloc/page_heap/plain/free_lists.h"

#include "alloc/base/bits.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#define SPANS 300

static struct sa_free_lists lists;
static struct sa_span spans[SPANS];
static bool in_list[SPANS];

static bool holds(const struct sa_span *s, size_t pages, size_t align)
{
    uintptr_t at = sa_align_up(s->start, align << SA_PAGE_SHIFT);

    return at + (pages << SA_PAGE_SHIFT) <= sa_span_end(s);
}

static size_t model_pages(void)
{
    size_t n = 0;

    for (int i = 0; i < SPANS; i++)
        n += in_list[i] ? spans[i].pages : 0;
    return n;
}

/* The length of the shortest span that holds the request; SIZE_MAX: none. */
static size_t model_shortest(size_t pages, size_t align)
{
    size_t best = SIZE_MAX;

    for (int i = 0; i < SPANS; i++)
        if (in_list[i] && holds(&spans[i], pages, align))
            best = sa_min(best, spans[i].pages);
    return best;
}

static size_t model_longest(void)
{
    size_t best = 0;

    for (int i = 0; i < SPANS; i++)
        if (in_list[i])
            best = sa_max(best, spans[i].pages);
    return best;
}

static size_t random_pages(struct test_random *r)
{
    return test_random_below(r, 2) ? 1 + test_random_below(r, 200) : test_random_size(r, 32);
}

static void toggle(struct test_random *r, int i)
{
    if (in_list[i]) {
        sa_free_lists_remove(&lists, &spans[i]);
    } else {
        spans[i].pages = (uint32_t)random_pages(r);
        spans[i].start = (uintptr_t)(i + 1) << 45 | test_random_below(r, 1 << 20) << SA_PAGE_SHIFT;
        sa_free_lists_add(&lists, &spans[i]);
    }
    in_list[i] = !in_list[i];
}

/*
 * Without alignment, what is found is the shortest: 300 spans over so many lengths leave fewer than
 * 16 in any list, which is where a search is cut off. The longest is known up to the width of a
 * list, an eighth.
 */
static void test_free_lists_match_a_plain_array(void **state)
{
    struct test_random r = {0xf4ee};

    (void)state;
    for (int step = 0; step < 30000; step++) {
        size_t pages = random_pages(&r), shortest;
        struct sa_span *found;

        toggle(&r, (int)test_random_below(&r, SPANS));
        assert_int_equal(lists.pages, model_pages());
        found = sa_free_lists_find(&lists, pages, 1);
        shortest = model_shortest(pages, 1);
        if (!found) {
            assert_true(shortest == SIZE_MAX);
        } else {
            assert_true(in_list[found - spans]);
            assert_true(holds(found, pages, 1));
            assert_int_equal(found->pages, shortest);
        }
        found = sa_free_lists_longest(&lists);
        if (!found)
            assert_int_equal(model_longest(), 0);
        else
            assert_true((size_t)found->pages + found->pages / 8 >= model_longest());
    }
}

static void test_free_lists_find_respects_alignment(void **state)
{
    struct test_random r = {0xf4ef};
    int found_some = 0;

    (void)state;
    for (int step = 0; step < 30000; step++) {
        size_t pages = random_pages(&r), align = (size_t)1 << test_random_below(&r, 12);
        struct sa_span *found;

        toggle(&r, (int)test_random_below(&r, SPANS));
        found = sa_free_lists_find(&lists, pages, align);
        if (found) {
            found_some++;
            assert_true(in_list[found - spans]);
            assert_true(holds(found, pages, align));
        } else {
            /* A span that is long enough for any start of the pages cannot be missed. */
            for (int i = 0; i < SPANS; i++)
                assert_false(in_list[i] && spans[i].pages >= 2 * (pages + align));
        }
    }
    assert_true(found_some > 1000);
}

/* Two walks at a time while spans come and go: who stays is visited once by each, nobody who is not
 * there is. */
static void test_free_lists_are_walked_while_they_change(void **state)
{
    struct test_random r = {0xf4f0};
    static unsigned visits[2][SPANS];
    static bool stayed[2][SPANS];
    struct sa_free_walk walks[2];

    (void)state;
    for (int round = 0; round < 300; round++) {
        bool done[2] = {false, false};

        for (int w = 0; w < 2; w++) {
            sa_free_lists_begin(&lists, &walks[w]);
            for (int i = 0; i < SPANS; i++) {
                visits[w][i] = 0;
                stayed[w][i] = in_list[i];
            }
        }
        while (!done[0] || !done[1]) {
            int w = (int)test_random_below(&r, 2);
            struct sa_span *s = done[w] ? NULL : sa_free_lists_step(&lists, &walks[w]);

            if (s) {
                assert_true(in_list[s - spans]);
                visits[w][s - spans]++;
            } else if (!done[w]) {
                sa_free_lists_end(&lists, &walks[w]);
                done[w] = true;
            }
            if (test_random_below(&r, 4) == 0) {
                int i = (int)test_random_below(&r, SPANS);

                toggle(&r, i);
                for (int k = 0; k < 2; k++)
                    stayed[k][i] = stayed[k][i] && done[k];
            }
        }
        assert_null(lists.walks);
        for (int i = 0; i < SPANS; i++)
            for (int w = 0; w < 2; w++)
                if (stayed[w][i])
                    assert_int_equal(visits[w][i], 1);
    }
}

static void test_free_lists_empty_again(void **state)
{
    struct test_random r = {1};

    (void)state;
    for (int i = 0; i < SPANS; i++)
        if (in_list[i])
            toggle(&r, i);
    assert_int_equal(lists.pages, 0);
    assert_null(sa_free_lists_longest(&lists));
    assert_null(sa_free_lists_find(&lists, 1, 1));
    for (size_t i = 0; i < SA_FREE_LISTS; i++)
        assert_null(lists.first[i]);
    for (size_t i = 0; i < TEST_COUNT(lists.filled); i++)
        assert_int_equal(lists.filled[i], 0);
}

/* Every length up to 2^20 and then a sample: found again at once, and the lists do not overflow. */
static void test_free_lists_hold_every_length(void **state)
{
    static struct sa_span one;

    (void)state;
    for (uint64_t pages = 1; pages <= UINT32_MAX; pages += pages < 1u << 20 ? 1 : 99991) {
        one = (struct sa_span){.start = SA_PAGE_BYTES, .pages = (uint32_t)pages};
        sa_free_lists_add(&lists, &one);
        assert_ptr_equal(sa_free_lists_find(&lists, pages, 1), &one);
        assert_ptr_equal(sa_free_lists_longest(&lists), &one);
        sa_free_lists_remove(&lists, &one);
        assert_null(sa_free_lists_find(&lists, 1, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_lists_match_a_plain_array),
        cmocka_unit_test(test_free_lists_find_respects_alignment),
        cmocka_unit_test(test_free_lists_are_walked_while_they_change),
        cmocka_unit_test(test_free_lists_empty_again),
        cmocka_unit_test(test_free_lists_hold_every_length),
    };

    return cmocka_run_group_tests_name("free_lists", tests, NULL, NULL);
}
