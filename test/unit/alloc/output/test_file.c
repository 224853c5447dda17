/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs: files that are complete or not there, with and without nameless files; what is written
 * to as it is; links; what is refused; that failures leave nothing.
 */
#include "alloc/output/file.h"

#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
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

static struct sa_file file;

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
    assert_int_equal(sa_file_begin_as(&file, "open", 0644, false), 0);
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

static void make_file(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static void check_link(const char *path, const char *target)
{
    char to[64] = "";

    assert_true(readlink(path, to, sizeof(to) - 1) > 0);
    assert_string_equal(to, target);
}

static void check_replaced(void)
{
    make_file("old", "old");
    make_file("other name", "precious");
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(link("other name", "linked"), 0);
    assert_int_equal(symlink("old", "link"), 0);
    assert_int_equal(symlink("../link", "folder/link"), 0);
    assert_int_equal(symlink("new", "dangling"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink(".", "to folder"), 0);
    assert_int_equal(write_one("linked"), 0);
    check_content("other name", "precious"); /* a file with two names loses one */
    assert_int_equal(write_one("link"), 0);
    check_content("old", "content");
    make_file("old", "old");
    assert_int_equal(write_one("folder/link"), 0);
    check_content("old", "content");
    assert_int_equal(write_one("dangling"), 0);
    check_content("new", "content");
    assert_int_equal(write_one("loop"), -ELOOP);
    assert_int_equal(write_one("to folder"), -EISDIR);
    check_link("link", "old");
    check_link("folder/link", "../link");
    check_link("dangling", "new");
    assert_int_equal(entries(), 9);
}

/* A file is replaced, also where a link leads to it; the link stays. */
static void test_file_replaces_files_only(void **state)
{
    (void)state;
    check_both_ways(check_replaced);
}

/* A link of another user decides nothing: neither what is replaced nor what is written to. Root's
 * is like one's own. */
static void test_file_follows_no_link_of_others(void **state)
{
    static const char *const targets[] = {"victim", "pipe", "/dev/null", "nothing"};

    (void)state;
    if (geteuid() != 0)
        TEST_SKIP("needs root to be two users");
    make_file("victim", "precious");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        assert_int_equal(symlink(targets[i], "link"), 0);
        assert_int_equal(lchown("link", 65534, 65534), 0);
        assert_int_equal(write_one("link"), -ELOOP);
        check_link("link", targets[i]);
        assert_int_equal(unlink("link"), 0);
    }
    check_content("victim", "precious");
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(symlink("victim", "link"), 0);
    assert_int_equal(seteuid(65534), 0);
    assert_int_equal(write_one("link"), 0);
    assert_int_equal(seteuid(0), 0);
    check_content("victim", "content");
    assert_int_equal(entries(), 3);
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
    assert_int_equal(write_one("/dev/full/x"), -ENOTDIR);
    assert_int_equal(write_one("missing/x"), -ENOENT);
    assert_int_equal(write_one("x/"), -EINVAL);
    assert_int_equal(write_one(""), -EINVAL);
    assert_int_equal(write_one("/proc/self/fd"), -EISDIR);
    assert_int_equal(write_one("/proc/self/exe"), -EEXIST);
    assert_true(write_one("/proc/x") < 0);
    assert_int_equal(entries(), 0);
}

/* Folders, open files of others and places that cannot be written give an error and stay. */
static void test_file_refuses_what_is_no_place(void **state)
{
    (void)state;
    check_both_ways(check_refused);
}

static void expect_content(int fd)
{
    char text[64] = "";

    assert_int_equal(read(fd, text, sizeof(text) - 1), 7);
    assert_string_equal(text, "content");
}

/* A pipe gets the bytes; without a reader it is an error, and nobody waits. A trial does not open
 * it: that would end the wait of a reader. */
static void test_file_writes_to_pipes(void **state)
{
    struct stat st;
    int fd;

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("pipe", "link"), 0);
    assert_int_equal(write_one("pipe"), -ENXIO);
    assert_int_equal(sa_file_try(&file, "pipe"), 0);
    fd = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_int_equal(sa_file_try(&file, "link"), 0);
    assert_int_equal(write_one("pipe"), 0);
    expect_content(fd);
    assert_int_equal(write_one("link"), 0);
    expect_content(fd);
    close(fd);
    assert_int_equal(lstat("pipe", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    check_link("link", "pipe");
}

/* A device gets the bytes, and stays a device. */
static void test_file_writes_to_devices(void **state)
{
    static const char *const devices[] = {"/dev/full", "full", "/dev/null", "null"};
    struct stat st;

    (void)state;
    assert_int_equal(symlink("/dev/full", "full"), 0);
    assert_int_equal(symlink("/dev/null", "null"), 0);
    for (size_t i = 0; i < TEST_COUNT(devices); i++) {
        assert_int_equal(write_one(devices[i]), i < 2 ? -ENOSPC : 0);
        assert_true(sa_file_is_direct(&file, devices[i]));
        assert_int_equal(stat(devices[i], &st), 0);
        assert_true(S_ISCHR(st.st_mode));
    }
    assert_false(sa_file_is_direct(&file, "file"));
}

/* A socket gets the bytes over a connection; without a listener it is an error. */
static void test_file_writes_to_sockets(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), peer;
    struct stat st;

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(symlink("socket", "link"), 0);
    assert_int_equal(write_one("socket"), -ECONNREFUSED);
    assert_int_equal(listen(fd, 2), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write_one(i ? "link" : "socket"), 0);
        peer = accept(fd, NULL, NULL);
        expect_content(peer);
        assert_int_equal(read(peer, &st, 1), 0);
        close(peer);
    }
    close(fd);
    assert_int_equal(lstat("socket", &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
}

/* A path in /proc or /dev that is a descriptor of this process: also of a file, a socket, and by
 * links. It is written where it stands, and stays open. */
static void test_file_writes_to_descriptors(void **state)
{
    int file_fd = open("log", O_RDWR | O_CREAT, 0600), ends[2];
    char path[64];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    assert_int_equal(symlink(path, "link"), 0);
    assert_int_equal(write_one("link"), 0);
    expect_content(ends[1]);
    snprintf(path, sizeof(path), "/dev/fd/%d", file_fd);
    assert_int_equal(write(file_fd, "first ", 6), 6);
    assert_int_equal(write_one(path), 0);
    assert_int_equal(write(file_fd, " last", 5), 5);
    check_content("log", "first content last");
    assert_int_equal(sa_file_leads_to(&file, "link"), ends[0]);
    assert_int_equal(sa_file_leads_to(&file, "log"), -1);
    close(file_fd);
    assert_int_equal(write_one(path), -EBADF);
    file_fd = open("log", O_RDONLY);
    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", file_fd);
    assert_int_equal(write_one(path), -EBADF);
    close(file_fd);
    close(ends[0]);
    close(ends[1]);
}

/* Another process's descriptor: its pipe is a pipe, its file is its own. */
static void test_file_descriptors_of_others(void **state)
{
    int fd = open("log", O_WRONLY | O_CREAT, 0600), ends[2];
    char path[64];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, ends[1]);
    assert_int_equal(write_one(path), 0);
    expect_content(ends[0]);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, fd);
    assert_int_equal(write_one(path), -EEXIST);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* What came to have the name while the file was written is not replaced either. */
static void check_late(void)
{
    struct stat st;

    assert_int_equal(sa_file_begin(&file, "x"), 0);
    assert_int_equal(mkfifo("x", 0600), 0);
    assert_int_equal(sa_file_commit(&file), -EEXIST);
    assert_int_equal(lstat("x", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(entries(), 1);
}

static void test_file_replaces_no_late_pipe(void **state)
{
    (void)state;
    check_both_ways(check_late);
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

/* A path may be too long, as a whole or in its last part. */
static void test_file_long_names(void **state)
{
    char name[5000];

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(sa_file_begin(&file, name), -ENAMETOOLONG);
    name[300] = '\0';
    assert_int_equal(write_one(name), -ENAMETOOLONG);
    name[255] = '\0'; /* the longest name has room for a temporary one, too */
    assert_int_equal(write_one(name), 0);
    assert_int_equal(entries(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_file_is_complete_or_absent),
        IN_FOLDER(test_file_mode_is_as_asked_less_the_umask),
        IN_FOLDER(test_file_replaces_files_only),
        IN_FOLDER(test_file_follows_no_link_of_others),
        IN_FOLDER(test_file_temporary_names_may_be_taken),
        IN_FOLDER(test_file_refuses_what_is_no_place),
        IN_FOLDER(test_file_writes_to_pipes),
        IN_FOLDER(test_file_writes_to_devices),
        IN_FOLDER(test_file_writes_to_sockets),
        IN_FOLDER(test_file_writes_to_descriptors),
        IN_FOLDER(test_file_descriptors_of_others),
        IN_FOLDER(test_file_replaces_no_late_pipe),
        IN_FOLDER(test_file_disk_full),
        IN_FOLDER(test_file_size_limit_does_not_kill),
        IN_FOLDER(test_file_long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
