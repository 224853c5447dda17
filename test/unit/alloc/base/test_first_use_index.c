/* SPDX-License-Identifier: Apache-2.0 */
/* Places of size classes: one for each, the same for everybody, without gaps, also when all threads
 * ask at once. */
#include "alloc/base/first_use_index.h"

#include "test/support/cmocka.h"
#include "test/support/threads.h"

#include <string.h>

enum { THREADS = 4, LAST = SA_CLASSES_MAX - 1, ROUNDS = 200 };

static unsigned seen[THREADS][SA_CLASSES_MAX];

/* Each thread asks for all classes, beginning with another one. */
static void ask(int index, void *arg)
{
    unsigned first = *(const unsigned *)arg * (unsigned)(index + 1);

    for (unsigned i = 0; i < LAST; i++) {
        unsigned cls = 1 + (first + i * (index % 2 ? 1 : LAST - 1)) % LAST;

        seen[index][cls] = sa_first_use_index(cls);
    }
}

static void forget(void)
{
    memset(sa_first_use_indexes, 0, sizeof(sa_first_use_indexes));
    memset(sa_first_use, 0, sizeof(sa_first_use));
}

static void test_class_order_is_one_for_all(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool taken[SA_CLASSES_MAX] = {false};

        forget();
        test_threads_run(THREADS, ask, &round);
        test_threads_check();
        for (unsigned cls = 1; cls <= LAST; cls++) {
            unsigned place = seen[0][cls];

            assert_true(place < LAST);
            assert_false(taken[place]);
            taken[place] = true;
            for (int i = 1; i < THREADS; i++)
                assert_int_equal(seen[i][cls], place);
            assert_int_equal(sa_first_use_index(cls), place);
        }
    }
}

/* The places of a few classes are the first ones, in the order in which they were asked for. */
static void test_class_order_is_that_of_first_use(void **state)
{
    static const unsigned classes[] = {70, 3, LAST, 1};

    (void)state;
    forget();
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < TEST_COUNT(classes); i++) {
            assert_int_equal(sa_class_is_used(classes[i]), round);
            assert_int_equal(sa_first_use_index(classes[i]), i);
        }
    assert_false(sa_class_is_used(2));
}

/* Who asked just now, and was interrupted before it could remember, finds the same place again. */
static void test_class_order_survives_interruption(void **state)
{
    (void)state;
    forget();
    for (unsigned cls = 1; cls < 40; cls++) {
        unsigned place = sa_first_use_index(cls);

        sa_first_use_indexes[cls] = 0;
        assert_int_equal(sa_first_use_index(cls + 40), 2 * cls - 1);
        assert_int_equal(sa_first_use_index(cls), place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class_order_is_one_for_all),
        cmocka_unit_test(test_class_order_is_that_of_first_use),
        cmocka_unit_test(test_class_order_survives_interruption),
    };

    return cmocka_run_group_tests_name("class_order", tests, NULL, NULL);
}
