/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text formats, of profiles whose numbers are known: lines and totals, and that what readers of
 * jemalloc's format compute from the inverted numbers are ours again.
 */
#include "sampling/export/write.h"

#include "alloc/os/vm.h"
#include "sampling/export/values.h"
#include "sampling/symbolize/frames.h"
#include "test/support/collect.h"
#include "test/support/made_profile.h"
#include "test/support/random.h"

#include <math.h>
#include <stdio.h>

/* The two small rows of made_leaf and the one of 64 bytes: 3/p + 1/p' + 7/p', each rounded. */
#define LEAF_COUNT 548868
#define LEAF_BYTES 5767292

static const char *line_with(const struct collected *c, const char *text)
{
    const char *at = strstr(c->data, text);

    assert_non_null(at);
    while (at > c->data && at[-1] != '\n')
        at--;
    return at;
}

/* The blocks of the stack MADE_LEAF in all three of its rows, each rounded up or down. */
static int leaf_count(const struct sa_profile *profile)
{
    struct sa_values values;
    int count = 0;

    for (size_t i = 0; i < profile->bucket_count; i++)
        if (profile->buckets[i].key.stack == made_stack(MADE_LEAF)) {
            sa_values_of_bucket(&profile->buckets[i], &values);
            count += (int)values.count;
        }
    assert_in_range(count, LEAF_COUNT - 3, LEAF_COUNT + 3);
    return count;
}

static void check_sums(void)
{
    double small = -expm1(8 * log1p(-1 / 524288.0)), large = -expm1(64 * log1p(-1 / 524288.0));

    assert_int_equal(LEAF_COUNT,
                     (long)(3 / large + .5) + (long)(1 / small + .5) + (long)(7 / small + .5));
    assert_int_equal(LEAF_BYTES,
                     (long)(192 / large + .5) + (long)(8 / small + .5) + (long)(56 / small + .5));
}

/* The header has the sums of the lines, the summary is in comments, addresses are the stack's, and
 * the maps follow. */
static void test_gperftools_lines(void **state)
{
    const struct sa_profile *profile = made_profile(SALLOC_PROFILE_HEAP);
    struct collected c = collect(sa_write_gperftools, profile);
    struct sa_values ever;
    unsigned long sums[4] = {0, 0, 0, 0}, head[4], n[4];
    char expect[200];
    const char *at;
    int lines = 0;

    (void)state;
    check_sums();
    assert_int_equal(sscanf(c.data, "heap profile: %lu: %lu [%lu: %lu] @ heapprofile\n", &head[0],
                            &head[1], &head[2], &head[3]),
                     4);
    at = strchr(c.data, '\n') + 1;
    assert_non_null(strstr(at, "\n# 55883966 bytes (95 % interval "));
    while (*at == '#')
        at = strchr(at, '\n') + 1;
    for (; *at != '\n'; at = strchr(at, '\n') + 1, lines++) {
        assert_int_equal(sscanf(at, "%lu: %lu [%lu: %lu] @ 0x", &n[0], &n[1], &n[2], &n[3]), 4);
        for (int i = 0; i < 4; i++)
            sums[i] += n[i];
    }
    assert_int_equal(lines, MADE_STACKS);
    assert_memory_equal(sums, head, sizeof(sums));
    sa_values_of_total(&profile->totals[0], &ever);
    assert_in_range(ever.count, 327699, 327700);
    snprintf(expect, sizeof(expect), "\n%6d: %8d [%zu: 20972780] @ 0x%lx 0x%lx 0x%lx\n",
             leaf_count(profile), LEAF_BYTES, (size_t)ever.count, made_stack(MADE_LEAF)->pc[0],
             made_stack(MADE_LEAF)->pc[1], made_stack(MADE_LEAF)->pc[2]);
    assert_non_null(strstr(c.data, expect));
    assert_memory_equal(at, "\nMAPPED_LIBRARIES:\n", 19);
    assert_non_null(strstr(at, "r-xp"));
    assert_non_null(strstr(at, "libc"));
    free(c.data);
}

/* Root first, names, bytes. What has no name has its place, and a stack that was lost has a line,
 * too. */
static void test_collapsed_lines(void **state)
{
    struct collected c = collect(sa_write_collapsed, made_profile(SALLOC_PROFILE_PEAK_HEAP));
    char expect[200];

    (void)state;
    snprintf(expect, sizeof(expect), "made_root;made_middle;made_leaf %d\n", LEAF_BYTES);
    assert_non_null(strstr(c.data, expect));
    assert_non_null(strstr(c.data, "made_root;lfind 41943040\n"));
    assert_non_null(strstr(c.data, "made_root;0x17 829411\n"));
    assert_non_null(strstr(c.data, SA_FRAMES_NO_STACK " 524296\n"));
    free(c.data);
}

/* Stacks by bytes, each with its interval around the estimate; the summary above. */
static void test_report_table(void **state)
{
    struct collected c = collect(sa_write_report, made_profile(SALLOC_PROFILE_HEAP));
    double share, low, high;
    unsigned long bytes, count, samples;

    (void)state;
    assert_non_null(strstr(c.data, "\nheap profile: "));
    assert_non_null(strstr(c.data, "\ntime 2024-02-29 12:34:56 UTC\n"));
    assert_non_null(strstr(c.data, "\n55883966 bytes (95 % interval "));
    assert_non_null(strstr(c.data, "from 31 samples\n"));
    assert_non_null(strstr(c.data, "\nsampling interval 524288 bytes\n"));
    assert_non_null(strstr(c.data, "not kept: 2 samples, the stacks of 1\n"));
    assert_true(strstr(c.data, " lfind\n") < strstr(c.data, " made_leaf\n"));
    assert_int_equal(sscanf(line_with(&c, "5767292"), "%lu %lf%% %lf %lf %lu %lu", &bytes, &share,
                            &low, &high, &count, &samples),
                     6);
    assert_int_equal(bytes, LEAF_BYTES);
    assert_int_equal(count, leaf_count(made_profile(SALLOC_PROFILE_HEAP)));
    assert_int_equal(samples, 11);
    assert_true(low < LEAF_BYTES && LEAF_BYTES < high);
    assert_true(fabs(share - 100.0 * LEAF_BYTES / 55883966) < 0.006);
    /* Of what is certain nothing less is there; what may be beside it is what no sample tells
     * of. */
    assert_int_equal(
        sscanf(line_with(&c, "41943040"), "%lu %lf%% %lf %lf", &bytes, &share, &low, &high), 4);
    assert_true(low == 41943040 && fabs(high - 41943040 - sa_estimate_unseen(524288, 0.95)) < 1);
    free(c.data);
}

/* What stands behind the first six columns of a stack's row, with single spaces. */
static void assert_lives(const struct collected *c, const char *bytes, const char *expect)
{
    const char *at = line_with(c, bytes);
    char word[20], got[200] = "";
    int length = 0;

    for (int i = 0; *at != '\n'; i++, at += length) {
        assert_int_equal(sscanf(at, " %19s%n", word, &length), 1);
        if (i >= 6)
            snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", word);
        at += strspn(at + length, " ");
    }
    assert_memory_equal(got, expect, strlen(expect));
    assert_int_equal(strlen(got), strlen(expect) + 1);
}

/* A profile of lifetimes says how long blocks lived that were freed, and how old those are that
 * were not. */
static void test_report_of_lifetimes(void **state)
{
    struct sa_profile profile = *made_profile(SALLOC_PROFILE_LIFETIMES);
    struct collected c = collect(sa_write_report, &profile);
    struct sa_bucket lived[2];

    (void)state;
    assert_non_null(strstr(
        c.data, "samples   still live  mean life   min life   max life   mean age    max age\n"));
    assert_lives(&c, "5767292", "0 1.00 ms 800.00 us 1.20 ms - -");
    assert_lives(&c, "6819927", "257 1.00 ms 800.00 us 1.20 ms 1.00 ms 1.20 ms");
    assert_lives(&c, "41943040", "0 1.00 ms 800.00 us 1.20 ms - -");
    assert_non_null(strstr(
        c.data, "\nmean life, of blocks still live until the stop: 1.00 ms (95 % interval "));
    free(c.data);

    /* The mean is of blocks: a row whose samples stand for more of them counts for more. */
    lived[0] = lived[1] = profile.buckets[4]; /* with p = 1 */
    lived[0].samples = 1;
    lived[0].life_sum = lived[0].life_min = lived[0].life_max = 7;
    lived[1].samples = 2;
    lived[1].key.p = 0.5;
    lived[1].life_min = 3600ull * 1000000000;
    lived[1].life_max = 36 * 3600ull * 1000000000;
    lived[1].life_sum = (double)(lived[1].life_min + lived[1].life_max);
    profile.buckets = lived;
    profile.bucket_count = 2;
    c = collect(sa_write_report, &profile);
    assert_lives(&c, " 41943040 100.00%", "0 14.80 h 7.00 ns 1.50 d - -");
    /* Of 3 samples nothing is known but their mean. */
    assert_non_null(strstr(c.data, "\nmean life, of blocks still live until the stop: 14.80 h\n"));
    free(c.data);
    lived[0].key.censored = 1;
    c = collect(sa_write_report, &profile);
    assert_lives(&c, " 41943040 100.00%", "1 18.50 h 1.00 h 1.50 d 7.00 ns 7.00 ns");
    free(c.data);
    lived[1].key.censored = 1;
    c = collect(sa_write_report, &profile);
    assert_lives(&c, " 41943040 100.00%", "5 - - - 14.80 h 1.50 d");
    free(c.data);
}

/* What mixed spans save is a line of fragmentation profiles, and of no other. */
static void test_summary_of_mixed_spans(void **state)
{
    struct sa_profile profile = *made_profile(SALLOC_PROFILE_FRAGMENTATION);
    struct collected c = collect(sa_write_report, &profile);

    (void)state;
    assert_null(strstr(c.data, "mixed spans"));
    free(c.data);
    profile.mixed_saved = 123456789012;
    c = collect(sa_write_report, &profile);
    assert_non_null(strstr(c.data, "\nmixed spans save 123456789012 bytes\n"));
    free(c.data);
    profile.type = SALLOC_PROFILE_PEAK_HEAP;
    c = collect(sa_write_report, &profile);
    assert_null(strstr(c.data, "mixed spans"));
    free(c.data);
}

/*
 * A total without samples has the upper end that chance allows, and what would answer; so have the
 * text formats with comments. Where sampling is or was off there is none. Stacks that were
 * forgotten are told, too.
 */
static void test_summary_without_samples(void **state)
{
    struct sa_profile profile = *made_profile_empty(SALLOC_PROFILE_HEAP);
    struct collected c = collect(sa_write_report, &profile);

    (void)state;
    assert_non_null(strstr(c.data, "\n0 bytes (at least 0, no upper end is known) in 0 blocks"));
    assert_non_null(strstr(c.data, "\nsampling is off: blocks allocated meanwhile are not"));
    assert_null(strstr(c.data, "few samples"));
    free(c.data);

    profile.interval = 2 << 20;
    profile.unseen = (struct sa_unseen){.bytes = 2 << 20, .blocks = 2 << 17};
    c = collect(sa_write_report, &profile);
    assert_non_null(strstr(
        c.data,
        "\n0 bytes (95 % interval 0 to 7736139) in 0 blocks (0 to 967016), from 0 samples\n"));
    assert_non_null(strstr(c.data, "\nfew samples: sample_interval:64k would give up to 118\n"));
    free(c.data);

    profile.used_bytes = 900000; /* it cannot be more */
    c = collect(sa_write_report, &profile);
    assert_non_null(strstr(c.data, "\nfew samples: sample_interval:8k would give up to 110\n"));
    free(c.data);
    profile.stacks_evicted = 327447;
    profile.stacks_dropped = 3;
    c = collect(sa_write_gperftools, &profile);
    assert_non_null(strstr(c.data, "\n# not kept: 0 samples, the stacks of 327450 (327447 of "
                                   "them after the block was freed)\n"));
    assert_non_null(strstr(c.data, "\n# 0 bytes (95 % interval 0 to 7736139) in 0 blocks"));
    free(c.data);
    c = collect(sa_write_jeprof, &profile);
    assert_non_null(strstr(c.data, "\n# 0 bytes (95 % interval 0 to 7736139) in 0 blocks"));
    free(c.data);
}

#define STACKS 500

static _Alignas(16) char stacks[STACKS][sizeof(struct sa_stack) + 16];
static struct sa_bucket buckets[STACKS];

/* As jeprof 5.3 reads it, which adds up in doubles and cuts off. */
static void read_jeprof(const char *text, uint64_t *ret_count, uint64_t *ret_bytes)
{
    const char *at = strstr(text, "\n@ ");
    double count = 0, bytes = 0;
    unsigned long t, c, b;

    assert_int_equal(sscanf(text, "heap_v2/%lu\n", &t), 1);
    for (; at; at = strstr(at + 1, "\n@ ")) {
        assert_int_equal(sscanf(strchr(at + 1, '\n'), " t*: %lu: %lu [", &c, &b), 2);
        if (c) {
            double factor = 1 / (1 - exp(-((double)b / (double)c / (double)t)));

            count += (double)c * factor;
            bytes += (double)b * factor;
        }
    }
    *ret_count = (uint64_t)count;
    *ret_bytes = (uint64_t)bytes;
}

/* Many stacks of small blocks, where the inversion matters most: totals are exact to the byte. */
static void test_jeprof_inverts_exactly(void **state)
{
    static const size_t sizes[] = {8, 8, 16, 24, 32, 48, 1024};
    struct sa_profile profile = {.type = SALLOC_PROFILE_PEAK_HEAP,
                                 .interval = 1 << 21,
                                 .buckets = buckets,
                                 .bucket_count = STACKS};
    struct test_random random = {5};
    uint64_t expect = 0, expect_count = 0, count, bytes;
    struct sa_values values;
    struct collected c;

    (void)state;
    for (size_t i = 0; i < STACKS; i++) {
        size_t a = sizes[test_random_below(&random, TEST_COUNT(sizes))];
        struct sa_stack *stack = (struct sa_stack *)stacks[i];

        stack->depth = 1;
        stack->pc[0] = 0x1000 + i;
        memset(&buckets[i], 0, sizeof(buckets[i]));
        buckets[i].key.stack = stack;
        buckets[i].key.allocated = a;
        buckets[i].key.interval = (double)(1 + test_random_below(&random, 1 << 21));
        buckets[i].key.p = -expm1((double)a * log1p(-1 / buckets[i].key.interval));
        buckets[i].samples = 1 + test_random_below(&random, 100);
        expect += (uint64_t)((double)(buckets[i].samples * a) / buckets[i].key.p + 0.5);
        sa_values_of_bucket(&buckets[i], &values);
        expect_count += values.count;
    }
    c = collect(sa_write_jeprof, &profile);
    read_jeprof(c.data, &count, &bytes);
    assert_int_equal(bytes, expect);
    /* The count of a stack is whole, too, and the bytes depend on it: it is carried along with
     * them. */
    assert_in_range(count, expect_count, expect_count + 1);
    free(c.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gperftools_lines),
        cmocka_unit_test(test_collapsed_lines),
        cmocka_unit_test(test_report_table),
        cmocka_unit_test(test_report_of_lifetimes),
        cmocka_unit_test(test_summary_of_mixed_spans),
        cmocka_unit_test(test_summary_without_samples),
        cmocka_unit_test(test_jeprof_inverts_exactly),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
