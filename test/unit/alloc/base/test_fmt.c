/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounded formatter: same text as libc's printf where both understand a conversion, the
 * documented text where only it does, and never a byte outside the buffer.
 */
#include "alloc/base/fmt.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CANARY 0x5a

static char text[512];

static const char *format(const char *f, ...)
{
    struct sa_fmt out;
    va_list ap;

    sa_fmt_init(&out, text, sizeof(text));
    va_start(ap, f);
    sa_fmt_addv(&out, f, ap);
    va_end(ap);
    assert_false(out.truncated);
    assert_int_equal(out.len, strlen(text));
    return text;
}

/* The same arguments to both formatters. */
#define SAME_AS_LIBC(...)                                                                          \
    do {                                                                                           \
        char libc[512];                                                                            \
                                                                                                   \
        snprintf(libc, sizeof(libc), __VA_ARGS__);                                                 \
        assert_string_equal(format(__VA_ARGS__), libc);                                            \
    } while (0)

static void test_fmt_integers_match_libc(void **state)
{
    static const int ints[] = {0, 1, -1, 9, 10, -10, 99999, INT_MAX, INT_MIN};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ints); i++) {
        int v = ints[i];

        SAME_AS_LIBC("%d|%5d|%-5d|%05d|%12d|%-12d|%012d", v, v, v, v, v, v, v);
        SAME_AS_LIBC("%u|%x|%8x|%-8x|%08x", (unsigned)v, (unsigned)v, (unsigned)v, (unsigned)v,
                     (unsigned)v);
    }
    SAME_AS_LIBC("%zu %zx %ld", SIZE_MAX, SIZE_MAX, LONG_MIN);
    SAME_AS_LIBC("%llu %20llu %-21llu|", ULLONG_MAX, 1ull, ULLONG_MAX);
    SAME_AS_LIBC("%*d|%-*u|", 7, 42, 9, 43u);
}

static void test_fmt_random_integers_match_libc(void **state)
{
    struct test_random r = {0xf0001};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t v = test_random_next(&r) >> test_random_below(&r, 64);
        int width = (int)test_random_below(&r, 30);

        SAME_AS_LIBC("%*zu|%-*zx|%*d", width, (size_t)v, width, (size_t)v, width, (int)v);
    }
}

static void test_fmt_strings_match_libc(void **state)
{
    (void)state;
    SAME_AS_LIBC("%s|%10s|%-10s|%2s|%c%c|100%%", "word", "word", "word", "word", 'a', '\n');
    SAME_AS_LIBC("%s", "");
    SAME_AS_LIBC("%p %20p", (void *)0x1234, (void *)UINTPTR_MAX);
    assert_string_equal(format("%p", NULL), "0x0");
}

static void test_fmt_mebibytes_have_one_decimal(void **state)
{
    (void)state;
    assert_string_equal(format("%m", (size_t)0), "0.0");
    assert_string_equal(format("%m", (size_t)1048576), "1.0");
    assert_string_equal(format("%m", (size_t)1572864), "1.5");
    assert_string_equal(format("%7m|%-7m|", (size_t)10 << 20, (size_t)10 << 20),
                        "   10.0|10.0   |");
    assert_string_equal(format("%m", SIZE_MAX), "17592186044416.0");
    /* A tenth of a MiB is rounded up from its half: 52429 bytes is the first that shows as 0.1. */
    assert_string_equal(format("%m %m", (size_t)52428, (size_t)52429), "0.0 0.1");
}

/*
 * Numbers k / 8 with three decimals are exact in both formatters, so that they must agree. Fewer
 * decimals are exact for whole numbers.
 */
static void test_fmt_doubles_match_libc_when_exact(void **state)
{
    struct test_random r = {0xf0002};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        double v = (double)(test_random_next(&r) >> (20 + test_random_below(&r, 40))) / 8;
        char libc[128];

        if (test_random_below(&r, 2))
            v = -v;
        if (v == 0) /* libc shows the sign of -0.0 */
            v = 0;
        snprintf(libc, sizeof(libc), "%.3f|%20.3f|%-20.3f|%.9f", v, v, v, fmod(v, 1e6));
        assert_string_equal(format("%.3F|%20.3F|%-20.3F|%.9F", v, v, v, fmod(v, 1e6)), libc);
    }
    assert_string_equal(format("%F %.0F %.4F", 0.25, 2.0, 0.00005), "0.3 2 0.0001");
}

/* fmt.h promises |x| < 1e15 for any precision. */
static void test_fmt_doubles_up_to_1e15_with_any_precision(void **state)
{
    (void)state;
    assert_string_equal(format("%.0F", 999999999999999.0), "999999999999999");
    assert_string_equal(format("%F", 999999999999999.0), "999999999999999.0");
    assert_string_equal(format("%.4F", 500000000000000.0), "500000000000000.0000");
    assert_string_equal(format("%.4F", -999999999999999.0), "-999999999999999.0000");
    assert_string_equal(format("%.9F", 2000000000.0), "2000000000.000000000");
}

static void test_fmt_doubles_out_of_range_say_so(void **state)
{
    (void)state;
    assert_string_equal(format("%F %F", 1e300, -1e300), "inf -inf");
    assert_string_equal(format("%.9F", 1e300), "inf");
    assert_string_equal(format("%6F|%-6F|", 0.0 / 0.0, 0.0 / 0.0), "   nan|nan   |");
}

static void test_fmt_unknown_conversions_show_up(void **state)
{
    const char *volatile unknown = "%q %"; /* volatile: compilers check literals */

    (void)state;
    assert_string_equal(format(unknown), "%q %");
}

/* Every capacity from 0: a prefix of the text, terminated, and nothing behind the buffer. */
static void test_fmt_truncates_when_buffer_is_short(void **state)
{
    static const char whole[] = "one 00042 two -17   0xff 1.5 three";
    char buf[64];

    (void)state;
    for (size_t cap = 0; cap <= sizeof(whole) + 3; cap++) {
        struct sa_fmt f;
        size_t fits = cap > sizeof(whole) ? sizeof(whole) - 1 : cap ? cap - 1 : 0;

        memset(buf, CANARY, sizeof(buf));
        sa_fmt_init(&f, buf, cap);
        sa_fmt_add(&f, "one %05d %s %-5d %p %m %s", 42, "two", -17, (void *)0xff, (size_t)3 << 19,
                   "three");
        assert_int_equal(f.truncated, cap < sizeof(whole));
        assert_int_equal(f.len, fits);
        assert_memory_equal(buf, whole, fits);
        if (cap)
            assert_int_equal(buf[fits], '\0');
        for (size_t i = cap; i < sizeof(buf); i++)
            assert_int_equal(buf[i], CANARY);
    }
}

static void test_fmt_appends_until_full(void **state)
{
    struct sa_fmt f;
    char buf[11];

    (void)state;
    sa_fmt_init(&f, buf, sizeof(buf));
    sa_fmt_add(&f, "%s", "12345");
    sa_fmt_add(&f, "%d", 67890);
    assert_false(f.truncated);
    assert_string_equal(buf, "1234567890");
    sa_fmt_add(&f, "x");
    assert_true(f.truncated);
    assert_string_equal(buf, "1234567890");
    assert_int_equal(f.len, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fmt_integers_match_libc),
        cmocka_unit_test(test_fmt_random_integers_match_libc),
        cmocka_unit_test(test_fmt_strings_match_libc),
        cmocka_unit_test(test_fmt_mebibytes_have_one_decimal),
        cmocka_unit_test(test_fmt_doubles_match_libc_when_exact),
        cmocka_unit_test(test_fmt_doubles_up_to_1e15_with_any_precision),
        cmocka_unit_test(test_fmt_doubles_out_of_range_say_so),
        cmocka_unit_test(test_fmt_unknown_conversions_show_up),
        cmocka_unit_test(test_fmt_truncates_when_buffer_is_short),
        cmocka_unit_test(test_fmt_appends_until_full),
    };

    return cmocka_run_group_tests_name("fmt", tests, NULL, NULL);
}
