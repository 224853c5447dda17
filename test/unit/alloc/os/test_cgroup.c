/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of control groups: the least of all groups above, of both versions; where files are
 * missing, cut, hostile or do not fit each other there is no limit, and nothing worse.
 *
 * The files of /proc and of the groups are the test's, in a folder of its own.
 */
#include "alloc/os/cgroup.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (1ull << 20)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[4096 + 128], *slash;
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "/tmp/salloc-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    return system(command) == 0 ? 0 : -1;
}

static void assert_limits(uint64_t max, uint64_t high)
{
    struct sa_cgroup_limits limits;

    sa_cgroup_read_limits(root, &limits);
    assert_int_equal(limits.max, max);
    assert_int_equal(limits.high, high);
}

#define NONE SA_CGROUP_NONE

#define MOUNT_V2 "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

static void begin_v2(void)
{
    put("/proc/self/cgroup", "0::/system.slice/app.service\n");
    put("/proc/self/mountinfo", "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n" MOUNT_V2
                                "40 22 0:40 / /tmp rw - tmpfs tmpfs rw\n");
}

static void test_cgroup_v2_takes_the_least_of_the_groups_above(void **state)
{
    char folder[SA_CGROUP_PATH_MAX], expected[256];

    (void)state;
    begin_v2();
    assert_limits(NONE, NONE); /* no files yet */
    put("/sys/fs/cgroup/system.slice/app.service/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/app.service/memory.high", "max\n");
    assert_limits(NONE, NONE);
    put("/sys/fs/cgroup/system.slice/app.service/memory.max", "1073741824\n");
    assert_limits(1024 * MIB, NONE);
    put("/sys/fs/cgroup/system.slice/memory.max", "536870912\n");
    put("/sys/fs/cgroup/system.slice/memory.high", "805306368\n");
    assert_limits(512 * MIB, 768 * MIB);
    put("/sys/fs/cgroup/memory.max", "268435456");
    put("/sys/fs/cgroup/system.slice/app.service/memory.high", "419430400\n");
    assert_limits(256 * MIB, 400 * MIB);
    assert_true(sa_cgroup_folder(root, folder));
    snprintf(expected, sizeof(expected), "%s/sys/fs/cgroup/system.slice/app.service", root);
    assert_string_equal(folder, expected);
}

static void test_cgroup_v1_and_both(void **state)
{
    char folder[SA_CGROUP_PATH_MAX];

    (void)state;
    put("/proc/self/cgroup",
        "12:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/0123\n1:name=systemd:/b\n");
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw master:9 - cgroup cgroup rw,hugetlb,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_limits(NONE, NONE);
    put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "314572800\n");
    assert_limits(300 * MIB, NONE);
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "209715200\n");
    assert_limits(200 * MIB, NONE);
    assert_false(sa_cgroup_folder(root, folder));
    /* A hierarchy of version 2 beside it, as systemd has it. */
    put("/proc/self/cgroup", "4:memory:/docker/0123\n0::/x\n");
    put("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/unified/x/memory.max", "104857600\n");
    assert_limits(100 * MIB, NONE);
}

/* In a container, the mount may begin at the process's group, or /proc may name one that cannot be
 * seen. */
static void test_cgroup_mounts_that_show_a_part(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/docker/0123/child\n");
    put("/proc/self/mountinfo",
        "31 23 0:28 /docker/9999 /other rw - cgroup2 cgroup2 rw\n"
        "33 23 0:28 /docker/0123 /sys/fs/c\\040group\\134x rw a:1 b:2 - cgroup2 none rw\n");
    put("/other/memory.max", "10485760\n");
    put("/sys/fs/c group\\x/child/memory.max", "41943040\n");
    assert_limits(40 * MIB, NONE);
    put("/sys/fs/c group\\x/memory.max", "31457280\n");
    assert_limits(30 * MIB, NONE);
    put("/proc/self/cgroup", "0::/../elsewhere\n");
    assert_limits(10 * MIB, NONE); /* the first mount point is as near as anything */
    put("/proc/self/cgroup", "0::/docker/01234\n"); /* not below /docker/0123 */
    assert_limits(10 * MIB, NONE);
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/memory.high", "20971520\n");
    assert_limits(NONE, 20 * MIB);
}

static void assert_room(uint64_t limit, int64_t room)
{
    struct sa_cgroup_room r;
    struct sa_cgroup g;

    sa_cgroup_find(&g, root);
    sa_cgroup_read_room(&g, &r);
    assert_int_equal(r.limit, limit);
    assert_int_equal(r.room, room);
}

/* Of the group that has least left; where it is little, cached files are no obstacle, those in use
 * by a half. */
static void test_cgroup_room_is_the_least_of_all(void **state)
{
    (void)state;
    begin_v2();
    assert_room(NONE, INT64_MAX);
    put("/sys/fs/cgroup/system.slice/app.service/memory.max", "104857600\n");
    put("/sys/fs/cgroup/system.slice/app.service/memory.current", "20971520\n");
    assert_room(100 * MIB, 80 * MIB);
    put("/sys/fs/cgroup/system.slice/memory.high", "209715200\n");
    put("/sys/fs/cgroup/system.slice/memory.current", "199229440\n");
    assert_room(200 * MIB, 10 * MIB);
    put("/sys/fs/cgroup/system.slice/memory.stat",
        "anon 7\ninactive_file 4194304\nactive_file 4194304\nunevictable 9999\n");
    assert_room(200 * MIB, 16 * MIB);
    put("/sys/fs/cgroup/system.slice/memory.current", "220200960\n");
    assert_room(200 * MIB, -4 * (int64_t)MIB);
    put("/proc/self/cgroup", "4:memory:/docker/0123\n");
    put("/proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "94371840\n");
    put("/sys/fs/cgroup/memory/docker/memory.stat",
        "inactive_file 9\ntotal_inactive_file 1048576\ntotal_active_file 2097152\n");
    assert_room(100 * MIB, 12 * MIB);
}

static void test_cgroup_limits_that_make_no_sense(void **state)
{
    static const char *const texts[] = {
        "",
        "\n",
        "0\n",
        "-1\n",
        "1048575\n",
        "12x\n",
        "0x40000000\n",
        " 1073741824\n",
        "1073741824 \n",
        "max1\n",
        "99999999999999999999999999999999999999\n",
        "4611686018427387904\n",
        "1e9\n",
    };

    (void)state;
    begin_v2();
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        put("/sys/fs/cgroup/system.slice/app.service/memory.max", texts[i]);
        assert_limits(NONE, NONE);
    }
    put("/sys/fs/cgroup/system.slice/app.service/memory.max", "1048576\n");
    assert_limits(MIB, NONE);
}

static void test_cgroup_files_missing_or_hostile(void **state)
{
    static char text[70000];
    struct test_random r = {1};
    struct sa_cgroup_limits limits;

    (void)state;
    assert_limits(NONE, NONE);
    put("/proc/self/cgroup", "0::/a\n");
    assert_limits(NONE, NONE);
    put("/proc/self/cgroup", "");
    put("/proc/self/mountinfo", "");
    assert_limits(NONE, NONE);
    /* Lines longer than any buffer are left out, what follows counts. */
    begin_v2();
    memset(text, 'x', 50000);
    strcpy(text + 50000, "\n" MOUNT_V2);
    put("/proc/self/mountinfo", text);
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    assert_limits(100 * MIB, NONE);
    memset(text, '/', 5000);
    memcpy(text, "0::", 3);
    strcpy(text + 5000, "\n0::/\n");
    put("/proc/self/cgroup", text);
    assert_limits(100 * MIB, NONE);
    /* Parts of real lines, put together at random. */
    for (int i = 0; i < 3000; i++) {
        static const char pieces[][16] = {
            "0::",      "/",       "4:memory:", ":",     " ",  "\n", "31 23 0:28 ", "- ",
            "cgroup2 ", "cgroup ", "rw,memory", "\\040", "\\", "..", "a",           "/sys"};
        size_t len = 0;

        for (int k = 0; k < 40; k++) {
            const char *piece = pieces[test_random_below(&r, TEST_COUNT(pieces))];

            strcpy(text + len, piece);
            len += strlen(piece);
        }
        put(i % 2 ? "/proc/self/mountinfo" : "/proc/self/cgroup", text);
        sa_cgroup_read_limits(root, &limits);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_cgroup_v2_takes_the_least_of_the_groups_above),
        TEST(test_cgroup_v1_and_both),
        TEST(test_cgroup_mounts_that_show_a_part),
        TEST(test_cgroup_room_is_the_least_of_all),
        TEST(test_cgroup_limits_that_make_no_sense),
        TEST(test_cgroup_files_missing_or_hostile),
    };

    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
