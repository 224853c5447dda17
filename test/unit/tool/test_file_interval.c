/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates and intervals of a profile file equal those of the samples that it was made of: with
 * the file's sampling interval, with others, and with certain blocks.
 */
#include "tool/file/file_interval.h"

#include "alloc/os/vm.h"
#include "sampling/estimate/rates.h"
#include "sampling/snapshot/residency.h"
#include "test/support/cmocka.h"
#include "test/support/made_profile.h"
#include "tool/reading/output.h"

#include <string.h>

#define LEVEL   SA_FILE_LEVEL
#define BUCKETS 64

static void assert_close(double found, double expected)
{
    double off = found - expected;

    if ((off < 0 ? -off : off) > 1 + 1e-5 * expected) /* the file has whole bytes */
        fail_msg("%.3f is not %.3f", found, expected);
}

/* The profile with a part of its buckets sampled at other intervals, and parsed again. */
static void make(struct sa_profile *profile, struct sa_bucket *buckets, bool others,
                 struct sa_profile_file *ret)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_buffer data = {NULL, 0, 0};
    static struct sa_total totals[BUCKETS];

    *profile = *made_profile(SALLOC_PROFILE_HEAP);
    assert_true(profile->bucket_count <= BUCKETS);
    memcpy(buckets, profile->buckets, profile->bucket_count * sizeof(*buckets));
    profile->buckets = buckets;
    profile->knows = SA_KNOWS_PAGES;
    for (size_t i = 0; i < profile->bucket_count; i++) {
        struct sa_bucket *b = &buckets[i];
        double t = others && i % 2 ? (double)profile->interval / (double)(i * 50) : 0;

        if (!t)
            t = (double)profile->interval;
        b->key.p = sa_rate_probability(t, (double)b->key.allocated);
        b->key.interval = b->key.p < 1 ? t : 1;
        b->samples = 3 * i + 1; /* a part of them is resident, each as a whole */
        b->resident = (double)(b->samples / 2 * b->key.allocated);
        b->swapped = b->locked = b->zero = 0;
    }
    memcpy(totals, profile->totals, profile->total_count * sizeof(*totals));
    profile->totals = totals;
    for (size_t i = 0; i < profile->total_count; i++)
        for (unsigned k = 0; k < 12; k++) {
            double a = (double)(8u << (2 * k)), t = others && k % 2 ? 5000 : 524288.0;
            double p = sa_rate_probability(t, a);

            sa_sums_add(&totals[i].sums,
                        &(struct sa_group){
                            .p = p, .interval = p < 1 ? t : 1, .allocated = a, .samples = k + i});
        }
    assert_true(sa_output_proto(profile, &data, &e));
    assert_true(sa_profile_file_parse(ret, data.data, data.used, &e));
    ret->data = data;
}

static struct sa_file_interval of_file(const struct sa_profile_file *file, const char *name)
{
    uint32_t metric = sa_file_metric(file, name);
    struct sa_file_sums sums = {0};

    assert_true(metric != SA_FILE_NONE);
    for (uint32_t i = 0; i < file->sample_count; i++)
        if (file->values[file->samples[i].value + metric])
            sa_file_sums_add(file, metric, i, &sums);
    return sa_file_interval_of(file, metric, &sums, NULL);
}

/* What was ever allocated, from blocks of several sizes for each stack. */
static void check_ever_allocated(const struct sa_profile *profile,
                                 const struct sa_profile_file *file)
{
    struct sa_file_interval found;
    struct sa_sums sums = {0};
    struct salloc_estimate e;

    for (size_t i = 0; i < profile->total_count; i++)
        sa_sums_merge(&sums, &profile->totals[i].sums);
    sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &e);
    found = of_file(file, "alloc_space");
    assert_true(found.known);
    assert_int_equal(found.samples, e.samples);
    assert_close(found.low, e.bytes_low);
    assert_close(found.high, e.bytes_high);
    found = of_file(file, "alloc_objects");
    assert_true(found.known);
    assert_close(found.low, e.count_low);
    assert_close(found.high, e.count_high);
}

static void check(bool others)
{
    static struct sa_bucket buckets[BUCKETS];
    const struct sa_unseen none = {0};
    struct sa_value_sums parts = {0};
    struct salloc_interval resident;
    struct sa_file_interval found;
    struct salloc_estimate e;
    struct sa_profile_file file;
    struct sa_profile profile;
    struct sa_sums sums = {0};

    make(&profile, buckets, others, &file);
    for (size_t i = 0; i < profile.bucket_count; i++) {
        const struct sa_bucket *b = &buckets[i];
        struct sa_group group = {.p = b->key.p,
                                 .interval = b->key.interval,
                                 .allocated = (double)b->key.allocated,
                                 .samples = b->samples};

        sa_sums_add(&sums, &group);
        for (uint64_t k = 0; k < b->samples; k++)
            sa_value_sums_add(&parts, b->key.p,
                              k < b->samples / 2 ? (double)b->key.allocated : 0.0);
    }
    sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &e);
    found = of_file(&file, "inuse_space");
    assert_true(found.known);
    assert_int_equal(found.samples, e.samples);
    assert_close(found.low, e.bytes_low);
    assert_close(found.high, e.bytes_high);
    found = of_file(&file, "inuse_objects");
    assert_true(found.known);
    assert_close(found.low, e.count_low);
    assert_close(found.high, e.count_high);
    sa_estimate_value(&parts, &none, LEVEL, &resident);
    found = of_file(&file, "resident_space");
    assert_true(found.known);
    assert_close(found.low, resident.low);
    assert_close(found.high, resident.high);
    check_ever_allocated(&profile, &file);
    sa_profile_file_free(&file);
}

static void test_period_of_file(void **state)
{
    (void)state;
    check(false);
}

static void test_other_periods(void **state)
{
    (void)state;
    check(true);
}

/* A file that lacks the number of samples where it is needed has no interval. */
static void test_number_of_samples_is_needed(void **state)
{
    static struct sa_bucket buckets[BUCKETS];
    struct sa_profile_file file;
    struct sa_profile profile;
    unsigned with = 0;

    (void)state;
    make(&profile, buckets, true, &file);
    for (uint32_t i = 0; i < file.label_count; i++) {
        if (strcmp(file.labels[i].key, SA_FILE_SAMPLES) != 0)
            continue;
        file.labels[i].key = "other";
        with++;
    }
    assert_true(with > 0 && with < file.sample_count);
    assert_false(of_file(&file, "inuse_space").known);
    sa_profile_file_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_period_of_file),
        cmocka_unit_test(test_other_periods),
        cmocka_unit_test(test_number_of_samples_is_needed),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
