/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SALLOC_CONF: what is understood, that anything else is skipped and reported in a line of its own,
 * and that no string, however hostile, does more than that.
 */
#include "alloc/api/options/options.h"

#include "alloc/api/options/options_text.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sa_options options;
static char complaint[SA_OPTION_COMPLAINTS_BYTES];

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
        {"cpu_cache:0", 0},     {"cpu_cache:1", 1},         {"cpu_cache:007", 7},
        {"cpu_cache:2K", 2048}, {"cpu_cache:3m", 3u << 20}, {"cpu_cache:1G", 1ul << 30},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        assert_string_equal(parse(sizes[i].text), "");
        assert_int_equal(options.cpu_cache, sizes[i].value);
    }
}

/* Each bound, one beyond it, and what does not fit into the type. */
static void test_options_bounds(void **state)
{
    static const struct {
        const char *key;
        uint64_t min, max;
        size_t offset;
    } bounds[] = {
        {"cpu_cache", 0, 1 << 30, offsetof(struct sa_options, cpu_cache)},
        {"sample_interval", 0, INT64_MAX, offsetof(struct sa_options, sample_interval)},
        {"sample_seed", 0, SIZE_MAX, offsetof(struct sa_options, sample_seed)},
        {"guarded_slots", 0, 16384, offsetof(struct sa_options, guarded_slots)},
        {"skip_subrelease_interval", 0, 300, offsetof(struct sa_options, skip_subrelease_interval)},
        {"quarantine", 0, 1ul << 40, offsetof(struct sa_options, quarantine)},
        {"soft_limit", 0, PTRDIFF_MAX, offsetof(struct sa_options, soft_limit)},
        {"hard_limit", 0, PTRDIFF_MAX, offsetof(struct sa_options, hard_limit)},
        {"release_rate", 0, PTRDIFF_MAX, offsetof(struct sa_options, release_rate)},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bounds); i++) {
        const uint64_t *value = (const uint64_t *)((char *)&options + bounds[i].offset);
        uint64_t initial;
        char text[100], expect[200];

        parse("");
        initial = *value;
        snprintf(text, sizeof(text), "%s:%" PRIu64, bounds[i].key, bounds[i].max);
        assert_string_equal(parse(text), "");
        assert_int_equal(*value, bounds[i].max);
        if (bounds[i].max == UINT64_MAX)
            continue;
        snprintf(text, sizeof(text), "%s:%" PRIu64, bounds[i].key, bounds[i].max + 1);
        snprintf(expect, sizeof(expect), "value out of range: %s; allowed: ", text);
        assert_memory_equal(parse(text), expect, strlen(expect));
        assert_int_equal(*value, initial);
    }
    assert_non_null(strstr(parse("cpu_cache:9223372036854775808"), "from 0 to 1g\n"));
    assert_non_null(strstr(parse("guarded_slots:16385"), "a number from 0 to 16k\n"));
    assert_non_null(strstr(parse("limit_from_cgroup:9"), "percentage from 10 to 100\n"));
    assert_string_equal(parse("limit_from_cgroup:100%"), "");
}

static void test_options_signals(void **state)
{
    static const struct {
        const char *text;
        int number;
    } signals[] = {
        {"USR2", SIGUSR2}, {"SIGUSR2", SIGUSR2},
        {"12", 12},        {"SIGHUP", SIGHUP},
        {"RTMIN", 34},     {"SIGRTMIN", 34},
        {"RTMIN+0", 34},   {"SIGRTMIN+3", 37},
        {"RTMIN+30", 64},  {"RTMAX", 64},
        {"RTMAX-1", 63},   {"SIGRTMAX-30", 34},
        {"34", 34},        {"64", 64},
        {"0", 0},          {"11", 0},
        {"9", 0},          {"19", 0},
        {"31", 0},         {"32", 0},
        {"33", 0},         {"65", 0},
        {"RTMIN-1", 0},    {"RTMAX+1", 0},
        {"RTMIN+31", 0},   {"RTMAX-31", 0},
        {"RTMIN+", 0},     {"RTMIN+x", 0},
        {"RTMIN3", 0},     {"SIG", 0},
        {"SIGSIGUSR1", 0}, {"RTMIN+18446744073709551615", 0},
        {"KILL", 0},       {"USR", 0},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(signals); i++) {
        char text[100] = "profile_signal:";

        strcat(text, signals[i].text);
        assert_int_equal(!*parse(text), signals[i].number != 0);
        assert_int_equal(options.profile_signal, signals[i].number);
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

#define AGAIN "key given again: profile_type:lifetime; the last value counts\n"
#define MANY  "too many: profile:9; at most 8, with 1016 characters in all\n"

/* Types stand behind their paths, or before them if the first one does. Types by first letters. */
static void test_options_several_profiles(void **state)
{
    static const struct {
        const char *text, *paths, *types, *complaint;
    } lists[] = {
        {"profile:a,profile:b,profile:a", "a,b", "hh", ""},
        {"profile_type:peak,profile:a", "a", "p", ""},
        {"profile:a,profile:b,profile_type:peak", "a,b", "hp", ""},
        {"profile:a,profile_type:peak,profile:b", "a,b", "ph", ""},
        {"profile:a,profile_type:peak,profile:b,profile_type:lifetime", "a,b", "pl", ""},
        {"profile_type:peak,profile:a,profile:b", "a,b", "pp", ""},
        {"profile_type:peak,profile:a,profile_type:heap,profile:b", "a,b", "ph", ""},
        {"profile_type:peak,profile:a,profile_type:lifetime", "a", "l", AGAIN},
        {"profile:a,profile_type:peak,profile_type:lifetime", "a", "l", AGAIN},
        {"profile:1,profile:2,profile:3,profile:4,profile:5,profile:6,profile:7,profile:8,profile:"
         "9",
         "1,2,3,4,5,6,7,8", "hhhhhhhh", MANY},
    };
    char text[2048];

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(lists); i++) {
        assert_string_equal(parse(lists[i].text), lists[i].complaint);
        assert_string_equal(options.profile.text, lists[i].paths);
        for (size_t j = 0; lists[i].types[j]; j++)
            assert_int_equal("hfpal"[options.profile_type.of[j]], lists[i].types[j]);
    }
    /* Two paths whose characters and comma fit, and one character more. */
    for (int more = 0; more < 2; more++) {
        snprintf(text, sizeof(text), "profile:%0511d,profile:%0*d", 1, 511 + more, 2);
        assert_true((parse(text)[0] != '\0') == more);
        assert_int_equal(strlen(options.profile.text), more ? 511 : 1023);
    }
}

/* A value that another replaces is a mistake, and is told; the same again, and other keys, are
 * not. */
static void test_options_later_value_wins(void **state)
{
    (void)state;
    assert_string_equal(parse("cpu_cache:1,cpu_cache:2,deepbind:1,deepbind:0,deepbind:off"),
                        "key given again: cpu_cache:2; the last value counts\n"
                        "key given again: deepbind:0; the last value counts\n");
    assert_int_equal(options.cpu_cache, 2);
    assert_false(options.deepbind);
    assert_string_equal(parse("stats:/a,stats:/a,cpu_cache:1k,cpu_cache:1024"), "");
    assert_string_equal(parse("stats:/ab,stats:/a"),
                        "key given again: stats:/a; the last value counts\n");
    assert_string_equal(options.stats.text, "/a");
}

#define A_SIZE    "; allowed: bytes, with k, m or g, from 0 to 1g\n"
#define A_FLAG    "; allowed: on, off\n"
#define A_PATH    "; allowed: a path of up to 1023 characters, stderr, stdout or fd:N\n"
#define LISTS_ALL "; SALLOC_CONF=help lists all\n"
#define MEANT(k)  "; did you mean " k "?\n"

static void test_options_bad_items_are_skipped_and_named(void **state)
{
    static const struct {
        const char *text, *complaint;
    } bad[] = {
        {"cpu_cache", "no value: cpu_cache" A_SIZE},
        {"cpu_cache:", "value not understood: cpu_cache:" A_SIZE},
        {"cpu_cache:-1", "value not understood: cpu_cache:-1" A_SIZE},
        {"cpu_cache: 1", "value not understood: cpu_cache: 1" A_SIZE},
        {"cpu_cache:1t", "value not understood: cpu_cache:1t" A_SIZE},
        {"cpu_cache:1kb", "value not understood: cpu_cache:1kb" A_SIZE},
        {"cpu_cache:k", "value not understood: cpu_cache:k" A_SIZE},
        {"cpu_cache:0x10", "value not understood: cpu_cache:0x10" A_SIZE},
        {"cpu_cache:18446744073709551616",
         "value not understood: cpu_cache:18446744073709551616" A_SIZE},
        {"cpu_cache:17179869184g", "value not understood: cpu_cache:17179869184g" A_SIZE},
        {"cpu_cache:17179869183g", "value out of range: cpu_cache:17179869183g" A_SIZE},
        {"per_cpu:", "value not understood: per_cpu:" A_FLAG},
        {"per_cpu:ON", "value not understood: per_cpu:ON" A_FLAG},
        {"per_cpu:onn", "value not understood: per_cpu:onn" A_FLAG},
        {"stats:", "value not understood: stats:" A_PATH},
        {"report:", "value not understood: report:; allowed: a path of up to 1023 characters\n"},
        {"junk:x", "value not understood: junk:x; allowed: alloc, free, on, off\n"},
        {"hugepages:x", "value not understood: hugepages:x; allowed: auto, off, always\n"},
        {"profile_type:heaps", "value not understood: profile_type:heaps; allowed: heap, "
                               "fragmentation, peak, allocation, lifetime, events\n"},
        {"nonsense:1", "unknown key: nonsense:1" LISTS_ALL},
        {"per_cp:1", "unknown key: per_cp:1" MEANT("per_cpu")},
        {"per_cpuu:1", "unknown key: per_cpuu:1" MEANT("per_cpu")},
        {"PER_CPU:0", "unknown key: PER_CPU:0" MEANT("per_cpu")},
        {" per_cpu:0", "unknown key:  per_cpu:0" MEANT("per_cpu")},
        {"hardenning:on", "unknown key: hardenning:on" MEANT("hardening")},
        {"hardned:on", "unknown key: hardned:on" LISTS_ALL},
        {"softlimit:1g", "unknown key: softlimit:1g" MEANT("soft_limit")},
        {"per_cpu=off", "unknown key: per_cpu=off" LISTS_ALL},
        {"Help", "unknown key: Help" LISTS_ALL},
        {":", "unknown key: :" LISTS_ALL},
        {"::::", "unknown key: ::::" LISTS_ALL},
        {"a\x01\x1b[31m\xff", "unknown key: a??[31m?" LISTS_ALL},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_string_equal(parse(bad[i].text), bad[i].complaint);
        assert_defaults();
    }
}

/* The good items around bad ones count, and each bad one is named, also one that comes twice. */
static void test_options_good_items_survive_bad_ones(void **state)
{
    (void)state;
    assert_string_equal(parse("cpu_cache:4k,what:ever,deepbind:on,per_cpu:never,,what:ever"),
                        "unknown key: what:ever" LISTS_ALL
                        "value not understood: per_cpu:never" A_FLAG
                        "unknown key: what:ever" LISTS_ALL);
    assert_int_equal(options.cpu_cache, 4096);
    assert_true(options.deepbind);
    assert_true(options.per_cpu);
}

/* So many are named, and the rest is counted. */
static void test_options_complaints_are_bounded(void **state)
{
    static char text[40000];
    const char *line;
    size_t lines = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        sprintf(text + strlen(text), "profile_signal:%0200d,", 0);
    strcat(text, "cpu_cache:3");
    line = parse(text);
    assert_int_equal(options.cpu_cache, 3);
    for (const char *p = line; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, SA_OPTION_COMPLAINTS + 1);
    assert_non_null(strstr(line, " more are not right\n"));
    assert_non_null(strstr(line, "000...; allowed: RTMIN+N"));
}

static void ask_for_help(void *unused)
{
    (void)unused;
    setenv("SALLOC_CONF", "help,cpu_cache:12345", 1);
    sa_options_read(false);
    CHILD_CHECK(sa_options.cpu_cache == 12345);
    CHILD_CHECK(sa_options.per_cpu);
}

/* The value of a key by default, as help shows it. */
static void add_default(struct sa_fmt *f, const struct sa_option_info *info)
{
    if (info->kind == SA_OPTION_path)
        sa_fmt_add(f, "none");
    else
        sa_option_add_value(f, info, sa_option_load(info, &options));
}

/*
 * A line for each key, from the first letter of its help in options.def to the bracket behind its
 * default; the program goes on. The buffers here are larger than those of the function, so that a
 * line that is cut anywhere differs.
 */
static void test_options_help(void **state)
{
    static const char *const help_texts[] = {
#define SA_OPTION(key, kind, value, min, max, help) help,
#include "alloc/api/options/options.def"
#undef SA_OPTION
    };
    struct test_child child = test_child_run(ask_for_help, NULL);
    const char *at = strchr(child.text, '\n');
    char line[2048];

    (void)state;
    assert_int_equal(child.exit_code, 0);
    assert_non_null(at);
    assert_int_equal(TEST_COUNT(help_texts), SA_OPTIONS);
    sa_options_default(&options);
    for (size_t i = 0; i < SA_OPTIONS; i++) {
        const struct sa_option_info *info = &sa_option_infos[i];
        struct sa_fmt f;

        sa_fmt_init(&f, line, sizeof(line));
        sa_fmt_add(&f, "\nsalloc: %s: %s (", info->key, help_texts[i]);
        sa_option_add_allowed(&f, info);
        sa_fmt_add(&f, "; default ");
        add_default(&f, info);
        sa_fmt_add(&f, ")\n");
        assert_false(f.truncated);
        assert_int_equal(strncmp(at, line, f.len), 0);
        at += f.len - 1;
    }
    assert_string_equal(at, "\n");
    assert_non_null(strstr(child.text, "(bytes, with k, m or g, from 0 to 1g; default 6m)\n"));
    assert_non_null(strstr(child.text, "(on, off; default on)\n"));
    assert_non_null(strstr(child.text, "(auto, off, always; default auto)\n"));
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
    assert_non_null(strstr(complaint, "ppp...; allowed: a path of up to 1023 characters"));
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
            if (*c != '\n')
                assert_in_range(*c, ' ', 126);
        assert_non_null(memchr(options.stats.text, '\0', sizeof(options.stats.text)));
    }
}

static void read_environment(void *text)
{
    setenv("SALLOC_CONF", text, 1);
    sa_options_read(false);
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
    assert_string_equal(child.text,
                        "salloc: SALLOC_CONF: unknown key: bad1:x; SALLOC_CONF=help lists all\n"
                        "salloc: SALLOC_CONF: unknown key: bad2:y; SALLOC_CONF=help lists all\n");
}

static void read_no_environment(void *unused)
{
    (void)unused;
    unsetenv("SALLOC_CONF");
    setenv("SALLOC_CONFIG", "cpu_cache:1", 1);
    sa_options_read(false);
    CHILD_CHECK(sa_options.cpu_cache == 6 * 1024 * 1024);
    clearenv();
    sa_options_read(false);
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
        cmocka_unit_test(test_options_bounds),
        cmocka_unit_test(test_options_signals),
        cmocka_unit_test(test_options_several_profiles),
        cmocka_unit_test(test_options_seconds),
        cmocka_unit_test(test_options_later_value_wins),
        cmocka_unit_test(test_options_bad_items_are_skipped_and_named),
        cmocka_unit_test(test_options_good_items_survive_bad_ones),
        cmocka_unit_test(test_options_complaints_are_bounded),
        cmocka_unit_test(test_options_help),
        cmocka_unit_test(test_options_paths_up_to_the_limit),
        cmocka_unit_test(test_options_complaint_fits_any_buffer),
        cmocka_unit_test(test_options_survives_random_strings),
        cmocka_unit_test(test_options_reads_environment),
        cmocka_unit_test(test_options_defaults_without_environment),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
