/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics: names are valid and unique in every format, and values are those of the snapshot.
 * Several report inputs exist at once. Every metric is a numeric property.
 */
#include "stats/metrics.h"

#include "alloc/front/slow_path.h"
#include "alloc/os/vm.h"
#include "stats/properties.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/start.h"

#include <string.h>

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), n = strlen(ending);

    return len >= n && strcmp(name + len - n, ending) == 0;
}

/* What OpenMetrics keeps for itself. */
static const char *const reserved[] = {"_total",  "_info",    "_count", "_sum",
                                       "_bucket", "_created", "_gcount"};

static void check_names(const struct sa_metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(strspn(metrics[i].name, "abcdefghijklmnopqrstuvwxyz_") ==
                    strlen(metrics[i].name));
        assert_true(metrics[i].help[0] != '\0' && !strpbrk(metrics[i].help, "\\\"\n"));
        for (size_t r = 0; r < TEST_COUNT(reserved); r++)
            assert_false(ends_with(metrics[i].name, reserved[r]));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(metrics[i].name, metrics[k].name);
    }
}

/* With its prefix a metric of a set is none of the whole. */
static void check_prefixed(const char *prefix, const struct sa_metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[100];

        strcpy(name, prefix);
        strcat(name, metrics[i].name);
        for (size_t k = 0; k < SA_METRICS; k++)
            assert_string_not_equal(name, sa_metrics[k].name);
    }
}

static void test_metrics_have_usable_names(void **state)
{
    (void)state;
    check_names(sa_metrics, SA_METRICS);
    check_names(sa_huge_metrics, SA_HUGE_METRICS);
    check_names(sa_class_metrics, SA_CLASS_METRICS);
    check_names(sa_cpu_metrics, SA_CPU_METRICS);
    check_prefixed("hugepages_", sa_huge_metrics, SA_HUGE_METRICS);
    check_prefixed("class_", sa_class_metrics, SA_CLASS_METRICS);
    check_prefixed("cpu_", sa_cpu_metrics, SA_CPU_METRICS);
}

static uint64_t metric(const struct sa_snapshot *s, const char *name)
{
    union sa_metric_values values;

    sa_metrics_read(s, &values);
    for (size_t i = 0; i < SA_METRICS; i++)
        if (strcmp(sa_metrics[i].name, name) == 0)
            return values.of[i];
    fail_msg("no metric %s", name);
    return 0;
}

static void test_metrics_are_the_snapshots(void **state)
{
    struct sa_snapshot s;
    void *block = sa_front_alloc(3 << 20, 1, false);
    uint64_t before;

    (void)state;
    sa_snapshot_take(&s);
    assert_int_equal(metric(&s, "allocated_bytes"), s.in_use_bytes);
    assert_int_equal(metric(&s, "large_bytes"), 3 << 20);
    assert_int_equal(metric(&s, "large_blocks"), 1);
    assert_int_equal(metric(&s, "physical_bytes") + metric(&s, "released_bytes"),
                     metric(&s, "virtual_bytes"));
    assert_int_equal(metric(&s, "system_bytes"), sa_vm_mapped_bytes());
    before = metric(&s, "allocated_bytes");
    sa_front_free(block);
    sa_snapshot_take(&s);
    assert_int_equal(metric(&s, "allocated_bytes"), before - (3 << 20));
}

static void test_metrics_are_properties(void **state)
{
    struct sa_snapshot s;
    union sa_metric_values values;
    size_t value = 77;

    (void)state;
    sa_snapshot_take(&s);
    sa_metrics_read(&s, &values);
    for (size_t i = 0; i < SA_METRICS; i++) {
        char name[100] = "salloc.";

        strcat(name, sa_metrics[i].name);
        assert_true(sa_property_read(&s, name, &value));
        assert_int_equal(value, values.of[i]);
    }
    for (size_t i = 0; i < SA_HUGE_METRICS; i++) {
        char name[100] = "salloc.";

        strcat(name, sa_huge_metrics[i].name);
        assert_true(sa_property_read(&s, name, &value));
        for (size_t k = 0; k < SA_METRICS; k++)
            assert_string_not_equal(sa_huge_metrics[i].name, sa_metrics[k].name);
    }
    assert_true(sa_property_read(&s, "salloc.address_requested_hugepages", &value) && value > 0);
    assert_true(sa_property_read(&s, "salloc.rates_chosen", &value)); /* earlier names */
    assert_true(sa_property_read(&s, "salloc.filler_broken", &value));
    assert_true(sa_property_read(&s, "salloc.kept_out_bytes", &value));
    value = 77;
    assert_false(sa_property_read(&s, "salloc.", &value));
    assert_false(sa_property_read(&s, "salloc.allocated", &value));
    assert_false(sa_property_read(&s, "allocated_bytes", &value));
    assert_false(sa_property_read(&s, "tcmalloc.experiment.", &value));
    assert_false(sa_property_read(&s, "", &value));
    assert_int_equal(value, 77);
    assert_true(sa_property_read(&s, "tcmalloc.experiment.SALLOC_PER_CPU", &value));
    assert_int_equal(value, test_per_cpu());
}

/* The library's own report input serves one caller. Others get memory, or nothing if there is none.
 */
static void test_metrics_are_read_by_several_at_once(void **state)
{
    struct sa_report_input *first = sa_report_input_take(), *second = sa_report_input_take(),
                           *third;
    size_t mapped = sa_vm_mapped_bytes();

    (void)state;
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    test_faults.mmap_after = 0;
    assert_null(sa_report_input_take());
    sa_report_input_release(first);
    third = sa_report_input_take(); /* needs no memory */
    assert_ptr_equal(third, first);
    test_faults_clear();
    assert_true(third->s.classes > 1 && third->cls[1].cpu.allowed > 0);
    sa_report_input_release(third);
    sa_report_input_release(second);
    assert_true(sa_vm_mapped_bytes() < mapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_have_usable_names),
        cmocka_unit_test(test_metrics_are_the_snapshots),
        cmocka_unit_test(test_metrics_are_properties),
        cmocka_unit_test(test_metrics_are_read_by_several_at_once),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
