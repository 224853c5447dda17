/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports fit their buffer with the longest numbers, in every format, with the maximum of CPUs.
 * Making a report allocates nothing.
 *
 * The program is linked with --wrap for the sources of the numbers.
 */
#include "stats/report.h"

#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "stats/stats_snapshot.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <string.h>

/*
 * The longest numbers that can occur: bytes have at most 15 digits (47 bits of user addresses), and
 * counters 18: at 10^9 a second, ten years.
 */
#define BYTES_MAX 140737488355328ul
#define COUNT_MAX 999999999999999999ul

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
bool __real_sa_page_heap_huge_stats(struct sa_page_heap *heap, struct sa_huge_stats *ret);
bool __wrap_sa_page_heap_huge_stats(struct sa_page_heap *heap, struct sa_huge_stats *ret);
bool __real_sa_page_heap_walk(struct sa_page_heap *heap, struct sa_size_info *sizes,
                              struct sa_span_ages *ages);
bool __wrap_sa_page_heap_walk(struct sa_page_heap *heap, struct sa_size_info *sizes,
                              struct sa_span_ages *ages);
void __real_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail);
void __wrap_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail);

int __wrap_sa_cpu_cache_count(void)
{
    return extreme ? extreme_cpus : __real_sa_cpu_cache_count();
}

void __wrap_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret)
{
    if (extreme)
        *ret = (struct sa_cpu_cache_stats){true,      BYTES_MAX, BYTES_MAX, BYTES_MAX,
                                           BYTES_MAX, 1,         COUNT_MAX, COUNT_MAX};
    else
        __real_sa_cpu_cache_stats(cpu, ret);
}

void __wrap_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret)
{
    if (extreme)
        *ret = (struct sa_transfer_stats){BYTES_MAX / sa_size_classes.of[cls].size,
                                          BYTES_MAX,
                                          BYTES_MAX,
                                          COUNT_MAX,
                                          COUNT_MAX,
                                          COUNT_MAX,
                                          COUNT_MAX,
                                          COUNT_MAX,
                                          COUNT_MAX};
    else
        __real_sa_transfer_stats(cls, ret);
}

void __wrap_sa_central_stats(unsigned cls, struct sa_central_stats *ret)
{
    __real_sa_central_stats(cls, ret);
    for (size_t i = 0; extreme && i < SA_CENTRAL_BUCKETS; i++)
        ret->utilization[i] = BYTES_MAX / SA_PAGE_BYTES;
}

void __wrap_sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret)
{
    __real_sa_cpu_cache_class_stats(cls, ret);
    if (extreme) /* as many slots as a class can have */
        *ret = (struct sa_cpu_class_stats){SA_SLOTS_MAX, SA_SLOTS_MAX, SA_SLOTS_MAX,
                                           SA_SLOTS_MAX, SA_SLOTS_MAX, COUNT_MAX};
}

static void fill_words(void *of, size_t bytes, size_t value)
{
    for (size_t i = 0; i < bytes / sizeof(value); i++)
        ((size_t *)of)[i] = value;
}

/* Every length occurs: pages as many as there can be; of spans ever allocated and freed the
 * counters' most. */
static void fill_walk(struct sa_size_info *sizes, struct sa_span_ages *ages)
{
    fill_words(sizes, sizeof(*sizes), BYTES_MAX / SA_PAGE_BYTES);
    for (size_t i = 0; i < SA_SIZE_BUCKETS; i++)
        sizes->count[i] = (struct sa_size_count){COUNT_MAX, COUNT_MAX - 1000};
    for (size_t i = 0; i < TEST_COUNT(sizes->pages); i++)
        sizes->pages[i] = (struct sa_size_pages){COUNT_MAX, COUNT_MAX - BYTES_MAX / SA_PAGE_BYTES};
    fill_words(ages, sizeof(*ages), BYTES_MAX / SA_PAGE_BYTES);
    for (size_t i = 0; i < SA_AGE_LENGTHS; i++)
        ages->backed[i].idle_s = ages->released[i].idle_s = 1e18;
}

bool __wrap_sa_page_heap_huge_stats(struct sa_page_heap *heap, struct sa_huge_stats *ret)
{
    bool huge = __real_sa_page_heap_huge_stats(heap, ret);

    if (extreme) {
        fill_words(ret, sizeof(*ret), BYTES_MAX / SA_PAGE_BYTES);
        fill_walk(&ret->sizes, &ret->ages);
        ret->started_ns = 1;
    }
    return huge || extreme;
}

bool __wrap_sa_page_heap_walk(struct sa_page_heap *heap, struct sa_size_info *sizes,
                              struct sa_span_ages *ages)
{
    bool plain = __real_sa_page_heap_walk(heap, sizes, ages);

    if (extreme)
        fill_walk(sizes, ages);
    return plain;
}

/* All words of the snapshot, then those of the classes, at their most. */
void __wrap_sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *detail)
{
    size_t *words = (size_t *)ret;

    __real_sa_snapshot_take_detailed(ret, detail);
    if (!extreme)
        return;
    for (size_t i = 0; i < sizeof(*ret) / sizeof(*words); i++)
        words[i] = BYTES_MAX;
    ret->classes = sa_size_classes.count;
    for (unsigned cls = 1; cls < ret->classes; cls++) {
        ret->cls[cls].size = sa_size_classes.of[cls].size;
        ret->cls[cls].free_objects = BYTES_MAX / ret->cls[cls].size;
        ret->cls[cls].spans_requested = 1;
        ret->cls[cls].spans_returned = COUNT_MAX;
    }
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

static unsigned allocations;

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    allocations++;
    return __real_realloc(p, size);
}

static void check_fits(enum sa_report_kind kind)
{
    size_t cap = sa_report_size();
    char *report = malloc(cap);
    unsigned before = allocations;
    struct sa_fmt f;
    size_t mapped;

    assert_true(sa_fork_gate_enter()); /* the first time it may map a page of its own */
    sa_fork_gate_leave();
    mapped = sa_vm_mapped_bytes();
    assert_non_null(report);
    assert_true(before > 0); /* that one was seen */
    sa_fmt_init(&f, report, cap);
    sa_report_format_as(kind, &f);
    assert_int_equal(allocations, before);
    assert_int_equal(sa_vm_mapped_bytes(), mapped);
    assert_false(f.truncated);
    assert_int_equal(f.len, strlen(report));
    assert_true(f.len > 1000);
    free(report);
}

/* The longest label that the name of a file can give. */
static void check_file_fits(void)
{
    char path[300] = "/tmp/";
    size_t cap = sa_report_size();
    char *report = malloc(cap);
    struct sa_fmt f;

    memset(path + 5, 'a', 200);
    strcpy(path + 205, ".prom");
    assert_non_null(report);
    sa_fmt_init(&f, report, cap);
    sa_report_format_file(SA_REPORT_PROMETHEUS, path, &f);
    assert_false(f.truncated);
    assert_non_null(strstr(report, "{file=\"aaaa"));
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
        check_fits(SA_REPORT_PROMETHEUS);
        check_file_fits();
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
