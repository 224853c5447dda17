/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a profile: rows rounded once, sums over stacks, and what the public functions are
 * told of rows and totals, for every type.
 */
#include "sampling/export/values.h"

#include "alloc/base/rng.h"
#include "alloc/os/vm.h"
#include "sampling/estimate/random_variates.h"
#include "sampling/estimate/rates.h"
#include "test/support/cmocka.h"
#include "test/support/made_profile.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct sa_by_stack *find(const struct sa_buffer *stacks, unsigned which)
{
    const struct sa_by_stack *s = (const struct sa_by_stack *)stacks->data;

    for (size_t i = 0; i < stacks->used / sizeof(*s); i++)
        if (s[i].stack == made_stack(which))
            return &s[i];
    return NULL;
}

/* A stack's numbers are the sums of its rows' whole numbers, and everything is the sum of the
 * stacks. */
static void test_values_add_up(void **state)
{
    (void)state;
    for (int type = 0; type <= SALLOC_PROFILE_LIFETIMES; type++) {
        const struct sa_profile *profile = made_profile(type);
        struct sa_buffer stacks = {NULL, 0, 0};
        struct sa_by_stack all, again;
        const struct sa_by_stack *s;

        assert_int_equal(sa_values_by_stack(profile, &stacks, &all), 0);
        assert_int_equal(stacks.used / sizeof(*s), MADE_STACKS);
        memset(&again, 0, sizeof(again));
        s = (const struct sa_by_stack *)stacks.data;
        for (size_t i = 0; i < MADE_STACKS; i++) {
            again.bytes += s[i].bytes;
            again.count += s[i].count;
            again.alloc_bytes += s[i].alloc_bytes;
            if (i)
                assert_true(s[i - 1].bytes >= s[i].bytes);
        }
        assert_int_equal(again.bytes, all.bytes);
        assert_int_equal(again.count, all.count);
        assert_int_equal(again.alloc_bytes, all.alloc_bytes);
        assert_int_equal(all.sums.samples + all.sums.certain, 31);
        assert_true(fabs(all.sums.bytes + all.sums.certain_bytes - 55883966) < 8);
        assert_int_equal(all.alloc_bytes != 0, type == SALLOC_PROFILE_HEAP);
        if (type == SALLOC_PROFILE_FRAGMENTATION) {
            assert_int_equal(find(&stacks, MADE_LIBC)->bytes, 0); /* it wastes nothing */
            assert_int_equal(all.inuse_bytes, 55883966);
        } else {
            assert_int_equal(find(&stacks, MADE_LIBC)->bytes, 5 * (8 << 20));
            assert_int_equal(all.bytes, 55883966);
        }
        sa_buffer_free(&stacks);
    }
}

/* Sums for estimates: of a stack, of all, of one that is not there. Totals count for allocations
 * only. */
static void test_profile_sums(void **state)
{
    struct sa_profile profile = *made_profile(SALLOC_PROFILE_HEAP);
    struct sa_stack other = {.depth = 0};
    struct sa_sums sums;

    (void)state;
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LEAF), &sums));
    assert_int_equal(sums.samples, 11);
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LIBC), &sums));
    assert_int_equal(sums.certain, 5);
    assert_true(sa_profile_sums(&profile, NULL, &sums));
    assert_int_equal(sums.samples, 26);
    assert_false(sa_profile_sums(&profile, &other, &sums));
    profile.type = SALLOC_PROFILE_ALLOCATIONS;
    profile.bucket_count = 0;
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LEAF), &sums));
    assert_int_equal(sums.samples, 40);
    assert_false(sa_profile_sums(&profile, made_stack(MADE_LIBC), &sums));
    assert_true(sa_profile_sums(&profile, NULL, &sums));
    assert_int_equal(sums.samples, 81);
}

/* Only what a type of profile tells of is filled in. */
static void test_profile_public_buckets(void **state)
{
    struct salloc_profile_sample s;
    const struct sa_profile *p;

    (void)state;
    p = made_profile(SALLOC_PROFILE_HEAP);
    sa_profile_bucket_sample(p, &p->buckets[4], &s);
    assert_int_equal(s.depth, 2);
    assert_ptr_equal(s.stack, made_stack(MADE_LIBC)->pc);
    assert_int_equal(s.kind, SALLOC_KIND_NEW);
    assert_int_equal(s.requested_size, (8 << 20) - 1);
    assert_true(s.inuse_bytes == 5.0 * (8 << 20) && s.inuse_count == 5 && s.alloc_count == 0);
    assert_true(s.resident_bytes == 5e6 && s.swapped_bytes == 4096 && s.probability == 1);
    assert_true(s.locked_bytes == 3e6 && s.zero_bytes == 2e6);
    assert_true(s.same_cpu == -1 && s.same_thread == -1 && !s.free_stack && !s.censored);
    assert_true(s.same_vcpu == -1 && s.same_l3 == -1 && s.same_numa == -1);
    assert_int_equal(s.guarded_status, SALLOC_GUARDED_LARGER_THAN_ONE_PAGE);
    sa_profile_total_sample(p, &p->totals[0], &s);
    assert_true(s.allocated_size == 0 && s.samples == 40 && s.inuse_bytes == 0);
    assert_true(fabs(s.alloc_bytes - 20972780) < 1 && s.alloc_count * 64 == s.alloc_bytes);

    p = made_profile(SALLOC_PROFILE_FRAGMENTATION);
    sa_profile_bucket_sample(p, &p->buckets[5], &s); /* a quarter of 5 blocks free per live one */
    assert_true(fabs(s.fragmentation_bytes / s.inuse_bytes - 1.25) < 1e-12);

    p = made_profile(SALLOC_PROFILE_ALLOCATIONS);
    sa_profile_bucket_sample(p, &p->buckets[4], &s);
    assert_true(s.alloc_bytes == 5.0 * (8 << 20) && s.inuse_bytes == 0);

    p = made_profile(SALLOC_PROFILE_LIFETIMES);
    sa_profile_bucket_sample(p, &p->buckets[0], &s);
    assert_ptr_equal(s.free_stack, made_stack(MADE_LIBC)->pc);
    assert_true(s.same_cpu == 0 && s.same_thread == 1 && s.inuse_count == 0 && s.alloc_count > 0);
    assert_true(s.same_vcpu == -1 && s.same_l3 == 1 && s.same_numa == 1);
    assert_true(s.lifetime_mean == 1e6 && fabs(s.lifetime_deviation - 2e5) < 1);
    assert_int_equal(s.lifetime_max, 1200000);
    sa_profile_bucket_sample(p, &p->buckets[3], &s);
    assert_true(s.censored && !s.free_stack && s.same_thread == -1);
}

#define SEEDS 10000

static struct sa_rate rate_of(double interval, double bytes)
{
    double p = sa_rate_probability(interval, bytes);

    return (struct sa_rate){.p = p, .interval = interval, .log_fail = log1p(-p)};
}

/* Draws what a row of so many blocks has, of which each is sampled by itself. */
static void draw_row(uint64_t *rng, const struct sa_rate *rate, double bytes, int blocks,
                     struct sa_bucket *ret)
{
    *ret = (struct sa_bucket){
        .key = {.p = rate->p, .interval = rate->interval, .allocated = (size_t)bytes}};
    for (int i = 0; i < blocks; i++) {
        double offset;

        if (sa_variate_real(sa_rng_own(rng)) >= rate->p)
            continue;
        offset = sa_variate_offset(sa_rng_own(rng), rate, bytes);
        ret->samples++;
        ret->offsets += offset;
        ret->hits += sa_variate_hits(rng, rate, bytes, offset);
    }
}

/*
 * Blocks are right on average. Rounding adds at most 1/2 to the standard deviation, so the mean of
 * SEEDS rows of one sample is off by more than 0.02, four standard deviations, in one of 16,000
 * tries; the seeds are fixed.
 */
static void test_blocks_are_unbiased(void **state)
{
    static const double sizes[] = {0.2, 0.45, 0.7, 1, 1.5, 3};

    (void)state;
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        double interval = 65536, bytes = floor(sizes[k] * interval), sum = 0;
        uint64_t rng = 7 * k + 1, rows = 0;
        struct sa_rate rate = rate_of(interval, bytes);

        while (rows < SEEDS) {
            struct sa_bucket row;
            struct sa_values values;

            draw_row(&rng, &rate, bytes, 1, &row);
            sa_values_of_bucket(&row, &values);
            sum += (double)values.count;
            rows += row.samples;
        }
        assert_true(fabs(sum / SEEDS - 1 / rate.p) < 0.02);
    }
}

/* 24 blocks of 1 MiB, each with a row of its own as they have several sizes, at 256 KiB: p = 0.98.
 * The mean of 24 SEEDS rows has a standard error of 24 sqrt(0.02 + 1/4) / sqrt(24 SEEDS) < 0.026.
 */
static void test_single_blocks_add_up(void **state)
{
    double bytes = 1 << 20, sum = 0;
    struct sa_rate rate = rate_of(1 << 18, bytes);
    uint64_t rng = 1;

    (void)state;
    for (int i = 0; i < 24 * SEEDS; i++) {
        struct sa_bucket row;
        struct sa_values values;

        draw_row(&rng, &rate, bytes, 1, &row);
        sa_values_of_bucket(&row, &values);
        sum += (double)values.count;
    }
    assert_true(fabs(sum / SEEDS - 24) < 4 * 0.026);
}

/* Two readings of the same samples agree, in whatever order they add them up. */
static void test_readings_agree(void **state)
{
    struct sa_rate rate = rate_of(65536, 40000);
    uint64_t rng = 3;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct sa_bucket part[8], forth = {.samples = 0}, back;
        struct sa_values a, b;

        for (int k = 0; k < 8; k++)
            draw_row(&rng, &rate, 40000, 3, &part[k]);
        forth.key = part[0].key;
        back = forth;
        for (int k = 0; k < 8; k++) {
            forth.samples += part[k].samples;
            forth.offsets += part[k].offsets;
            forth.hits += part[k].hits;
            back.samples += part[7 - k].samples;
            back.offsets += part[7 - k].offsets;
            back.hits += part[7 - k].hits;
        }
        sa_values_of_bucket(&forth, &a);
        sa_values_of_bucket(&back, &b);
        assert_int_equal(a.count, b.count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_add_up),          cmocka_unit_test(test_profile_sums),
        cmocka_unit_test(test_profile_public_buckets), cmocka_unit_test(test_blocks_are_unbiased),
        cmocka_unit_test(test_single_blocks_add_up),   cmocka_unit_test(test_readings_agree),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
