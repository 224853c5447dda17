/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are complete or not there: mode, replacement, what is refused, that failures leave
 * nothing, with and without nameless files; and the names made of patterns.
 */
#include "alloc/os/file.h"

#include "test/support/child.h"
#include "test/support/cmocka.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool without_nameless; /* as on a file system that has no O_TMPFILE */
static int write_fails;       /* the next writes give this */

int __real_sa_sys_open(const char *path, int flags, int mode);
int __wrap_sa_sys_open(const char *path, int flags, int mode);
int __wrap_sa_sys_open(const char *path, int flags, int mode)
{
    if (without_nameless && (flags & O_TMPFILE) == O_TMPFILE)
        return -EOPNOTSUPP;
    return __real_sa_sys_open(path, flags, mode);
}

/* One byte at a time, interrupted before each. */
static int write_calls;

long __real_sa_sys_write(int fd, const void *buf, size_t bytes);
long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes);
long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes)
{
    (void)bytes;
    if (write_fails)
        return -write_fails;
    return write_calls++ % 2 ? __real_sa_sys_write(fd, buf, 1) : -EINTR;
}

static char folder[64];
static struct sa_file file;

static int enter_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/salloc-file-XXXXXX");
    write_fails = 0;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static unsigned entries(void)
{
    DIR *d = opendir(folder);
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static int leave_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void check_content(const char *path, const char *content)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, content);
}

static int write_one(const char *path)
{
    int failed = sa_file_begin(&file, path);

    if (failed)
        return failed;
    failed = sa_file_write(&file, "content", 7);
    if (failed) {
        sa_file_abandon(&file);
        return failed;
    }
    return sa_file_commit(&file);
}

static void begin_leaves(const char *path, unsigned before)
{
    assert_int_equal(sa_file_begin(&file, path), 0);
    assert_int_equal(sa_file_write(&file, "half", 4), 0);
    assert_true(access(path, F_OK) != 0);
    sa_file_abandon(&file);
    assert_int_equal(entries(), before);
}

static void check_both_ways(void (*check)(void))
{
    for (int i = 0; i < 2; i++) {
        without_nameless = i;
        check();
        leave_folder(NULL);
        enter_folder(NULL);
    }
    without_nameless = false;
}

static void check_written(void)
{
    struct stat st;

    umask(0);
    assert_int_equal(write_one("new"), 0);
    check_content("new", "content");
    assert_int_equal(stat("new", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(write_one(folder), -EISDIR);
    begin_leaves("other", 1);
    assert_int_equal(entries(), 1);
}

/* Another mode is what is asked for, less the umask. */
static void check_mode(void)
{
    struct stat st;

    umask(027);
    assert_int_equal(sa_file_begin_as(&file, "open", 0644), 0);
    assert_int_equal(sa_file_write(&file, "x", 1), 0);
    assert_int_equal(sa_file_commit(&file), 0);
    assert_int_equal(stat("open", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

static void test_file_mode_is_as_asked_less_the_umask(void **state)
{
    (void)state;
    check_both_ways(check_mode);
}

/* A file has its content, mode 0600 whatever the umask, and no name before it is complete. */
static void test_file_is_complete_or_absent(void **state)
{
    (void)state;
    check_both_ways(check_written);
}

static void check_replaced(void)
{
    FILE *f = fopen("victim", "w");

    assert_non_null(f);
    fputs("precious", f);
    fclose(f);
    assert_int_equal(symlink("victim", "link"), 0);
    assert_int_equal(write_one("link"), 0);
    check_content("victim", "precious");
    check_content("link", "content");
    assert_int_equal(write_one("victim"), 0);
    check_content("victim", "content");
    assert_int_equal(entries(), 2);
}

/* A file or link of the name is replaced; where the link led stays as it was. */
static void test_file_replaces_but_follows_no_link(void **state)
{
    (void)state;
    check_both_ways(check_replaced);
}

/* Links where the temporary names would be lead nowhere: other names are tried. */
static void test_file_temporary_names_may_be_taken(void **state)
{
    (void)state;
    without_nameless = true;
    assert_int_equal(write_one("probe"), 0);
    for (unsigned i = 0; i < 200; i++) {
        char name[64];

        snprintf(name, sizeof(name), ".salloc.%d.%u.tmp", (int)getpid(), i);
        assert_int_equal(symlink("probe", name), 0);
    }
    assert_int_equal(write_one("file"), -EEXIST); /* an enemy: give up */
    assert_int_equal(write_one("file"), 0);       /* now beyond the names taken */
    check_content("probe", "content");
    assert_int_equal(entries(), 202);
    without_nameless = false;
}

static void check_refused(void)
{
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(write_one("pipe"), -EEXIST);
    assert_int_equal(write_one("/dev/full"), -EEXIST);
    assert_int_equal(write_one("/dev/full/x"), -ENOTDIR);
    assert_int_equal(write_one("missing/x"), -ENOENT);
    assert_int_equal(write_one("x/"), -EINVAL);
    assert_int_equal(write_one(""), -EINVAL);
    assert_true(write_one("/proc/x") < 0);
    assert_int_equal(entries(), 1);
}

static void check_links_refused(void)
{
    static const char *const targets[] = {"pipe", "/dev/full", "socket", "second"};
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char link[16], to[16];

    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("/dev/full", "second"), 0);
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        snprintf(link, sizeof(link), "link%zu", i);
        assert_int_equal(symlink(targets[i], link), 0);
        assert_int_equal(write_one(link), -EEXIST);
        assert_true(readlink(link, to, sizeof(to)) > 0);
    }
    assert_int_equal(entries(), 3 + TEST_COUNT(targets));
    close(fd);
}

/* A link that leads to a device, a pipe or a socket is left as it is: in /dev it may be the
 * machine's. */
static void test_file_keeps_links_to_what_is_no_file(void **state)
{
    (void)state;
    check_both_ways(check_links_refused);
}

/* Devices, pipes, folders and places that cannot be written give an error and stay. */
static void test_file_refuses_what_is_no_file(void **state)
{
    (void)state;
    check_both_ways(check_refused);
}

static void check_full(void)
{
    write_fails = ENOSPC;
    assert_int_equal(write_one("x"), -ENOSPC);
    write_fails = 0;
    assert_int_equal(entries(), 0);
}

/* A full disk is an error, and leaves nothing. */
static void test_file_disk_full(void **state)
{
    (void)state;
    check_both_ways(check_full);
}

static void limited(void *unused)
{
    struct rlimit limit = {5, 5};

    (void)unused;
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(sa_file_begin(&file, "x") == 0);
    CHILD_CHECK(sa_file_write(&file, "1234", 4) == 0);
    CHILD_CHECK(sa_file_write(&file, "56", 2) == -EFBIG);
    sa_file_abandon(&file);
    CHILD_CHECK(entries() == 0);
}

/* The process's limit of file sizes gives an error instead of a signal that would end it. */
static void test_file_size_limit_does_not_kill(void **state)
{
    (void)state;
    test_child_passes(limited, NULL);
}

/* The placeholders; those unknown and paths too long are errors. */
static void test_file_patterns(void **state)
{
    char buf[SA_FILE_PATH_MAX], expect[200], pattern[5000];
    unsigned n, next;

    (void)state;
    snprintf(expect, sizeof(expect), "a.%d.test_file.%%.b", (int)getpid());
    assert_int_equal(sa_file_expand("a.%p.%e.%%.b", buf, sizeof(buf)), 0);
    assert_string_equal(buf, expect);
    assert_int_equal(sa_file_expand("%n", buf, sizeof(buf)), 0);
    assert_int_equal(sscanf(buf, "%u", &n), 1);
    assert_int_equal(sa_file_expand("%n", buf, sizeof(buf)), 0);
    assert_int_equal(sscanf(buf, "%u", &next), 1);
    assert_int_equal(next, n + 1);
    assert_int_equal(sa_file_expand("%x", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_expand("a%", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_expand("", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_check_pattern("%p%e%n%%"), 0);
    assert_int_equal(sa_file_check_pattern("%%%"), -EINVAL);
    assert_int_equal(sa_file_expand("%p", buf, 1), -ENAMETOOLONG);
    memset(pattern, 'x', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    assert_int_equal(sa_file_expand(pattern, buf, sizeof(buf)), -ENAMETOOLONG);
    assert_int_equal(sa_file_begin(&file, pattern), -ENAMETOOLONG);
    pattern[300] = '\0';
    assert_int_equal(write_one(pattern), -ENAMETOOLONG);
    pattern[255] = '\0'; /* the longest name has room for a temporary one, too */
    assert_int_equal(write_one(pattern), 0);
    assert_int_equal(entries(), 1);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_file_is_complete_or_absent),
        IN_FOLDER(test_file_mode_is_as_asked_less_the_umask),
        IN_FOLDER(test_file_replaces_but_follows_no_link),
        IN_FOLDER(test_file_temporary_names_may_be_taken),
        IN_FOLDER(test_file_refuses_what_is_no_file),
        IN_FOLDER(test_file_keeps_links_to_what_is_no_file),
        IN_FOLDER(test_file_disk_full),
        IN_FOLDER(test_file_size_limit_does_not_kill),
        IN_FOLDER(test_file_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
