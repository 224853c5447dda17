/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the loaded object of a code address. Those that are never unloaded are remembered: what is said of them
 * the second time, and of any address in them, is what the loader says, and addresses beside them are not taken for theirs.
 */
#include "sampling/unwind_object.h"

#include "sampling/unwind.h"
#include "test/support/cmocka.h"

#include <stdlib.h>

#ifdef SA_UNWIND_OWN

/* As the loader has it, with the identity that was found. */
static void check(uintptr_t address, uint64_t identity)
{
    struct sa_unwind_object o = {0};
    struct dl_find_object found;
    bool is = sa_unwind_object_find(address, &o);

    if (_dl_find_object((void *)address, &found) != 0) {
        assert_false(is);
        return;
    }
    assert_true(is);
    assert_ptr_equal((void *)o.start, found.dlfo_map_start);
    assert_ptr_equal((void *)o.end, found.dlfo_map_end);
    assert_ptr_equal(o.eh_index, found.dlfo_eh_frame);
    if (identity)
        assert_int_equal(o.identity, identity);
}

static void check_object(uintptr_t address)
{
    struct sa_unwind_object o;

    assert_true(sa_unwind_object_find(address, &o));
    for (int i = 0; i < 2; i++) {
        check(address, o.identity);
        check(o.start, o.identity);
        check(o.end - 1, o.identity);
        check(o.start - 1, 0);
        check(o.end, 0);
    }
}

static void test_unwind_object_remembers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        check_object((uintptr_t)sa_unwind_object_find);
        check_object((uintptr_t)test_unwind_object_remembers);
        check_object((uintptr_t)abort);
        check_object((uintptr_t)_dl_find_object); /* in the loader, which is not remembered */
    }
}

/* Addresses of no object. */
static void test_unwind_object_finds_nothing(void **state)
{
    struct sa_unwind_object o;
    int on_stack;

    (void)state;
    assert_false(sa_unwind_object_find(0, &o));
    assert_false(sa_unwind_object_find(UINTPTR_MAX, &o));
    assert_false(sa_unwind_object_find((uintptr_t)&on_stack, &o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind_object_remembers),
        cmocka_unit_test(test_unwind_object_finds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77; /* there is no walker of our own here */
}

#endif
