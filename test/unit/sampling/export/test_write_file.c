/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile into a file: every ending gives its format, what is not known is refused before
 * anything is made, and wherever it fails (disk, memory) the error is told and nothing stays.
 */
#include "sampling/export/write.h"

#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/folder.h"
#include "test/support/made_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long room = -1; /* bytes until the disk is full */

long __real_sa_sys_write(int fd, const void *buf, size_t bytes);
long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes);
long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes)
{
    long n;

    if (room == 0)
        return -ENOSPC;
    n = __real_sa_sys_write(fd, buf, room > 0 && bytes > (size_t)room ? (size_t)room : bytes);
    if (room > 0)
        room -= n;
    return n;
}

static int begin(void **state)
{
    sa_vm_init();
    test_faults_clear();
    return enter_folder(state);
}

static const struct {
    const char *path, *begins;
} formats[] = {
    {"x.pb.gz", "\x1f\x8b"},       {"x.pb", "\x32"}, /* the string table */
    {"x.heap", "heap profile:"},   {"x.jeprof", "heap_v2/1\n"},
    {"x.collapsed", "made_root;"}, {"x.folded", "made_root;"},
    {"x.txt", "salloc "},
};

/* Each ending, with any type of profile, and for one without rows. */
static void test_write_file_endings(void **state)
{
    (void)state;
    for (int type = 0; type <= SALLOC_PROFILE_LIFETIMES; type++)
        for (size_t i = 0; i < TEST_COUNT(formats); i++) {
            char text[16] = "";
            struct stat st;
            int fd;

            assert_int_equal(sa_profile_write_file(made_profile_empty(type), formats[i].path), 0);
            assert_int_equal(sa_profile_write_file(made_profile(type), formats[i].path), 0);
            fd = open(formats[i].path, O_RDONLY);
            assert_true(fd >= 0 && fstat(fd, &st) == 0);
            assert_int_equal(st.st_mode & 07777, 0600);
            assert_true(read(fd, text, sizeof(text) - 1) > 0);
            assert_memory_equal(text, formats[i].begins, strlen(formats[i].begins));
            close(fd);
        }
    assert_int_equal(entries(), TEST_COUNT(formats));
}

/* Endings and placeholders that are not known, and paths that lead nowhere. */
static void test_write_file_refuses(void **state)
{
    static const char *const wrong[] = {"",      "x",    "x.gz",  "x.pb.gzip", "x.html", "x.PB",
                                        "%x.pb", "%.pb", "x.pb%", "x.txt%n",   "txt"};
    static const char *const right[] = {"x.pb", "%p.%e.%n.txt", "%%.heap", ".pb", "a/b.folded"};
    const struct sa_profile *profile = made_profile(SALLOC_PROFILE_HEAP);

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_int_equal(sa_profile_check_path(wrong[i]), -EINVAL);
        assert_int_equal(sa_profile_write_file(profile, wrong[i]), -EINVAL);
    }
    for (size_t i = 0; i < TEST_COUNT(right); i++)
        assert_int_equal(sa_profile_check_path(right[i]), 0);
    assert_int_equal(sa_profile_write_file(profile, "a/b.folded"), -ENOENT);
    assert_int_equal(mkdir("folder.pb", 0700), 0);
    assert_int_equal(sa_profile_write_file(profile, "folder.pb"), -EISDIR);
    assert_int_equal(entries(), 1);
}

/* A descriptor: the table unless an ending says otherwise, and whole, since it is not stderr. */
static void test_write_file_descriptor(void **state)
{
    static const struct {
        const char *ending, *begins;
    } endings[] = {{"", "salloc "}, {".pb.gz", "\x1f\x8b"}, {".folded", "made_root;"}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(endings); i++) {
        char name[32], text[16] = "";
        int fd = open("log", O_RDWR | O_CREAT | O_TRUNC, 0600);

        snprintf(name, sizeof(name), "fd:%d%s", fd, endings[i].ending);
        assert_int_equal(sa_profile_check_path(name), 0);
        assert_int_equal(sa_profile_write_file(made_profile(SALLOC_PROFILE_HEAP), name), 0);
        assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
        assert_memory_equal(text, endings[i].begins, strlen(endings[i].begins));
        assert_int_equal(close(fd), 0); /* still open */
    }
    assert_int_equal(sa_profile_check_path("fd:3.xyz"), -EINVAL);
    assert_int_equal(sa_profile_write_file(made_profile(SALLOC_PROFILE_HEAP), "/proc/self/fd/999"),
                     -EBADF);
    assert_int_equal(entries(), 1);
}

/* A disk that is full at once, or after the first block. */
static void test_write_file_disk_full(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(formats); i++)
        for (room = 0; room <= 20; room += 20) {
            long kept = room;

            assert_int_equal(
                sa_profile_write_file(made_profile(SALLOC_PROFILE_HEAP), formats[i].path), -ENOSPC);
            room = kept;
        }
    room = -1;
    assert_int_equal(entries(), 0);
}

/* Memory that ends at each of the places where some is needed. */
static void test_write_file_without_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(formats); i++) {
        long after = 0;
        int failed;

        do {
            test_faults_clear();
            test_faults.mmap_after = after++;
            failed = sa_profile_write_file(made_profile(SALLOC_PROFILE_HEAP), formats[i].path);
            test_faults_clear();
            assert_true(failed == 0 || failed == -ENOMEM);
            assert_int_equal(entries(), i + !failed);
        } while (failed);
        assert_true(after > 3);
    }
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, begin, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(test_write_file_endings),        FRESH(test_write_file_refuses),
        FRESH(test_write_file_descriptor),     IN_FOLDER(test_write_file_disk_full),
        FRESH(test_write_file_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
