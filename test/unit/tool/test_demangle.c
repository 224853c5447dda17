/* SPDX-License-Identifier: Apache-2.0 */
/* Names of three languages, names of C, and names that stand for more than fits in memory. */
#include "tool/symbol/demangle.h"

#include "test/support/cmocka.h"

#include <stdlib.h>
#include <string.h>

static void expect(const char *name, const char *plain)
{
    char *found = sa_demangle(name);

    if (!plain)
        assert_null(found);
    else
        assert_string_equal(found, plain);
    free(found);
}

static void test_names_of_languages(void **state)
{
    (void)state;
    if (!sa_can_demangle())
        TEST_SKIP("built without libiberty");
    expect("_ZN1a3bcdEv", "a::bcd()");
    expect("_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_",
           "std::remove_reference<int&>::type&& std::move<int&>(int&)");
    expect("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
    expect("_RNvCs1234_7mycrate3foo", "mycrate::foo");
    expect("_D3foo3barFiZv", "foo.bar(int)");
    expect("main", NULL);
    expect("_start", NULL);
    expect("_Z!", NULL);
    expect("_ZN", NULL);
    expect("_D", NULL);
    expect("", NULL);
}

/* Parameter k + 1 is a pair of parameter k with itself: 2^levels letters. */
static void test_a_name_that_grows_without_end(void **state)
{
    char name[2048] = "_Z1fSt4pairIiiE";

    (void)state;
    for (int level = 0; level < 60; level++) {
        char parameter[32] = "S_", *s = parameter + 1;

        /* St4pair is substitution S_, pair<int, int> S0_, and so on. In base 36. */
        if (level >= 36)
            *s++ = (char)('0' + level / 36);
        *s++ = (char)(level % 36 < 10 ? '0' + level % 36 : 'A' + level % 36 - 10);
        strcpy(s, "_");
        strcat(strcat(strcat(strcat(name, "S_I"), parameter), parameter), "E");
    }
    expect(name, NULL);
    name[strlen("_Z1fSt4pairIiiES_IS0_S0_E")] = '\0';
    if (sa_can_demangle())
        expect(name,
               "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_languages),
        cmocka_unit_test(test_a_name_that_grows_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
