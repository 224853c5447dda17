/* SPDX-License-Identifier: Apache-2.0 */
/* tool/symbol/demangle.c as a build without libiberty compiles it: names stay as they are. */
#include "tool/symbol/demangle.h"

#include "test/support/cmocka.h"

static void test_no_name_is_changed(void **state)
{
    (void)state;
    assert_false(sa_can_demangle());
    assert_null(sa_demangle("_ZN1a3bcdEv"));
    assert_null(sa_demangle("main"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_name_is_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
