/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports fit their buffer whatever the counters say, in every format, with as many CPUs as there can be.
 *
 * The program is linked with --wrap for what reports are made from.
 */
#include "stats/report.h"

#include "alloc/base/size_class.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/middle/central.h"
#include "alloc/middle/transfer.h"
#include "stats/snapshot.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <string.h>

/*
 * The longest figures that can occur: bytes have at most 15 digits (47 bits of user addresses), and
 * counters 18: at 10^9 a second, ten years.
 */
#define MOST_BYTES 140737488355328ul
#define MOST_COUNT 999999999999999999ul

static bool extreme;
static int extreme_cpus;

int __real_sa_cpu_cache_count(void);
int __wrap_sa_cpu_cache_count(void);
void __real_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret);
void __wrap_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret);
void __real_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);
void __wrap_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);
void __real_sa_central_stats(unsigned cls, struct sa_central_stats *ret);
void __wrap_sa_central_stats(unsigned cls, struct sa_central_stats *ret);
void __real_sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret);
void __wrap_sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret);
void __real_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail);
void __wrap_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail);

int __wrap_sa_cpu_cache_count(void)
{
    return extreme ? extreme_cpus : __real_sa_cpu_cache_count();
}

void __wrap_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret)
{
    if (extreme)
        *ret = (struct sa_cpu_cache_stats){true,       MOST_BYTES, MOST_BYTES, MOST_BYTES,
                                           MOST_BYTES, 1,          MOST_COUNT, MOST_COUNT};
    else
        __real_sa_cpu_cache_stats(cpu, ret);
}

void __wrap_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret)
{
    if (extreme)
        *ret = (struct sa_transfer_stats){MOST_BYTES / sa_size_classes.of[cls].size,
                                          MOST_BYTES,
                                          MOST_BYTES,
                                          MOST_COUNT,
                                          MOST_COUNT,
                                          MOST_COUNT,
                                          MOST_COUNT,
                                          MOST_COUNT,
                                          MOST_COUNT};
    else
        __real_sa_transfer_stats(cls, ret);
}

void __wrap_sa_central_stats(unsigned cls, struct sa_central_stats *ret)
{
    __real_sa_central_stats(cls, ret);
    for (size_t i = 0; extreme && i < SA_CENTRAL_BUCKETS; i++)
        ret->utilization[i] = MOST_BYTES / SA_PAGE_BYTES;
}

void __wrap_sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret)
{
    __real_sa_cpu_cache_class_stats(cls, ret);
    if (extreme) /* as many slots as a class can have */
        *ret = (struct sa_cpu_class_stats){SA_SLOTS_MOST, SA_SLOTS_MOST, SA_SLOTS_MOST,
                                           SA_SLOTS_MOST, SA_SLOTS_MOST, MOST_COUNT};
}

/* All words of the snapshot, then those of the classes, at their most. */
void __wrap_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail)
{
    size_t *words = (size_t *)ret;

    __real_sa_snapshot_take_detailed(ret, detail);
    if (!extreme)
        return;
    for (size_t i = 0; i < sizeof(*ret) / sizeof(*words); i++)
        words[i] = MOST_BYTES;
    ret->classes = sa_size_classes.count;
    for (unsigned cls = 1; cls < ret->classes; cls++) {
        ret->cls[cls].size = sa_size_classes.of[cls].size;
        ret->cls[cls].free_objects = MOST_BYTES / ret->cls[cls].size;
        ret->cls[cls].spans_requested = 1;
        ret->cls[cls].spans_returned = MOST_COUNT;
    }
}

static void check_fits(enum sa_report_kind kind)
{
    size_t cap = sa_report_size();
    char *report = malloc(cap);
    struct sa_fmt f;

    assert_non_null(report);
    sa_fmt_init(&f, report, cap);
    sa_report_format_as(kind, &f);
    assert_false(f.truncated);
    assert_int_equal(f.len, strlen(report));
    assert_true(f.len > 1000);
    free(report);
}

static void test_report_fits_its_buffer(void **state)
{
    static const int cpus[] = {0, 1, 2, 100, 1000, 8192};

    (void)state;
    extreme = true;
    for (size_t i = 0; i < TEST_COUNT(cpus); i++) {
        extreme_cpus = cpus[i];
        check_fits(SA_REPORT_TEXT);
        check_fits(SA_REPORT_JSON);
        check_fits(SA_REPORT_OPENMETRICS);
    }
    extreme = false;
    check_fits(SA_REPORT_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_fits_its_buffer),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("report_size", tests, NULL, NULL);
}
