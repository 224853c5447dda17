/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group's limit, followed by default: nothing is read while little is in use, behind a
 * filter, or once it is known that there is nothing to read; far from the limit nothing is
 * different; near it what is free goes back until the reserve is there again; the limit may change,
 * and a limit of the program's own wins. Each case runs in a child.
 *
 * The files of /proc and of the groups are the test's, in a folder of its own, and so is the time.
 */
#include "alloc/maintain/group_limit.h"

#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/os/filter.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB    (1ul << 20)
#define BLOCK  (64ul << 10)
#define OTHERS (8 * MIB) /* what the group has in use beside the heap */
#define LIMIT  (128 * MIB)
#define SECOND 1000000000ull

#define GROUP "/sys/fs/cgroup/a/b"

uint64_t __real_sa_vdso_clock_ns(int clock);
uint64_t __wrap_sa_vdso_clock_ns(int clock);

static uint64_t time_ns = 1000 * SECOND;

uint64_t __wrap_sa_vdso_clock_ns(int clock)
{
    (void)clock;
    return time_ns;
}

static char root[32];

/* Never empty in between: some file systems write a file that was truncated to disk at once. */
static void put(const char *path, const char *text)
{
    char full[256], *slash;
    ssize_t length = (ssize_t)strlen(text);
    int f;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    f = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(f >= 0);
    assert_true(write(f, text, (size_t)length) == length && ftruncate(f, length) == 0);
    close(f);
}

static void put_number(const char *path, size_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%zu\n", number);
    put(path, text);
}

static bool version_1;

/* All that was handed out is touched, as far as the made-up kernel goes. */
static void put_usage(void)
{
    size_t used = sa_footprint_bytes();
    char text[64];

    put_number(version_1 ? "/mem/a/b/memory.usage_in_bytes" : GROUP "/memory.current",
               used + OTHERS);
    snprintf(text, sizeof(text), "1000000 %zu 0 1 0 1000 0\n", used / sa_vm.page_bytes);
    put("/proc/self/statm", text);
}

static void put_limit(size_t bytes)
{
    put_number(version_1 ? "/mem/a/b/memory.limit_in_bytes" : GROUP "/memory.max", bytes);
}

static void begin(void)
{
    strcpy(root, "/tmp/salloc-group-XXXXXX");
    assert_non_null(mkdtemp(root));
    if (version_1) {
        put("/proc/self/cgroup", "4:memory:/a/b\n0::/\n");
        put("/proc/self/mountinfo", "35 31 0:32 / /mem rw - cgroup cgroup rw,memory\n");
        put_number("/mem/a/memory.limit_in_bytes", 9223372036854771712ul);
        put("/mem/a/b/memory.stat", "cache 5\ninactive_file 500000000\ntotal_inactive_file 0\n");
    } else {
        put("/proc/self/cgroup", "0::/a/b\n");
        put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("/sys/fs/cgroup/a/memory.max", "max\n");
        put(GROUP "/memory.high", "max\n");
        put(GROUP "/memory.stat", "anon 1\nfile 2\n");
    }
    put_limit(LIMIT);
    test_start(TEST_CACHE_LIMIT);
    put_usage();
    sa_group_limit_set_root(root);
    sa_limits.watch = SA_WATCH_FIRST_BYTES >> SA_PAGE_SHIFT;
}

static void end(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r '%s'", root);
    CHILD_CHECK(system(command) == 0);
}

static struct sa_group_limit_stats stats(void)
{
    struct sa_group_limit_stats s;

    sa_group_limit_stats(&s);
    return s;
}

static void *blocks[4096];
static size_t count;

/* Grows, in small steps, until so much is in use; the most that the footprint was meanwhile. */
static size_t grow(size_t bytes)
{
    size_t max = 0;

    while (count * BLOCK < bytes) {
        blocks[count] = sa_front_alloc(BLOCK, 1, false);
        CHILD_CHECK(blocks[count] != NULL);
        count++;
        max = sa_footprint_bytes() > max ? sa_footprint_bytes() : max;
        put_usage();
        time_ns += 1000000;
    }
    return max;
}

static void shrink(size_t bytes)
{
    while (count * BLOCK > bytes) {
        sa_front_free(blocks[--count]);
        put_usage();
    }
}

/* So much later somebody comes by. */
static void later(uint64_t ns)
{
    time_ns += ns;
    for (int i = 0; i < 4; i++) { /* other work, of the same pass, goes first */
        sa_front_free(sa_front_alloc(BLOCK * 2, 1, false));
        put_usage();
    }
}

/* Small programs do not pay; what is far from its limit is as ever. */
static void far_away(void *unused)
{
    (void)unused;
    begin();
    grow(12 * MIB);
    CHILD_CHECK(stats().looks == 0 && !sa_limits_active());
    grow(24 * MIB);
    CHILD_CHECK(stats().looks == 1 && !sa_limits_active());
    CHILD_CHECK(stats().limit_bytes == LIMIT);
    grow(64 * MIB);
    CHILD_CHECK(stats().looks >= 2 && stats().looks < 10 && !sa_limits_active());
    CHILD_CHECK(sa_limits_get(SA_LIMIT_SOFT) == SA_NO_LIMIT);
    end();
}

/* What the group has beside the heap, and the reserve of 1/16, stay free for as long as memory can
 * go back. */
static void near_the_limit(void *unused)
{
    const size_t max = LIMIT - LIMIT / 16 - OTHERS;
    static void *longer[200];
    size_t peak = 0, all;

    (void)unused;
    begin();
    grow(max - 8 * MIB);
    all = count;
    CHILD_CHECK(sa_limits_active() && stats().soft_bytes != 0);
    CHILD_CHECK(sa_limits_own(SA_LIMIT_SOFT) == SA_NO_LIMIT);
    CHILD_CHECK(!sa_limits_plenty(1));
    for (int i = 0; i < 4;
         i++) { /* what one turn leaves free is of no use to the other: holes are too short */
        for (size_t k = 0; k < all; k += 2)
            sa_front_free(blocks[k]);
        put_usage();
        for (int k = 0; k < 200; k++) {
            longer[k] = sa_front_alloc(200000, 1, false);
            peak = sa_footprint_bytes() > peak ? sa_footprint_bytes() : peak;
            put_usage();
            time_ns += 1000000;
        }
        for (int k = 0; k < 200; k++)
            sa_front_free(longer[k]);
        put_usage();
        for (size_t k = 0; k < all; k += 2) {
            blocks[k] = sa_front_alloc(BLOCK, 1, false);
            peak = sa_footprint_bytes() > peak ? sa_footprint_bytes() : peak;
            put_usage();
        }
    }
    CHILD_CHECK(peak <= max + LIMIT / 64);
    CHILD_CHECK(sa_limits.released_bytes[SA_LIMIT_SOFT] > 0);
    end();
}

/* Of the limit that is nearest, of all groups above; memory.high is one; cached files go before the
 * heap does. */
static void others_of_the_group(void *unused)
{
    (void)unused;
    begin();
    grow(24 * MIB);
    CHILD_CHECK(stats().looks == 1 && stats().room_bytes > 64 * MIB);
    put_number("/sys/fs/cgroup/a/memory.high", 1024 * MIB);
    put_number("/sys/fs/cgroup/a/memory.current", 1020 * MIB);
    later(2 * SECOND + 1);
    CHILD_CHECK(stats().limit_bytes == 1024 * MIB && stats().room_bytes == 4 * MIB);
    CHILD_CHECK(sa_limits_active() && stats().soft_bytes < sa_footprint_bytes());
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 419430400\nactive_file 209715200\n");
    later(SECOND);
    CHILD_CHECK(stats().limit_bytes == LIMIT && !sa_limits_active());
    end();
}

static void limit_changes(void *unused)
{
    size_t before;

    (void)unused;
    begin();
    grow(80 * MIB);
    shrink(40 * MIB);
    before = sa_footprint_bytes();
    CHILD_CHECK(!sa_limits_active() && before > 48 * MIB);
    put_limit(64 * MIB);
    later(2 * SECOND + 1);
    CHILD_CHECK(sa_limits_active());
    CHILD_CHECK(sa_footprint_bytes() <= 64 * MIB - 4 * MIB - OTHERS + MIB);
    put_limit(256 * MIB);
    later(SECOND);
    CHILD_CHECK(!sa_limits_active() && stats().limit_bytes == 256 * MIB);
    put(version_1 ? "/mem/a/b/memory.limit_in_bytes" : GROUP "/memory.max",
        version_1 ? "9223372036854771712\n" : "max\n");
    later(2 * SECOND + 1);
    CHILD_CHECK(stats().limit_bytes == 0 && sa_limits.watch == 0);
    put_limit(56 * MIB);
    later(8 * SECOND + 1);
    CHILD_CHECK(sa_limits_active());
    end();
}

static void own_limit_wins(void *unused)
{
    (void)unused;
    begin();
    grow(104 * MIB);
    CHILD_CHECK(stats().soft_bytes != 0);
    sa_limits_set(SA_LIMIT_SOFT, 1024 * MIB);
    CHILD_CHECK(sa_limits_get(SA_LIMIT_SOFT) == 1024 * MIB);
    later(SECOND);
    CHILD_CHECK(stats().soft_bytes == 0 && sa_limits_get(SA_LIMIT_SOFT) == 1024 * MIB);
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
    CHILD_CHECK(!sa_limits_active());
    later(8 * SECOND + 1);
    CHILD_CHECK(stats().soft_bytes != 0 && sa_limits_get(SA_LIMIT_SOFT) == stats().soft_bytes);
    end();
}

static void filter_first(void *unused)
{
    (void)unused;
    begin();
    sa_filter_note();
    grow(100 * MIB);
    later(10 * SECOND);
    CHILD_CHECK(stats().looks == 0 && !sa_limits_active());
    end();
}

/* What was read before the filter came is all that is known. */
static void filter_later(void *unused)
{
    uint64_t looks;

    (void)unused;
    begin();
    grow(24 * MIB);
    looks = stats().looks;
    CHILD_CHECK(looks == 1);
    sa_filter_note();
    grow(100 * MIB);
    later(10 * SECOND);
    CHILD_CHECK(stats().looks == looks);
    CHILD_CHECK(stats().soft_bytes > LIMIT - LIMIT / 16 - OTHERS - MIB);
    CHILD_CHECK(stats().soft_bytes < LIMIT - LIMIT / 16 - OTHERS + MIB);
    end();
}

/* More was handed out than the group may have, and little of it touched: what is left counts. */
static void untouched(void *unused)
{
    void *large;

    (void)unused;
    begin();
    grow(24 * MIB);
    large = sa_front_alloc(1024 * MIB, 1, false);
    CHILD_CHECK(large != NULL);
    put_number(GROUP "/memory.current", 24 * MIB + OTHERS);
    put("/proc/self/statm", "1000000 8000 1000 1 0 1000 0\n");
    later(2 * SECOND + 1);
    put_number(GROUP "/memory.current", 24 * MIB + OTHERS);
    put("/proc/self/statm", "1000000 8000 1000 1 0 1000 0\n");
    time_ns += 3 * SECOND;
    sa_front_free(large);
    CHILD_CHECK(!sa_limits_active());
    end();
}

static void nothing_to_read(void *unused)
{
    char path[128];

    (void)unused;
    begin();
    snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
    CHILD_CHECK(remove(path) == 0);
    grow(80 * MIB);
    later(20 * SECOND);
    later(20 * SECOND);
    CHILD_CHECK(stats().looks == 1 && stats().limit_bytes == 0 && !sa_limits_active());
    end();
}

static void run(bool v1, void (*body)(void *))
{
    version_1 = v1;
    test_child_passes(body, NULL);
}

static void test_nothing_is_different_far_from_the_limit(void **state)
{
    (void)state;
    run(false, far_away);
    run(true, far_away);
}

static void test_memory_goes_back_near_the_limit(void **state)
{
    (void)state;
    run(false, near_the_limit);
    run(true, near_the_limit);
}

static void test_groups_above_and_cached_files_count(void **state)
{
    (void)state;
    run(false, others_of_the_group);
}

static void test_the_limit_may_change(void **state)
{
    (void)state;
    run(false, limit_changes);
    run(true, limit_changes);
}

static void test_a_limit_of_the_programs_own_wins(void **state)
{
    (void)state;
    run(false, own_limit_wins);
}

static void test_nothing_is_read_behind_a_filter(void **state)
{
    (void)state;
    run(false, filter_first);
    run(false, filter_later);
}

static void test_memory_that_was_not_touched_is_no_reason(void **state)
{
    (void)state;
    run(false, untouched);
}

static void test_nothing_is_read_again_where_nothing_is(void **state)
{
    (void)state;
    run(false, nothing_to_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_different_far_from_the_limit),
        cmocka_unit_test(test_memory_goes_back_near_the_limit),
        cmocka_unit_test(test_groups_above_and_cached_files_count),
        cmocka_unit_test(test_the_limit_may_change),
        cmocka_unit_test(test_a_limit_of_the_programs_own_wins),
        cmocka_unit_test(test_nothing_is_read_behind_a_filter),
        cmocka_unit_test(test_memory_that_was_not_touched_is_no_reason),
        cmocka_unit_test(test_nothing_is_read_again_where_nothing_is),
    };

    return cmocka_run_group_tests_name("group_limit", tests, NULL, NULL);
}
