/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page as text: the printed rows of the summary add up exactly, the rows of classes
 * add up to the summary, and a buffer of any length is not exceeded. */
#include "stats/report.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"
#include "test/support/traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *page;

static const char *format(void)
{
    size_t cap = sa_report_size();
    struct sa_fmt f;

    page = realloc(page, cap);
    assert_non_null(page);
    sa_fmt_init(&f, page, cap);
    sa_report_format(&f);
    assert_false(f.truncated);
    assert_int_equal(f.len, strlen(page));
    return page;
}

/* The number in the row of the summary with this text. */
static bool row(const char *text, const char *what, size_t *ret)
{
    const char *end = strstr(text, what), *line = end;

    if (!end || end[strlen(what)] != '\n')
        return false;
    while (line > text && line[-1] != '\n')
        line--;
    return strncmp(line, "MALLOC: ", 8) == 0 && sscanf(line + 9, "%zu", ret) == 1;
}

/* Whether the rows between the rules are what the line under them says. */
static bool summary_adds_up(const char *text)
{
    static const char *const parts[] = {"Bytes in use by application",
                                        "Bytes in page heap freelist",
                                        "Bytes in central cache freelist",
                                        "Bytes in per-CPU cache freelist",
                                        "Bytes in transfer cache freelist",
                                        "Bytes in thread cache freelists",
                                        "Bytes in malloc metadata",
                                        "Bytes in malloc metadata Arena unallocated",
                                        "Bytes in malloc metadata Arena unavailable"};
    size_t sum = 0, actual, released, virtual, v;
    int rows = 0;

    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        if (!row(text, parts[i], &v))
            return false;
        sum += v;
    }
    /* No row beyond those: a new one has to be counted here, too. */
    for (const char *p = text; (p = strstr(p, "MALLOC: + ")); p++)
        rows++;
    return rows == TEST_COUNT(parts) &&
           row(text, "Actual memory used (physical + swap)", &actual) &&
           row(text, "Bytes released to OS (aka unmapped)", &released) &&
           row(text, "Virtual address space used", &virtual) && sum == actual &&
           actual + released == virtual;
}

static void use_memory(void)
{
    struct test_random r = {0x4e9};
    static void *blocks[3000];

    for (size_t i = 0; i < TEST_COUNT(blocks); i++)
        blocks[i] = sa_front_alloc(test_random_size(&r, 15), 1, false);
    for (size_t i = 0; i < TEST_COUNT(blocks); i++)
        if (i % 7)
            sa_front_free(blocks[i]);
    for (size_t i = 0; i < TEST_COUNT(blocks); i += 70)
        sa_front_free(sa_front_alloc(1 << 20, 1, false));
}

static void test_report_summary_adds_up_at_rest(void **state)
{
    (void)state;
    assert_true(summary_adds_up(format()));
    use_memory();
    assert_true(summary_adds_up(format()));
    sa_maintenance_release(PTRDIFF_MAX);
    assert_true(summary_adds_up(format()));
}

/* Of a class's lines on the page, what they say in numbers. */
struct class_lines {
    unsigned freelists, transfers, histograms, capacities; /* lines seen */
    size_t free_bytes, tail_bytes, transfer_bytes;
};

static size_t histogram_sum(const char *p)
{
    size_t sum = 0, n;
    unsigned bucket, limit, at;

    for (bucket = 0;; bucket++) {
        assert_int_equal(sscanf(p, "%zu < %u%n", &n, &limit, &at), 2);
        assert_int_equal(limit, 1u << bucket);
        sum += n;
        p += at;
        if (*p++ == '\n')
            break;
    }
    assert_int_equal(bucket, 16);
    return sum;
}

static void read_class_line(const char *line, size_t *spans, struct class_lines *ret)
{
    size_t size, objects, second, min, max, allowed;
    const struct sa_class *k;
    double average;
    unsigned cls;
    int at = 0;

    assert_int_equal(sscanf(line, "class %u [ %zu bytes ] : %n", &cls, &size, &at), 2);
    assert_in_range(cls, 1, sa_size_classes.count - 1);
    k = &sa_size_classes.of[cls];
    assert_int_equal(size, k->size);
    line += at;
    at = 0;
    sscanf(line, "%zu objs; %*f MiB; %*f cum MiB; %zu %n", &objects, &second, &at);
    if (at && strncmp(line + at, "live pages;", 11) == 0) {
        assert_int_equal(second % k->pages, 0);
        spans[cls] = second / k->pages;
        ret->free_bytes += objects * size;
        ret->tail_bytes += spans[cls] * (k->pages * SA_PAGE_BYTES - (size_t)k->objects * k->size);
        ret->freelists++;
    } else if (at) {
        assert_memory_equal(line + at, "capacity;", 9);
        assert_true(objects <= second);
        ret->transfer_bytes += objects * size;
        ret->transfers++;
    } else if (sscanf(line, "%zu (minimum), %lf (average), %zu (maximum), %zu maximum allowed",
                      &min, &average, &max, &allowed) == 4) {
        assert_int_equal(allowed, k->max);
        assert_true((double)min <= average && average <= (double)max && max <= allowed);
        ret->capacities++;
    } else {
        assert_int_equal(histogram_sum(line), spans[cls]);
        ret->histograms++;
    }
}

/*
 * The lines of the classes: objs times size, with what is left behind the last object of each span,
 * are the caches' rows of the summary; spans by live objects are all spans.
 */
static void test_report_classes_add_up_to_the_summary(void **state)
{
    static const char *const caches[] = {
        "Bytes in central cache freelist", "Bytes in per-CPU cache freelist",
        "Bytes in transfer cache freelist", "Bytes in thread cache freelists"};
    struct class_lines lines = {0};
    size_t spans[SA_CLASSES_MAX], in_summary = 0, v;
    const char *text;

    (void)state;
    use_memory();
    text = format();
    for (const char *p = text; (p = strstr(p, "\nclass ")); p++)
        read_class_line(p + 1, spans, &lines);
    assert_int_equal(lines.freelists, sa_size_classes.count - 1);
    assert_int_equal(lines.transfers, sa_size_classes.count - 1);
    assert_int_equal(lines.histograms, sa_size_classes.count - 1);
    assert_int_equal(lines.capacities, sa_size_classes.count - 1);
    for (size_t i = 0; i < TEST_COUNT(caches); i++) {
        assert_true(row(text, caches[i], &v));
        in_summary += v;
    }
    assert_int_equal(lines.free_bytes + lines.tail_bytes, in_summary);
    assert_true(row(text, "Bytes in transfer cache freelist", &v));
    assert_int_equal(lines.transfer_bytes, v);
}

/* The lines of the CPUs are the row of the summary, and the total of their misses. */
static void test_report_cpus_add_up_to_the_summary(void **state)
{
    unsigned long underflows = 0, overflows = 0, reclaims = 0, all[3], one[3];
    const char *counts = "%lu underflows, %lu overflows, overflows / underflows: %*f, %lu reclaims";
    size_t sum = 0, cpu_row, thread_row;
    const char *text, *total;

    (void)state;
    use_memory();
    text = format();
    for (const char *p = text; (p = strstr(p, "\ncpu ")); p++) {
        size_t bytes;
        int at = 0;

        assert_int_equal(sscanf(p, "\ncpu %*d: %zu %n", &bytes, &at), 1);
        if (strncmp(p + at, "bytes (", 7) == 0) {
            sum += bytes;
            continue;
        }
        assert_int_equal(sscanf(strchr(p, ':') + 1, counts, &one[0], &one[1], &one[2]), 3);
        underflows += one[0];
        overflows += one[1];
        reclaims += one[2];
    }
    assert_true(row(text, "Bytes in per-CPU cache freelist", &cpu_row));
    assert_true(row(text, "Bytes in thread cache freelists", &thread_row));
    assert_int_equal(sum, cpu_row + thread_row);
    total = strstr(text, "\nTotal  :");
    assert_non_null(total);
    assert_int_equal(sscanf(strchr(total, ':') + 1, counts, &all[0], &all[1], &all[2]), 3);
    assert_int_equal(underflows, all[0]);
    assert_int_equal(overflows, all[1]);
    assert_int_equal(reclaims, all[2]);
    assert_true(underflows > 0);
}

static uint64_t done; /* atomic */

static void load(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        size_t cap = sa_report_size() + 65536;
        char *text = malloc(cap);

        for (int i = 0; i < 300; i++) {
            struct sa_fmt f;

            sa_fmt_init(&f, text, cap);
            sa_report_format(&f);
            THREAD_CHECK(!f.truncated && summary_adds_up(text));
        }
        free(text);
        __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
        return;
    }
    traffic_until(&done, 0x10ad + (uint64_t)index, 5000);
}

static void test_report_summary_adds_up_under_load(void **state)
{
    (void)state;
    done = 0;
    test_threads_run(4, load, NULL);
    test_threads_check();
}

/* No CPU's row has more than the limit that stands above them, also where one has been lent what
 * others have. */
static void test_report_rows_of_cpus_keep_the_limit(void **state)
{
    const char *at;
    size_t limit, cached, rest, rows = 0;
    int cpu = 0, ours;

    (void)state;
    sa_front_free(sa_front_alloc(100, 1, false));
    while (!sa_cpu_caches[cpu])
        cpu++;
    sa_cpu_caches[cpu]->limit_bytes += 12345;
    sa_cpu_caches[cpu]->available_bytes += 12345;
    at = strstr(format(), "Bytes in per-CPU caches");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "Bytes in per-CPU caches (per cpu limit: %zu bytes)", &limit), 1);
    for (at = strstr(at, "\ncpu "); at; at = strstr(at + 1, "\ncpu ")) {
        if (sscanf(at, "\ncpu %d: %zu bytes ( %*f MiB) with %zu bytes unallocated", &ours, &cached,
                   &rest) != 3)
            break;
        assert_true(cached + rest <= limit);
        rows++;
    }
    assert_true(rows > 0);
    sa_cpu_caches[cpu]->limit_bytes -= 12345;
    sa_cpu_caches[cpu]->available_bytes -= 12345;
}

static void test_report_kind_is_the_ending(void **state)
{
    (void)state;
    assert_int_equal(sa_report_kind_of_path("stats"), SA_REPORT_TEXT);
    assert_int_equal(sa_report_kind_of_path("a/b.json"), SA_REPORT_JSON);
    assert_int_equal(sa_report_kind_of_path("b.%p.prom"), SA_REPORT_PROMETHEUS);
    assert_int_equal(sa_report_kind_of_path("b.openmetrics"), SA_REPORT_OPENMETRICS);
    assert_int_equal(sa_report_kind_of_path("b.json.txt"), SA_REPORT_TEXT);
    assert_int_equal(sa_report_kind_of_path("b.JSON"), SA_REPORT_TEXT);
    assert_int_equal(sa_report_kind_of_path("json"), SA_REPORT_TEXT);
    assert_int_equal(sa_report_kind_of_path(".json"),
                     SA_REPORT_TEXT); /* a name without an ending */
    assert_int_equal(sa_report_kind_of_path(""), SA_REPORT_TEXT);
}

/* A buffer of any length is filled up to its end and not beyond. */
static void test_report_keeps_to_a_short_buffer(void **state)
{
    const char *whole = strdup(format());
    char buf[3000];

    (void)state;
    for (size_t cap = 1; cap + 8 < sizeof(buf); cap += 37) {
        struct sa_fmt f;

        memset(buf, 0x5a, sizeof(buf));
        sa_fmt_init(&f, buf, cap);
        sa_report_format(&f);
        assert_true(f.truncated);
        assert_int_equal(strlen(buf), cap - 1);
        for (size_t i = cap; i < sizeof(buf); i++)
            assert_int_equal(buf[i], 0x5a);
        assert_memory_equal(buf, whole, sa_min(cap - 1, 100)); /* the numbers may differ */
    }
    free((char *)whole);
}

static void test_report_goes_to_a_file_descriptor(void **state)
{
    static char text[1 << 20];
    int ends[2];
    ssize_t n = 0, len = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    assert_int_equal(sa_report_write(ends[1]), 0);
    close(ends[1]);
    while ((n = read(ends[0], text + len, sizeof(text) - 1 - (size_t)len)) > 0)
        len += n;
    close(ends[0]);
    text[len] = '\0';
    assert_true(summary_adds_up(text));
    errno = 0;
    assert_int_equal(sa_report_write(-1), -EBADF);
    n = open("/dev/full", O_WRONLY);
    assert_int_equal(sa_report_write((int)n), -ENOSPC);
    assert_int_equal(errno, 0);
    close((int)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_summary_adds_up_at_rest),
        cmocka_unit_test(test_report_classes_add_up_to_the_summary),
        cmocka_unit_test(test_report_cpus_add_up_to_the_summary),
        cmocka_unit_test(test_report_summary_adds_up_under_load),
        cmocka_unit_test(test_report_rows_of_cpus_keep_the_limit),
        cmocka_unit_test(test_report_kind_is_the_ending),
        cmocka_unit_test(test_report_keeps_to_a_short_buffer),
        cmocka_unit_test(test_report_goes_to_a_file_descriptor),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
