/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and names in few columns. */
#include "tool/base/human.h"

#include "test/support/cmocka.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_name(const char *name, unsigned columns, const char *expected)
{
    char found[256];

    sa_human_name(name, columns, found, sizeof(found));
    assert_string_equal(found, expected);
}

static void test_numbers(void **state)
{
    char text[SA_HUMAN_BYTES];

    (void)state;
    sa_human_bytes(0, text);
    assert_string_equal(text, "0 B");
    sa_human_bytes(1023, text);
    assert_string_equal(text, "1023 B");
    sa_human_bytes(1024 * 1024 - 1, text);
    assert_string_equal(text, "1.0 MiB");
    sa_human_bytes(-1536, text);
    assert_string_equal(text, "-1.5 KiB");
    sa_human_bytes(INFINITY, text);
    assert_string_equal(text, "unknown");
    sa_human_bytes(9.2e18, text);
    assert_string_equal(text, "8.0 EiB");
    sa_human_count(12345678, text);
    assert_string_equal(text, "12345678");
    sa_human_count(9e18, text);
    assert_string_equal(text, "9.000e+18");
    sa_human_time(1500, text);
    assert_string_equal(text, "1.5 us");
    sa_human_time(250e6, text);
    assert_string_equal(text, "250 ms");
}

static void test_names(void **state)
{
    (void)state;
    expect_name("main", 8, "main");
    expect_name("std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int const&)", 0,
                "std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int const&)");
    expect_name("std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int const&)",
                72, "std::vector<std::pair<...>, std::allocator<int> >::push_back(int const&)");
    expect_name("std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int const&)",
                71, "std::vector<...>::push_back(int const&)");
    expect_name("std::vector<std::pair<int, long>, std::allocator<int> >::push_back(int const&)",
                38, "std::vector<...>::push_back(...)");
    expect_name("a_name_of_c_that_is_very_long", 15, "a_name...y_long");
}

static void test_names_of_operators(void **state)
{
    (void)state;
    expect_name("bool operator< <int>(std::pair<int, long> const&)", 43,
                "bool operator< <int>(std::pair<...> const&)");
    expect_name("f(a::operator->(), b<cccccccccccccccccc>)", 26, "f(a::operator->(), b<...>)");
    expect_name("thing::operator()(unsigned long) const", 34, "thing::operator()(...) const");
}

/* Whatever the name is, it fits, and is whole characters. */
static void test_any_name_fits(void **state)
{
    static const char *const pieces[] = {"<",  ">", "(",        ")",        "operator",
                                         "::", "a", "\xc3\xa4", "long_name"};
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char name[256] = "", found[300];
        unsigned columns = 8 + (unsigned)rand_r(&seed) % 40, seen = 0;

        for (int i = rand_r(&seed) % 25; i; i--)
            strcat(name, pieces[(unsigned)rand_r(&seed) % 9]);
        sa_human_name(name, columns, found, sizeof(found));
        for (const char *s = found; *s; s++)
            seen += ((unsigned char)*s & 0xc0) != 0x80;
        assert_true(seen <= columns);
        assert_true(strchr(found, '\xc3') || !strchr(found, '\xa4'));
    }
}

static void test_paths(void **state)
{
    char text[64];

    (void)state;
    sa_human_path("/usr/include/c++/12/bits/vector.h:12", 20, text, sizeof(text));
    assert_string_equal(text, ".../bits/vector.h:12");
    sa_human_path("a.c:1", 20, text, sizeof(text));
    assert_string_equal(text, "a.c:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_of_operators),
        cmocka_unit_test(test_any_name_fits),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
