/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons of simulated profiles, whose true changes are known: how often the intervals contain
 * them, how often a row without a change is called one, and how often a planted change is found.
 * Seeds are fixed. Bounds are exact: each fails with a probability of 0.001 at most if the
 * intervals are as good as they say.
 */
#include "tool/diff/diff_rows.h"

#include "alloc/base/rng.h"
#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"
#include "alloc/os/vm.h"
#include "sampling/estimate/negative_binomial.h"
#include "sampling/estimate/rates.h"
#include "test/support/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 64
#define RISK     0.001

/* Blocks of one size that one function allocates. */
struct stack {
    double bytes;                 /* of a block */
    uint64_t in_both, gone, come; /* blocks */
    unsigned function;
    bool varies; /* gone and come are means of Poisson variates */
};

/* A profile with a row for each stack. Its arrays are its own. */
struct made {
    struct sa_profile_file file;
    struct sa_file_sample samples[ROWS_MAX];
    struct sa_file_label labels[ROWS_MAX];
    struct sa_file_location locations[ROWS_MAX + 1];
    struct sa_file_function functions[ROWS_MAX + 1];
    uint32_t frames[2 * ROWS_MAX], lines[ROWS_MAX + 1];
    int64_t line_numbers[ROWS_MAX + 1], values[2 * ROWS_MAX];
    char names[ROWS_MAX + 1][8];
    struct sa_file_single *singles;
    size_t singles_cap;
    uint64_t sampled[ROWS_MAX];
};

static struct sa_file_type types[] = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}};
static struct sa_file_mapping program = {.id = 1, .file = "program"};
static uint64_t rng, next_number;
static struct made before, after;

static void add_single(struct made *m, uint32_t row, uint64_t number)
{
    m->sampled[row]++;
    if (m->file.single_count == m->singles_cap) {
        m->singles_cap = m->singles_cap ? 2 * m->singles_cap : 1024;
        m->singles = realloc(m->singles, m->singles_cap * sizeof(*m->singles));
        assert_non_null(m->singles);
    }
    m->singles[m->file.single_count++] = (struct sa_file_single){row, number, number / 3};
}

/* Samples some of n blocks, for one profile or both. varies: of a random number with the mean n.
 * The samples of a Poisson number of blocks are exponential steps apart. */
static void sample_blocks(uint32_t row, uint64_t n, double p, bool varies, struct made *first,
                          struct made *second)
{
    for (double at = 0;; at += !varies) {
        double u = ((double)(sa_rng_own(&rng) >> 11) + 1) / 9007199254740992.0;

        at += varies ? -log(u) / p : p < 1 ? floor(log(u) / log1p(-p)) : 0;
        if (at >= (double)n)
            return;
        next_number++;
        add_single(first, row, next_number);
        if (second)
            add_single(second, row, next_number);
    }
}

static void make_rows(struct made *m, const struct stack *stacks, uint32_t count, double interval)
{
    for (uint32_t i = 0; i <= ROWS_MAX; i++) {
        snprintf(m->names[i], sizeof(m->names[i]), i < ROWS_MAX ? "f%u" : "main", i);
        m->functions[i] = (struct sa_file_function){i + 1, m->names[i], m->names[i], ""};
        m->locations[i] = (struct sa_file_location){i + 1, 4096 + i, 0, i, 1};
        m->lines[i] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        double p = sa_rate_probability(interval, stacks[i].bytes), n = (double)m->sampled[i];

        m->frames[2 * i] = stacks[i].function;
        m->frames[2 * i + 1] = ROWS_MAX;
        m->labels[i] = (struct sa_file_label){"bytes", "", (int64_t)stacks[i].bytes};
        m->samples[i] = (struct sa_file_sample){2 * i, 2, 2 * i, i, 1};
        m->values[2 * i] = (int64_t)(n / p + 0.5);
        m->values[2 * i + 1] = (int64_t)(n * stacks[i].bytes / p + 0.5);
    }
    m->file.types = types;
    m->file.mappings = &program;
    m->file.functions = m->functions;
    m->file.locations = m->locations;
    m->file.samples = m->samples;
    m->file.labels = m->labels;
    m->file.frames = m->frames;
    m->file.lines = m->lines;
    m->file.line_numbers = m->line_numbers;
    m->file.values = m->values;
    m->file.singles = m->singles;
    m->file.period = (int64_t)interval;
    m->file.type_count = 2;
    m->file.mapping_count = 1;
    m->file.function_count = m->file.location_count = m->file.line_count = ROWS_MAX + 1;
    m->file.sample_count = m->file.label_count = count;
    m->file.frame_count = m->file.value_count = 2 * count;
}

/* Makes both profiles, and compares them. known: the profiles list their samples. */
static void compare(const struct stack *stacks, uint32_t count, double interval, uint32_t metric,
                    bool known, unsigned by, struct sa_diff *ret)
{
    for (int i = 0; i < 2; i++) {
        struct made *m = i ? &after : &before;

        memset(m->sampled, 0, sizeof(m->sampled));
        m->file.single_count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        double p = sa_rate_probability(interval, stacks[i].bytes);

        sample_blocks(i, stacks[i].in_both, p, false, &before, &after);
        sample_blocks(i, stacks[i].gone, p, stacks[i].varies, &before, NULL);
        sample_blocks(i, stacks[i].come, p, stacks[i].varies, &after, NULL);
    }
    make_rows(&before, stacks, count, interval);
    make_rows(&after, stacks, count, interval);
    if (!known)
        before.file.single_count = after.file.single_count = 0;
    assert_true(sa_diff_open(ret, &before.file, &after.file, metric, metric, by));
}

/* P(at most k of n), each with probability p. */
static double at_most(unsigned k, unsigned n, double p)
{
    double sum = 0;

    for (unsigned i = 0; i <= k; i++)
        sum += sa_binomial_point(i, n, p);
    return sum;
}

/* Whether a number of intervals that contain the truth is that of 95 %, or more. */
static void expect_coverage(const char *what, unsigned right, unsigned runs)
{
    if (at_most(right, runs, 1 - SA_DIFF_ERROR) < RISK)
        fail_msg("%s: %u of %u right", what, right, runs);
}

static double true_change(const struct stack *stacks, uint32_t count, uint32_t metric)
{
    double change = 0;

    for (uint32_t i = 0; i < count; i++)
        change +=
            ((double)stacks[i].come - (double)stacks[i].gone) * (metric ? stacks[i].bytes : 1);
    return change;
}

/* --- intervals --- */

static bool is_in(double change, const struct sa_diff_row *row)
{
    double low, high;

    sa_change_interval(&row->change, SA_DIFF_ERROR, &low, &high);
    return low <= change && change <= high;
}

static double width(const struct sa_diff_row *row)
{
    double low, high;

    sa_change_interval(&row->change, SA_DIFF_ERROR, &low, &high);
    return high - low;
}

static const struct {
    const char *what;
    double interval;
    struct stack stacks[4];
} cases[] = {
    {"nothing changes", 65536, {{64, 10000, 0, 0, 0}}},
    {"few samples go and come", 65536, {{64, 10000, 2000, 1000, 0}}},
    {"only new ones", 65536, {{64, 10000, 0, 5000, 0}}},
    {"many small ones", 65536, {{64, 10000, 60000, 80000, 0}}},
    {"equal parts", 65536, {{4096, 100, 400, 400, 0}}},
    {"half of an interval", 65536, {{32768, 50, 10, 25, 0}}},
    {"one interval", 65536, {{65536, 50, 10, 7, 0}}},
    {"two intervals", 65536, {{131072, 50, 10, 7, 0}}},
    {"nearly certain", 65536, {{262144, 50, 21, 17, 0}}},
    {"certain", 65536, {{1048576, 50, 3, 5, 0}}},
    {"certain beside small", 65536, {{1048576, 50, 3, 5, 0}, {64, 10000, 9000, 9000, 0}}},
    {"sizes",
     65536,
     {{16, 90000, 30000, 90000, 0},
      {512, 900, 900, 900, 0},
      {16384, 9, 90, 60, 0},
      {131072, 9, 3, 7, 0}}},
    {"one kind for another", 65536, {{256, 0, 40000, 0, 0}, {16384, 0, 0, 625, 0}}},
};

static void test_intervals_contain_the_change(void **state)
{
    enum { RUNS = 500 };

    (void)state;
    rng = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (uint32_t metric = 0; metric < 2; metric++)
            for (int known = 0; known < 2; known++) {
                const struct stack *stacks = cases[i].stacks;
                unsigned total = 0, row = 0, rows = 0;
                uint32_t count = 0;
                char what[128];

                while (count < 4 && stacks[count].bytes > 0)
                    count++;
                for (int run = 0; run < RUNS; run++) {
                    double change = true_change(stacks, count, metric);
                    const struct sa_diff_row *r;
                    struct sa_diff d;

                    compare(stacks, count, cases[i].interval, metric, known,
                            1u << SA_REPORT_FUNCTION_FLAT, &d);
                    assert_true(d.total.known);
                    total += is_in(change, &d.total);
                    r = d.tables[0].rows;
                    rows += d.tables[0].count;
                    row += d.tables[0].count && is_in(change, r);
                    sa_diff_close(&d);
                }
                snprintf(what, sizeof(what), "%s, %s, %s", cases[i].what,
                         metric ? "bytes" : "blocks", known ? "known" : "not known");
                expect_coverage(what, total, RUNS);
                expect_coverage(what, row, rows);
            }
}

/* Samples in both profiles are not a part of the error: as of 100 known ones among 10,000. */
static void test_common_samples_cancel(void **state)
{
    const struct stack stacks[] = {{64, 10240000, 51200, 51200, 0}};
    double known, unknown;
    struct sa_diff d;

    (void)state;
    rng = 2;
    compare(stacks, 1, 65536, 1, true, 1u << SA_REPORT_FUNCTION_FLAT, &d);
    assert_true(d.common.known);
    assert_in_range(d.common.samples, 9600, 10400);
    known = width(&d.total);
    sa_diff_close(&d);
    /* 2 * 1.96 * sqrt(100) intervals, where the number of samples may differ by 3 deviations */
    assert_in_range((uint64_t)known / 65536, 2 * 1.96 * 8.4, 2 * 1.96 * 11.6 + 2);
    compare(stacks, 1, 65536, 1, false, 1u << SA_REPORT_FUNCTION_FLAT, &d);
    unknown = width(&d.total);
    assert_false(d.common.known);
    sa_diff_close(&d);
    assert_in_range((uint64_t)unknown / 65536, 2 * 1.96 * 137, 2 * 1.96 * 146 + 2);
}

/* --- rows without and with a change --- */

/*
 * 60 rows of 30 functions, from 0.3 to 300 samples each. Of the blocks of a row a half is replaced
 * on average. exactly: by as many; else the number of blocks varies, as if each block came and went
 * by itself. Large blocks are replaced exactly, because their change is known without error.
 */
static void make_churn(struct stack *stacks, bool exactly)
{
    static const double sizes[] = {16, 48, 100, 256, 1000, 4096, 20000, 70000, 200000, 1000000};

    for (unsigned i = 0; i < 60; i++) {
        double size = sizes[i % 10], blocks = 0.3 * pow(1000, (i % 7) / 6.0) * 65536 / size;
        uint64_t half = blocks < 1 ? 1 : (uint64_t)blocks;

        stacks[i] = (struct stack){.bytes = size,
                                   .in_both = half,
                                   .gone = half,
                                   .come = half,
                                   .function = i / 2,
                                   .varies = !exactly && size < 65536};
    }
}

/* In how many of `runs` comparisons without a change a row is called one. */
static unsigned false_alarms(bool exactly, bool known, uint32_t metric, unsigned runs)
{
    struct stack stacks[60];
    unsigned alarms = 0;

    make_churn(stacks, exactly);
    for (unsigned run = 0; run < runs; run++) {
        struct sa_diff d;
        size_t found = 0;

        compare(stacks, 60, 65536, metric, known, 0, &d);
        for (size_t i = 0; i < d.table_count; i++)
            found += d.tables[i].significant;
        alarms += found > 0;
        sa_diff_close(&d);
    }
    return alarms;
}

static void test_steady_churn_is_no_change(void **state)
{
    enum { RUNS = 200 };

    (void)state;
    rng = 3;
    for (int k = 0; k < 8; k++) {
        unsigned alarms = false_alarms(k & 1, k & 2, k >> 2, RUNS);

        if (alarms && 1 - at_most(alarms - 1, RUNS, SA_DIFF_ERROR) < RISK)
            fail_msg("%u of %u, case %d", alarms, RUNS, k);
    }
}

/* Whether the row of a function is called a change, and which way. */
static int called(const struct sa_diff *d, const char *name)
{
    const struct sa_diff_table *t = &d->tables[0];

    for (size_t i = 0; i < t->significant; i++)
        if (strcmp(sa_report_key(&t->after, t->rows[i].after), name) == 0)
            return sa_diff_value(&t->rows[i]) > 0 ? 1 : -1;
    return 0;
}

/*
 * A function whose bytes grow by X is found in 90 % of tries where the interval is the one that
 * doc/sampling.md recommends: X * X / (30 * C), where C bytes of it come and go. Once it grows by
 * 5 % while all of it is replaced, and once nothing goes.
 */
static void test_planted_growth_is_found(void **state)
{
    enum { RUNS = 100, FUNCTION = 40 };
    const double interval = 65536;
    struct stack stacks[61];

    (void)state;
    rng = 4;
    for (int k = 0; k < 2; k++) {
        double size = 512, grown = k ? 30 * interval : interval * 30 * 2.05 / 0.05;
        unsigned found = 0;

        make_churn(stacks, false);
        stacks[60] = (struct stack){.bytes = size, .function = FUNCTION};
        stacks[60].gone = k ? 0 : (uint64_t)(grown / 0.05 / size);
        stacks[60].come = stacks[60].gone + (uint64_t)(grown / size);
        for (unsigned run = 0; run < RUNS; run++) {
            struct sa_diff d;

            compare(stacks, 61, interval, 1, true, 0, &d);
            found += called(&d, "f40") > 0;
            sa_diff_close(&d);
        }
        if (at_most(found, RUNS, 0.9) < RISK)
            fail_msg("found in %u of %u, case %d", found, RUNS, k);
        print_message("# %u\n", found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_contain_the_change),
        cmocka_unit_test(test_common_samples_cancel),
        cmocka_unit_test(test_steady_churn_is_no_change),
        cmocka_unit_test(test_planted_growth_is_found),
    };

    sa_vm_init();
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
