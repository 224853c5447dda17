/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SALLOC_CONF: what is understood, that anything else is skipped and reported in one line, and that
 * no string, however hostile, does more than that.
 */
#include "alloc/api/options.h"

#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <stdlib.h>
#include <string.h>

static struct sa_options options;
static char complaint[200];

/* Parses into fresh options; the complaint. */
static const char *parse(const char *text)
{
    sa_options_default(&options);
    memset(complaint, 'x', sizeof(complaint));
    sa_options_parse(&options, text, complaint, sizeof(complaint));
    return complaint;
}

static void assert_defaults(void)
{
    assert_string_equal(options.stats.text, "");
    assert_true(options.per_cpu);
    assert_int_equal(options.cpu_cache, 6 * 1024 * 1024);
    assert_false(options.llc_domains);
    assert_false(options.deepbind);
}

static void test_options_defaults_when_string_is_empty(void **state)
{
    (void)state;
    assert_string_equal(parse(""), "");
    assert_defaults();
    assert_string_equal(parse(",,,"), "");
    assert_defaults();
}

static void test_options_takes_every_kind(void **state)
{
    (void)state;
    assert_string_equal(
        parse("stats:/tmp/a:b.%p.txt,per_cpu:off,cpu_cache:64k,llc_domains:on,deepbind:true"), "");
    assert_string_equal(options.stats.text, "/tmp/a:b.%p.txt");
    assert_false(options.per_cpu);
    assert_int_equal(options.cpu_cache, 65536);
    assert_true(options.llc_domains);
    assert_true(options.deepbind);
}

static void test_options_sizes(void **state)
{
    static const struct {
        const char *text;
        size_t value;
    } sizes[] = {
        {"cpu_cache:0", 0},
        {"cpu_cache:1", 1},
        {"cpu_cache:007", 7},
        {"cpu_cache:2K", 2048},
        {"cpu_cache:3m", 3u << 20},
        {"cpu_cache:4G", 4ul << 30},
        {"cpu_cache:18446744073709551615", SIZE_MAX},
        {"cpu_cache:17179869183g", 17179869183ul << 30},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_string_equal(parse(sizes[i].text), "");
        assert_int_equal(options.cpu_cache, sizes[i].value);
    }
}

static void test_options_seconds(void **state)
{
    static const char *const wrong[] = {"", "s", "1m", "2k", "60 ", "-1", "1.5", "60ss", "s60"};
    char text[100];

    (void)state;
    assert_string_equal(parse("skip_subrelease_interval:60s,skip_subrelease_long_interval:300"),
                        "");
    assert_int_equal(options.skip_subrelease_interval, 60);
    assert_int_equal(options.skip_subrelease_short_interval, 0);
    assert_int_equal(options.skip_subrelease_long_interval, 300);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        strcpy(text, "skip_subrelease_interval:");
        strcat(text, wrong[i]);
        assert_true(strlen(parse(text)) > 0);
        assert_int_equal(options.skip_subrelease_interval, 0);
    }
}

static void test_options_later_value_wins(void **state)
{
    (void)state;
    assert_string_equal(parse("cpu_cache:1,cpu_cache:2,deepbind:1,deepbind:0"), "");
    assert_int_equal(options.cpu_cache, 2);
    assert_false(options.deepbind);
}

static void test_options_bad_items_are_skipped_and_named(void **state)
{
    static const struct {
        const char *text, *complaint;
    } bad[] = {
        {"cpu_cache", "no value: cpu_cache"},
        {"cpu_cache:", "value not understood: cpu_cache:"},
        {"cpu_cache:-1", "value not understood: cpu_cache:-1"},
        {"cpu_cache: 1", "value not understood: cpu_cache: 1"},
        {"cpu_cache:1t", "value not understood: cpu_cache:1t"},
        {"cpu_cache:1kb", "value not understood: cpu_cache:1kb"},
        {"cpu_cache:k", "value not understood: cpu_cache:k"},
        {"cpu_cache:0x10", "value not understood: cpu_cache:0x10"},
        {"cpu_cache:18446744073709551616", "value not understood: cpu_cache:18446744073709551616"},
        {"cpu_cache:17179869184g", "value not understood: cpu_cache:17179869184g"},
        {"per_cpu:", "value not understood: per_cpu:"},
        {"per_cpu:ON", "value not understood: per_cpu:ON"},
        {"per_cpu:onn", "value not understood: per_cpu:onn"},
        {"stats:", "value not understood: stats:"},
        {"nonsense:1", "unknown key: nonsense:1"},
        {"per_cp:1", "unknown key: per_cp:1"},
        {"per_cpuu:1", "unknown key: per_cpuu:1"},
        {"PER_CPU:0", "unknown key: PER_CPU:0"},
        {" per_cpu:0", "unknown key:  per_cpu:0"},
        {":", "unknown key: :"},
        {"::::", "unknown key: ::::"},
        {"a\x01\x1b[31m\xff", "no value: a??[31m?"},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_string_equal(parse(bad[i].text), bad[i].complaint);
        assert_defaults();
    }
}

/* The good items around a bad one count, and of several bad ones the first is named. */
static void test_options_good_items_survive_bad_ones(void **state)
{
    (void)state;
    assert_string_equal(parse("cpu_cache:4k,what:ever,deepbind:on,per_cpu:never,,"),
                        "unknown key: what:ever");
    assert_int_equal(options.cpu_cache, 4096);
    assert_true(options.deepbind);
    assert_true(options.per_cpu);
}

static void test_options_paths_up_to_the_limit(void **state)
{
    char text[SA_OPTION_PATH_MAX + 64] = "stats:";
    char *path = text + strlen(text);

    (void)state;
    memset(path, 'p', SA_OPTION_PATH_MAX - 1);
    path[SA_OPTION_PATH_MAX - 1] = '\0';
    assert_string_equal(parse(text), "");
    assert_string_equal(options.stats.text, path);
    strcat(path, "p");
    assert_memory_equal(parse(text), "value not understood: stats:ppp", 31);
    assert_defaults();
}

static void test_options_complaint_fits_any_buffer(void **state)
{
    char buf[40];

    (void)state;
    for (size_t cap = 0; cap <= sizeof(buf); cap++) {
        memset(buf, 'x', sizeof(buf));
        sa_options_default(&options);
        sa_options_parse(&options, "very_unknown_key:value,another:one", buf, cap);
        if (cap)
            assert_in_range(strlen(buf), 0, cap - 1);
        for (size_t i = cap; i < sizeof(buf); i++)
            assert_int_equal(buf[i], 'x');
    }
}

/* Strings made of the parser's own vocabulary, or of any bytes: kept in bounds, complaint clean. */
static void test_options_survives_random_strings(void **state)
{
    static const char *const words[] = {"stats",  ":",   ",",    "per_cpu", "cpu_cache", "on",
                                        "off",    "1",   "9999", "k",       "g",         "18446744",
                                        "/tmp/x", "::,", "%p",   "deepbind"};
    struct test_random r = {0x0b71};

    (void)state;
    for (int round = 0; round < 50000; round++) {
        char text[300] = "";

        if (round % 2) {
            for (size_t n = test_random_below(&r, 14); n > 0; n--)
                strcat(text, words[test_random_below(&r, TEST_COUNT(words))]);
        } else {
            for (size_t n = test_random_below(&r, sizeof(text)), i = 0; i < n; i++)
                text[i] = (char)(1 + test_random_below(&r, 255));
        }
        parse(text);
        assert_non_null(memchr(complaint, '\0', sizeof(complaint)));
        for (const char *c = complaint; *c; c++)
            assert_in_range(*c, ' ', 126);
        assert_non_null(memchr(options.stats.text, '\0', sizeof(options.stats.text)));
    }
}

static void read_environment(void *text)
{
    setenv("SALLOC_CONF", text, 1);
    sa_options_read();
    CHILD_CHECK(sa_options.cpu_cache == 12345);
    CHILD_CHECK(sa_options.per_cpu);
}

static void test_options_reads_environment(void **state)
{
    struct test_child child;

    (void)state;
    child = test_child_run(read_environment, "cpu_cache:12345");
    assert_int_equal(child.exit_code, 0);
    assert_string_equal(child.text, "");
    child = test_child_run(read_environment, "bad1:x,cpu_cache:12345,bad2:y");
    assert_int_equal(child.exit_code, 0);
    assert_string_equal(child.text, "salloc: SALLOC_CONF: unknown key: bad1:x\n");
}

static void read_no_environment(void *unused)
{
    (void)unused;
    unsetenv("SALLOC_CONF");
    setenv("SALLOC_CONFIG", "cpu_cache:1", 1);
    sa_options_read();
    CHILD_CHECK(sa_options.cpu_cache == 6 * 1024 * 1024);
    clearenv();
    sa_options_read();
    CHILD_CHECK(sa_options.cpu_cache == 6 * 1024 * 1024);
}

static void test_options_defaults_without_environment(void **state)
{
    (void)state;
    test_child_passes(read_no_environment, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_defaults_when_string_is_empty),
        cmocka_unit_test(test_options_takes_every_kind),
        cmocka_unit_test(test_options_sizes),
        cmocka_unit_test(test_options_seconds),
        cmocka_unit_test(test_options_later_value_wins),
        cmocka_unit_test(test_options_bad_items_are_skipped_and_named),
        cmocka_unit_test(test_options_good_items_survive_bad_ones),
        cmocka_unit_test(test_options_paths_up_to_the_limit),
        cmocka_unit_test(test_options_complaint_fits_any_buffer),
        cmocka_unit_test(test_options_survives_random_strings),
        cmocka_unit_test(test_options_reads_environment),
        cmocka_unit_test(test_options_defaults_without_environment),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
