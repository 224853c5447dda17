/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of a profile made by hand: which are refused, which samples are added up, and which
 * unseen blocks the upper end allows for. The tests of the estimates themselves are in
 * test/unit/sampling/estimate.
 */
#include "sampling/snapshot/matching.h"

#include "sampling/snapshot/residency.h"
#include "test/support/cmocka.h"
#include "test/support/made_profile.h"
#include "test/support/start.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define T       524288.0  /* of the made profile */
#define CERTAIN (8 << 20) /* bytes of the blocks in its bucket 4: each of them is sampled */
#define METRICS 8

static struct salloc_profile_query query_of(enum salloc_metric metric)
{
    return (struct salloc_profile_query){
        .size = sizeof(struct salloc_profile_query), .metric = metric, .level = 0.95};
}

static struct salloc_interval ask(const struct sa_profile *p,
                                  const struct salloc_profile_query *query)
{
    struct salloc_interval x = {99, -1, -1, -1};

    assert_int_equal(sa_profile_estimate_matching(p, query, &x), 0);
    assert_true(0 <= x.low && x.low <= x.value && x.value <= x.high);
    return x;
}

/* Refused, with that error, and without a result. */
static void assert_refused(const struct sa_profile *p, const struct salloc_profile_query *query,
                           int error)
{
    struct salloc_interval x = {1, 2, 3, 4};

    assert_int_equal(sa_profile_estimate_matching(p, query, &x), -error);
    assert_true(x.samples == 1 && x.value == 2 && x.low == 3 && x.high == 4);
}

static void test_matching_refuses_queries(void **state)
{
    const struct sa_profile *p = made_profile(SALLOC_PROFILE_HEAP);
    static const double levels[] = {0, 1, -0.5, 1.5, NAN, INFINITY};
    struct salloc_profile_query bad;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(levels); i++) {
        bad = query_of(SALLOC_METRIC_COUNT);
        bad.level = levels[i];
        assert_refused(p, &bad, EINVAL);
    }
    bad = query_of(SALLOC_METRIC_COUNT);
    for (bad.size = 0; bad.size < sizeof(bad); bad.size++)
        assert_refused(p, &bad, EINVAL);
    for (int estimator = -1; estimator <= SALLOC_ESTIMATE_FAILED + 1; estimator++)
        for (int metric = 0; metric < METRICS; metric++) {
            bool sum = metric == SALLOC_METRIC_COUNT || metric == SALLOC_METRIC_BYTES;

            bad = query_of((enum salloc_metric)metric);
            bad.estimator = (enum salloc_estimator)estimator;
            if (estimator < 0 || estimator > SALLOC_ESTIMATE_FAILED || (estimator && !sum))
                assert_refused(p, &bad, EINVAL);
            else if (sum)
                ask(p, &bad);
        }
}

/* A longer query is one of a later version. It is understood if all that is new in it is 0, up to
 * 4096 bytes. */
static void test_matching_takes_longer_queries(void **state)
{
    const struct sa_profile *p = made_profile(SALLOC_PROFILE_HEAP);
    static union {
        struct salloc_profile_query query;
        unsigned char bytes[4100];
    } longer;

    (void)state;
    for (size_t size = sizeof(longer.query); size <= 4096; size += 61) {
        memset(&longer, 0, sizeof(longer));
        longer.query = query_of(SALLOC_METRIC_COUNT);
        longer.query.size = size;
        longer.bytes[size] = 1; /* the first byte that is not the query's */
        ask(p, &longer.query);
        longer.bytes[size] = 0;
        for (size_t i = sizeof(longer.query); i < size; i += 7) {
            longer.bytes[i] = 1;
            assert_refused(p, &longer.query, EINVAL);
            longer.bytes[i] = 0;
        }
        ask(p, &longer.query);
    }
    longer.query.size = 4096;
    ask(p, &longer.query);
    longer.query.size = 4097;
    assert_refused(p, &longer.query, EINVAL);
}

/* Each type of profile has blocks, bytes, and the metrics that the public header says. */
static void test_matching_knows_the_metrics_of_each_type(void **state)
{
    (void)state;
    for (int type = 0; type <= SALLOC_PROFILE_EVENTS; type++)
        for (int metric = 0; metric <= METRICS; metric++) {
            struct sa_profile p = *made_profile(SALLOC_PROFILE_HEAP);
            struct salloc_profile_query query = query_of((enum salloc_metric)metric);
            bool has = false;

            p.type = (enum salloc_profile_type)type;
            if (metric == SALLOC_METRIC_COUNT || metric == SALLOC_METRIC_BYTES)
                has = true;
            else if (metric == SALLOC_METRIC_FRAGMENTATION)
                has = type == SALLOC_PROFILE_FRAGMENTATION;
            else if (metric == SALLOC_METRIC_LIFETIME)
                has = type == SALLOC_PROFILE_LIFETIMES;
            else if (metric < METRICS)
                has = type == SALLOC_PROFILE_HEAP;
            if (has)
                ask(&p, &query);
            else
                assert_refused(&p, &query, EINVAL);
        }
}

/* What the kernel has not told is no data, and not 0. */
static void test_matching_needs_what_the_kernel_tells(void **state)
{
    static const struct {
        enum salloc_metric metric;
        unsigned needs;
    } rows[] = {{SALLOC_METRIC_COUNT, 0},
                {SALLOC_METRIC_RESIDENT, SA_KNOWS_PAGES},
                {SALLOC_METRIC_SWAPPED, SA_KNOWS_PAGES},
                {SALLOC_METRIC_LOCKED, SA_KNOWS_LOCKED},
                {SALLOC_METRIC_ZERO, SA_KNOWS_ZERO}};
    struct sa_profile p = *made_profile(SALLOC_PROFILE_HEAP);

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        for (unsigned knows = 0; knows < 8; knows++) {
            struct salloc_profile_query query = query_of(rows[i].metric);

            p.knows = (uint8_t)knows;
            if (rows[i].needs & ~knows)
                assert_refused(&p, &query, ENODATA);
            else
                ask(&p, &query);
        }
}

/* What the match function sees, and takes: all samples of that size. */
struct seen {
    size_t takes;
    unsigned calls;
    uint64_t samples;
    uintptr_t addresses; /* the sum */
};

static int of_size(const struct salloc_profile_sample *s, void *arg)
{
    struct seen *seen = arg;

    assert_int_equal(s->size, sizeof(*s));
    seen->calls++;
    seen->samples += s->samples;
    seen->addresses += (uintptr_t)s->address;
    return s->allocated_size == seen->takes ? -1 : 0; /* anything but 0 */
}

static struct salloc_interval ask_size(const struct sa_profile *p, enum salloc_metric metric,
                                       size_t bytes, struct seen *seen)
{
    struct salloc_profile_query query = query_of(metric);

    *seen = (struct seen){.takes = bytes};
    query.match = of_size;
    query.arg = seen;
    query.smallest_block = bytes;
    return ask(p, &query);
}

/* Each bucket is asked for once. Only those that match are in the set. Certain blocks are counted
 * and not estimated. */
static void test_matching_picks_buckets(void **state)
{
    const struct sa_profile *p = made_profile(SALLOC_PROFILE_HEAP);
    struct salloc_profile_query all = query_of(SALLOC_METRIC_COUNT);
    struct salloc_interval x;
    struct seen seen;

    (void)state;
    x = ask_size(p, SALLOC_METRIC_COUNT, CERTAIN, &seen);
    assert_true(seen.calls == 8 && seen.samples == 31);
    assert_true(x.samples == 5 && x.value == 5 && x.low == 5 && x.high == 5);
    x = ask_size(p, SALLOC_METRIC_BYTES, CERTAIN, &seen);
    assert_true(x.samples == 5 && x.value == 5.0 * CERTAIN && x.low == x.value);
    x = ask_size(p, SALLOC_METRIC_COUNT, 8, &seen); /* two buckets, of 1 and of 7 samples */
    assert_true(x.samples == 8 && fabs(x.value * p->buckets[1].key.p - 8) < 1e-9);
    x = ask_size(p, SALLOC_METRIC_COUNT, 12345, &seen);
    assert_true(x.samples == 0 && x.value == 0 && x.low == 0 && x.high > 0);
    assert_int_equal(ask(p, &all).samples, 31); /* a null pointer takes all */
    p = made_profile(SALLOC_PROFILE_LIFETIMES);
    x = ask_size(p, SALLOC_METRIC_LIFETIME, CERTAIN, &seen);
    assert_true(x.samples == 5 && x.value == 1e6 && x.low == 1e6 && x.high == 1e6);
}

/* Single samples replace the buckets. Those of no bucket are left out. */
static void test_matching_picks_single_samples(void **state)
{
    struct sa_profile p = *made_profile(SALLOC_PROFILE_HEAP);
    struct sa_sample_copy singles[] = {
        {.bucket = 4, .samples = 1, .address = 16, .resident = 5000, .swapped = 70, .zero = 9},
        {.bucket = 3, .samples = 1, .address = 256, .resident = 4096, .locked = 4096},
        {.bucket = SIZE_MAX, .samples = 1, .address = 4096, .resident = 77},
        {.bucket = 4, .samples = 1, .address = 65536, .resident = 300, .swapped = 1},
    };
    struct salloc_profile_query all = query_of(SALLOC_METRIC_RESIDENT);
    struct salloc_interval x;
    struct seen seen;
    double weight;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(singles); i++)
        singles[i].key = p.buckets[i == 1 ? 3 : 4].key;
    p.singles = singles;
    p.single_count = TEST_COUNT(singles);
    weight = 1 / p.buckets[3].key.p;
    x = ask_size(&p, SALLOC_METRIC_COUNT, CERTAIN, &seen);
    assert_true(seen.calls == 3 && seen.samples == 3 && seen.addresses == 16 + 256 + 65536);
    assert_true(x.samples == 2 && x.value == 2 && x.high == 2);
    x = ask_size(&p, SALLOC_METRIC_RESIDENT, CERTAIN, &seen);
    assert_true(x.samples == 2 && x.value == 5300 && x.low == 5300);
    assert_true(ask_size(&p, SALLOC_METRIC_SWAPPED, CERTAIN, &seen).value == 71);
    assert_true(ask_size(&p, SALLOC_METRIC_ZERO, CERTAIN, &seen).value == 9);
    x = ask_size(&p, SALLOC_METRIC_LOCKED, 4096, &seen);
    assert_true(x.samples == 1 && fabs(x.value / (4096 * weight) - 1) < 1e-12);
    x = ask(&p, &all);
    assert_true(x.samples == 3 && fabs(x.value / (5300 + 4096 * weight) - 1) < 1e-12);
}

/* Totals of stacks are of allocations: a heap profile, which has them too, does not count them. */
static void test_matching_picks_totals_of_allocations(void **state)
{
    struct sa_profile p = *made_profile(SALLOC_PROFILE_HEAP);
    struct salloc_profile_query all = query_of(SALLOC_METRIC_COUNT);
    struct seen seen;

    (void)state;
    assert_true(p.total_count == 2 && p.totals[0].sums.samples == 40);
    assert_int_equal(ask(&p, &all).samples, 31);
    p.type = SALLOC_PROFILE_ALLOCATIONS;
    assert_int_equal(ask(&p, &all).samples, 31 + 40 + 41);
    assert_int_equal(ask_size(&p, SALLOC_METRIC_COUNT, 0, &seen).samples, 40 + 41);
    assert_true(seen.calls == 10 && seen.samples == 31 + 40 + 41);
}

/* Wasted bytes are at most all that were wasted, but never less than the estimate. */
static void test_matching_bounds_wasted_bytes(void **state)
{
    struct sa_profile p = *made_profile(SALLOC_PROFILE_FRAGMENTATION);
    struct sa_sample_copy single = {.bucket = 0, .samples = 1, .waste = 2};
    struct salloc_profile_query query = query_of(SALLOC_METRIC_FRAGMENTATION);
    struct salloc_interval x;
    double value, high;

    (void)state;
    single.key = p.buckets[0].key;
    p.singles = &single;
    p.single_count = 1;
    p.waste_max = INFINITY;
    x = ask(&p, &query);
    value = 2 * 64 / single.key.p;
    high = x.high;
    assert_true(fabs(x.value / value - 1) < 1e-12 && high > 2 * value && high < INFINITY);
    p.waste_max = 2 * value;
    assert_true(ask(&p, &query).high == 2 * value);
    p.waste_max = value / 2;
    x = ask(&p, &query);
    assert_true(x.high == x.value && fabs(x.value / value - 1) < 1e-12);
    p.waste_max = 2 * high;
    assert_true(ask(&p, &query).high == high);
}

/* 1/p of blocks of that many bytes. */
static double weight_of(double interval, double bytes)
{
    return -1 / expm1(bytes * log1p(-1 / interval));
}

/* The upper end of a set with these unseen blocks. samples: it has the one of T bytes, or none. */
static double upper_end(struct sa_unseen unseen, enum salloc_metric metric, size_t smallest,
                        bool samples)
{
    struct sa_profile p = *made_profile(SALLOC_PROFILE_HEAP);
    struct salloc_profile_query query = query_of(metric);
    struct seen seen = {.takes = samples ? (size_t)T : 12345};

    p.unseen = unseen;
    query.match = of_size;
    query.arg = &seen;
    query.smallest_block = smallest;
    return ask(&p, &query).high;
}

/* With a smallest block of that many bytes, the upper end is that of a profile in which no unseen
 * block is smaller. It is lower than without, unless the profile's smallest blocks, of 8 bytes, are
 * as large. */
static void assert_smallest(struct sa_unseen unseen, size_t bytes, bool samples)
{
    double weight = weight_of(T, (double)bytes);
    double any = upper_end(unseen, SALLOC_METRIC_COUNT, 0, samples);
    double end = upper_end(unseen, SALLOC_METRIC_COUNT, bytes, samples);
    struct sa_unseen larger = unseen;

    larger.blocks = fmin(larger.blocks, weight);
    larger.past_blocks_weight = fmin(larger.past_blocks_weight, weight);
    larger.past_blocks = fmin(larger.past_blocks, larger.past_bytes / (double)bytes);
    assert_true(fabs(end / upper_end(larger, SALLOC_METRIC_COUNT, 0, samples) - 1) < 1e-9);
    assert_true(bytes > 8 ? end < any : end == any);
    assert_true(upper_end(unseen, SALLOC_METRIC_BYTES, bytes, samples) ==
                upper_end(unseen, SALLOC_METRIC_BYTES, 0, samples));
}

/* Of the past, the number of blocks limits the upper end if there were few, and the weight of a
 * sample if there were many. The upper end of bytes does not depend on the smallest block. */
static void test_matching_unseen_blocks_have_a_size(void **state)
{
    static const size_t sizes[] = {1, 8, 9, 100, 4096, 100000, 524288};
    static const struct sa_unseen unseen[] = {
        {.bytes = T, .blocks = T / 8},
        {.past_bytes_weight = T,
         .past_blocks_weight = T / 8,
         .past_bytes = 1e6,
         .past_blocks = 1e6 / 8},
        {.past_bytes_weight = T,
         .past_blocks_weight = T / 8,
         .past_bytes = 1e9,
         .past_blocks = 1e9 / 8},
    };

    (void)state;
    for (size_t k = 0; k < TEST_COUNT(unseen); k++)
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            assert_smallest(unseen[k], sizes[i], false);
            assert_smallest(unseen[k], sizes[i], true);
        }
}

/* Blocks that are certain leave nothing unseen. While sampling was off, any block was. */
static void test_matching_unseen_blocks_at_the_ends(void **state)
{
    const struct sa_unseen now = {.bytes = T, .blocks = T / 8};
    const struct sa_unseen off = {.bytes = INFINITY, .blocks = INFINITY};

    (void)state;
    assert_true(upper_end(now, SALLOC_METRIC_COUNT, CERTAIN, false) == 0);
    assert_true(isinf(upper_end(off, SALLOC_METRIC_COUNT, CERTAIN, false)));
    assert_true(isinf(upper_end(off, SALLOC_METRIC_COUNT, 0, false)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matching_refuses_queries),
        cmocka_unit_test(test_matching_takes_longer_queries),
        cmocka_unit_test(test_matching_knows_the_metrics_of_each_type),
        cmocka_unit_test(test_matching_needs_what_the_kernel_tells),
        cmocka_unit_test(test_matching_picks_buckets),
        cmocka_unit_test(test_matching_picks_single_samples),
        cmocka_unit_test(test_matching_picks_totals_of_allocations),
        cmocka_unit_test(test_matching_bounds_wasted_bytes),
        cmocka_unit_test(test_matching_unseen_blocks_have_a_size),
        cmocka_unit_test(test_matching_unseen_blocks_at_the_ends),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("matching", tests, NULL, NULL);
}
