/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of processes: it holds while they have not run, for a time, and files keep it. */
#include "tool/reading/sweep_cache.h"

#include "test/support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct sa_sweep_moment first = {10, 1000, 1}, second = {20, 2000, 2};

static void fill(struct sa_sweep_cache *cache)
{
    assert_true(sa_sweep_cache_add(cache, &first, SA_EXIT_DONE, "one", 3));
    assert_true(sa_sweep_cache_add(cache, &second, SA_EXIT_NOT_ON_IT, NULL, 0));
}

static void test_holds_until_the_process_runs(void **state)
{
    struct sa_sweep_cache cache = {.count = 0};
    struct sa_sweep_moment now = first;
    const struct sa_sweep_cache_entry *entry;

    (void)state;
    fill(&cache);
    now.read_ns += 1000;
    entry = sa_sweep_cache_find(&cache, &now);
    assert_non_null(entry);
    assert_int_equal(entry->bytes, 3);
    assert_memory_equal(entry->data, "one", 3);
    now.cpu_ns++;
    assert_null(sa_sweep_cache_find(&cache, &now)); /* it has run */
    now.cpu_ns--;
    now.pid = 15;
    assert_null(sa_sweep_cache_find(&cache, &now));
    now.pid = 30;
    assert_null(sa_sweep_cache_find(&cache, &now));
    sa_sweep_cache_free(&cache);
}

static void test_holds_for_a_time(void **state)
{
    struct sa_sweep_cache cache = {.count = 0};
    struct sa_sweep_moment now = first;

    (void)state;
    fill(&cache);
    now.read_ns = first.read_ns + SA_SWEEP_CACHE_SECONDS * INT64_C(1000000000) - 1;
    assert_non_null(sa_sweep_cache_find(&cache, &now));
    now.read_ns++;
    assert_null(sa_sweep_cache_find(&cache, &now));
    now.read_ns = first.read_ns - 1;
    assert_null(sa_sweep_cache_find(&cache, &now));
    sa_sweep_cache_free(&cache);
}

static void test_errors_are_not_kept(void **state)
{
    struct sa_sweep_cache cache = {.count = 0};

    (void)state;
    assert_true(sa_sweep_cache_add(&cache, &first, SA_EXIT_DAMAGED, "text", 4));
    assert_true(sa_sweep_cache_add(&cache, &first, SA_EXIT_REFUSED, "text", 4));
    assert_int_equal(cache.count, 0);
    sa_sweep_cache_free(&cache);
}

static void test_moves(void **state)
{
    struct sa_sweep_cache cache = {.count = 0}, next = {.count = 0}, last = {.count = 0};
    int file = memfd_create("sweep_cache", 0);

    (void)state;
    fill(&cache);
    assert_true(sa_sweep_cache_save(&cache, file));
    sa_sweep_cache_load(&next, file);
    assert_true(sa_sweep_cache_move(&last, &next.of[0])); /* lies in the mapping */
    assert_true(sa_sweep_cache_add(&last, &second, SA_EXIT_DONE, "two", 3));
    sa_sweep_cache_pass(&next, &last);
    assert_int_equal(next.count, 0);
    assert_memory_equal(last.of[0].data, "one", 3);
    assert_memory_equal(last.of[1].data, "two", 3);
    sa_sweep_cache_free(&last);
    sa_sweep_cache_free(&cache);
    close(file);
}

/* Files that are cut anywhere, or changed anywhere: what is left has order and bounds. */
static void test_bad_files(void **state)
{
    char bytes[400];
    struct sa_sweep_cache cache = {.count = 0};
    int file = memfd_create("sweep_cache", 0);
    ssize_t size;
    unsigned seed = 1;

    (void)state;
    fill(&cache);
    assert_true(sa_sweep_cache_save(&cache, file));
    size = pread(file, bytes, sizeof(bytes), 0);
    assert_in_range(size, 10, sizeof(bytes) - 1);
    for (int round = 0; round < 4000; round++) {
        struct sa_sweep_cache read = {.count = 0};
        size_t cut = (size_t)rand_r(&seed) % (size_t)(size + 1), sum = 0;
        char changed[sizeof(bytes)];

        memcpy(changed, bytes, (size_t)size);
        if (round % 2)
            changed[(size_t)rand_r(&seed) % (size_t)size] = (char)rand_r(&seed);
        else
            assert_return_code(ftruncate(file, (off_t)cut), 0);
        assert_true(pwrite(file, changed, round % 2 ? (size_t)size : cut, 0) >= 0);
        sa_sweep_cache_load(&read, file);
        assert_in_range(read.count, 0, 2);
        for (size_t i = 0; i < read.count; i++) {
            for (size_t at = 0; at < read.of[i].bytes; at++)
                sum += (unsigned char)read.of[i].data[at];
            assert_true(i == 0 || read.of[i - 1].at.pid < read.of[i].at.pid);
        }
        assert_true(sum <= 255 * sizeof(bytes));
        sa_sweep_cache_free(&read);
    }
    sa_sweep_cache_free(&cache);
    close(file);
}

static void test_this_process_runs(void **state)
{
    struct sa_sweep_moment before, after;

    (void)state;
    assert_true(sa_sweep_moment_of(getpid(), &before));
    for (volatile int i = 0; i < 1000000; i++)
        continue;
    assert_true(sa_sweep_moment_of(getpid(), &after));
    assert_true(after.cpu_ns > before.cpu_ns && after.read_ns > before.read_ns);
    /* The kernel has no higher PIDs. */
    assert_false(sa_sweep_moment_of(1 << 22, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds_until_the_process_runs),
        cmocka_unit_test(test_holds_for_a_time),
        cmocka_unit_test(test_errors_are_not_kept),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_this_process_runs),
    };

    return cmocka_run_group_tests_name("sweep_cache", tests, NULL, NULL);
}
