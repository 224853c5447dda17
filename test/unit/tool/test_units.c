/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and sizes as people write them, and what is neither. */
#include "tool/base/units.h"

#include "test/support/cmocka.h"

#include <math.h>

static void test_units_time(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } times[] = {{"200ms", 0.2},   {"1s", 1},
                 {"5m", 300},      {"0.5", 0.5},
                 {"15", 15},       {"2h", 7200},
                 {"1d", 86400},    {"250us", 250e-6},
                 {"1.5m", 90},     {"1m30s", 90},
                 {"0", 0},         {"0ms", 0},
                 {"1h0m1s", 3601}, {"3652d", 3652 * 86400.0},
                 {"0.001s", 1e-3}};
    static const char *const none[] = {
        "",      "s",    "-1",     "+1",     " 1",
        "1 s",   "1S",   "1sec",   "1,5",    "1e3",
        "0x1",   "inf",  "nan",    "1.s",    ".5",
        "1..5s", "1m30", "1mm",    "1ss",    "1sm1",
        "3653d", "1M",   "1m30sx", "1.5.5s", "999999999999999999999999"};
    double seconds;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(times); i++) {
        assert_true(sa_units_time(times[i].text, &seconds));
        assert_true(fabs(seconds - times[i].seconds) <= 1e-9);
    }
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_false(sa_units_time(none[i], &seconds));
}

static void test_units_bytes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0},
                 {"4096", 4096},
                 {"64k", 64 << 10},
                 {"64K", 64 << 10},
                 {"3m", 3 << 20},
                 {"2G", 2ull << 30},
                 {"18446744073709551615", UINT64_MAX},
                 {"17179869183g", 17179869183ull << 30}};
    static const char *const none[] = {
        "",  "k", "-1", "1.5m", "1kb", "1 k", "0x10", "1t", "18446744073709551616", "17179869184g",
        "1@"};
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_true(sa_units_bytes(sizes[i].text, &bytes));
        assert_true(bytes == sizes[i].bytes);
    }
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_false(sa_units_bytes(none[i], &bytes));
}

static void test_units_number(void **state)
{
    static const char *const none[] = {"",   "-1", "+1",    " 1",  "1 ",  "1k",
                                       "1.", "x",  "65536", "0x1", "1e3", "18446744073709551617"};
    uint64_t number;

    (void)state;
    assert_true(sa_units_number("0", UINT16_MAX, &number) && number == 0);
    assert_true(sa_units_number("007", UINT16_MAX, &number) && number == 7);
    assert_true(sa_units_number("65535", UINT16_MAX, &number) && number == 65535);
    assert_true(sa_units_number("18446744073709551615", UINT64_MAX, &number));
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_false(sa_units_number(none[i], UINT16_MAX, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_time),
        cmocka_unit_test(test_units_bytes),
        cmocka_unit_test(test_units_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
