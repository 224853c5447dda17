/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples are chosen to be guarded: how many, of which stacks, how soon after each other. */
#include "sampling/choice.h"

#include "test/support/cmocka.h"

#define SECOND 1000000000ull

static uint64_t now_ns = SECOND;

/* Stacks with hashes of their own. */
static struct sa_stack *stack(uint64_t hash)
{
    static struct sa_stack s;

    s.hash = hash;
    return &s;
}

static unsigned chosen_of(unsigned samples, unsigned stacks, uint64_t gap_ns)
{
    unsigned chosen = 0;

    for (unsigned i = 0; i < samples; i++) {
        now_ns += gap_ns;
        chosen += sa_choice_make(stack(i % stacks), now_ns);
    }
    return chosen;
}

static void test_choice_all_or_none(void **state)
{
    (void)state;
    sa_choice_init(1, 1);
    assert_int_equal(chosen_of(1000, 1, 0), 1000);
    sa_choice_init(0, 1);
    assert_int_equal(chosen_of(1000, 1000, SECOND), 0);
}

/* With stacks that do not repeat one in so many, from anywhere in the first round. */
static void test_choice_one_in_so_many(void **state)
{
    unsigned firsts = 0, chosen = 0, since = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        unsigned first = 0;

        sa_choice_init(50, seed);
        while (!sa_choice_make(stack(first << 20 | seed), now_ns) && first < 1000) {
            now_ns += SECOND;
            first++;
        }
        assert_true(first < 50);
        firsts += first;
    }
    /* Uniform in 0 .. 49: the mean of 100 is 24.5 with deviation 1.44; 8 is 5.5 of them. */
    assert_true(firsts > 1650 && firsts < 3250);
    for (unsigned i = 0; i < 100000; i++) {
        now_ns += SECOND;
        since++;
        if (sa_choice_make(stack(1 + (uint64_t)i * 1000), now_ns)) {
            assert_true(chosen == 0 || since >= 50);
            since = 0;
            chosen++;
        }
    }
    /* Both counters of a stack are another's with chance 0.4 %; then it may be the next one's turn. */
    assert_in_range(chosen, 1990, 2000);
}

/*
 * One stack that has all the samples gets few choices: after n of them the chance is 2^-n, and a counter is
 * halved after 64. When it is the only one, the count settles where 64 choices bring as much as the halving
 * takes away, at 64 in 128; so its chance is below 2^-10 then. (Counters are capped at 16.)
 */
static void test_choice_spares_stacks_that_were_chosen(void **state)
{
    struct sa_choice_stats s;
    unsigned alone, others;

    (void)state;
    sa_choice_init(2, 7);
    alone = chosen_of(20000, 1, SECOND);
    assert_true(alone >= 5 && alone < 60);
    sa_choice_stats(&s);
    assert_int_equal(s.every, 2);
    assert_true(s.skipped > 9000);
    /* A new one is chosen at once. */
    now_ns += SECOND;
    assert_true(sa_choice_make(stack(12345), now_ns));
    /* Many stacks get nearly all of the choices that there are: 4000 of 8000, with few each. */
    others = 0;
    for (unsigned i = 0; i < 8000; i++) {
        now_ns += SECOND;
        others += sa_choice_make(stack(1000 + i), now_ns);
    }
    assert_true(others > 3600 && others <= 4000);
}

/* What was long ago does not matter: the stack is chosen again when others have been. */
static void test_choice_forgets(void **state)
{
    unsigned before, again;

    (void)state;
    sa_choice_init(2, 9);
    before = chosen_of(2000, 1, SECOND);
    for (unsigned i = 0; i < 8000; i++) {
        now_ns += SECOND;
        sa_choice_make(stack(5000 + i), now_ns);
    }
    again = chosen_of(2000, 1, SECOND);
    assert_true(before >= 4 && again >= 4);
}

/* However many samples there are, choices keep their distance; and so do pages that are kept. */
static void test_choice_has_a_pace(void **state)
{
    unsigned chosen = 0, kept = 0;

    (void)state;
    sa_choice_init(2, 3);
    for (unsigned i = 0; i < 1000000; i++) { /* a second, at a microsecond each */
        now_ns += 1000;
        chosen += sa_choice_make(stack(i), now_ns);
        kept += sa_choice_keep(now_ns);
    }
    assert_in_range(chosen, SECOND / SA_CHOICE_NS * 9 / 10, SECOND / SA_CHOICE_NS + 1);
    assert_in_range(kept, SECOND / SA_CHOICE_KEEP_NS * 9 / 10, SECOND / SA_CHOICE_KEEP_NS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_all_or_none),
        cmocka_unit_test(test_choice_one_in_so_many),
        cmocka_unit_test(test_choice_spares_stacks_that_were_chosen),
        cmocka_unit_test(test_choice_forgets),
        cmocka_unit_test(test_choice_has_a_pace),
    };

    return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
