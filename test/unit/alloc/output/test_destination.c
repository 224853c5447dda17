/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where reports go: the names of descriptors, that a descriptor is written to only while it is the
 * file that it was, relative paths after chdir, and that trying a path leaves nothing.
 */
#include "alloc/output/destination.h"

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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[SA_FILE_PATH_MAX];
static struct sa_file file;
static struct sa_destination d;

static int write_text(const char *text)
{
    int failed = sa_destination_begin(&d, &file, path, true);

    if (failed)
        return failed;
    failed = sa_file_write(&file, text, strlen(text));
    if (failed)
        sa_file_abandon(&file);
    return failed ? failed : sa_file_commit(&file);
}

/* What can be read there, without waiting. */
static const char *read_end(int fd)
{
    static char text[8192];
    ssize_t n;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void test_destination_numbers(void **state)
{
    static const struct {
        const char *name;
        int number;
        const char *ending;
    } names[] = {
        {"stderr", 2, NULL},
        {"stdout", 1, NULL},
        {"fd:0", 0, NULL},
        {"fd:3.json", 3, ".json"},
        {"fd:12.pb.gz", 12, ".pb.gz"},
        {"fd:1048576", 1048576, NULL},
        {"/dev/stdin", 0, NULL},
        {"/dev/stdout", 1, NULL},
        {"/dev/stderr", 2, NULL},
        {"/dev/fd/7", 7, NULL},
        {"/proc/self/fd/8", 8, NULL},
        {"", -1, NULL},
        {"stderr.json", -1, NULL}, /* a file */
        {"stdout ", -1, NULL},
        {"./stderr", -1, NULL},
        {"fd:", -1, NULL},
        {"fd:x", -1, NULL},
        {"fd:-1", -1, NULL},
        {"fd:3x", -1, NULL},
        {"fd:99999999", -1, NULL},
        {"fd:4294967297", -1, NULL},
        {"/dev/fd/", -1, NULL},
        {"/dev/fd/3.json", -1, NULL},
        {"/proc/self/fd/3/x", -1, NULL},
        {"/proc/self/fdinfo/3", -1, NULL},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const char *ending = "x";

        assert_int_equal(sa_destination_number(names[i].name, &ending), names[i].number);
        if (names[i].ending)
            assert_string_equal(ending, names[i].ending);
        else
            assert_null(ending);
    }
}

/* A pipe at a number, and the name of the number. */
static void make_pipe(int ends[2], char name[16])
{
    assert_int_equal(pipe(ends), 0);
    snprintf(name, 16, "fd:%d", ends[1]);
}

/* Handlers that run at exit before those of the library may have closed it: the copy is still
 * there. */
static void test_destination_outlives_a_close(void **state)
{
    int ends[2];
    char name[16];

    (void)state;
    make_pipe(ends, name);
    assert_int_equal(sa_destination_keep(&d, name, false), 0);
    assert_int_equal(d.told, 0);
    assert_true(fcntl(d.copy, F_GETFD) & FD_CLOEXEC);
    close(ends[1]);
    assert_int_equal(write_text("text"), 0);
    assert_string_equal(read_end(ends[0]), "text");
    assert_string_equal(path, name);
    close(d.copy);
    close(ends[0]);
}

/* What the program has opened under the number or that of the copy is its own business. */
static void test_destination_leaves_other_files_alone(void **state)
{
    int ends[2], other[2];
    char name[16];

    (void)state;
    make_pipe(ends, name);
    assert_int_equal(pipe(other), 0);
    assert_int_equal(sa_destination_keep(&d, name, false), 0);
    assert_int_equal(dup2(other[1], d.copy), d.copy);
    assert_int_equal(write_text("1"), 0);
    assert_string_equal(read_end(ends[0]), "1");
    assert_int_equal(dup2(other[1], ends[1]), ends[1]);
    assert_int_equal(write_text("2"), -EBADF);
    sa_destination_after_fork(&d); /* closes nothing that is not the copy */
    assert_true(fcntl(other[1], F_GETFD) >= 0);
    assert_string_equal(read_end(other[0]), "");
    for (int fd = 3; fd < 300; fd++)
        close(fd);
}

/* The end of a pipe's writers is seen by its reader although children live on. */
static void test_destination_copy_ends_at_fork(void **state)
{
    int ends[2];
    char name[16];

    (void)state;
    make_pipe(ends, name);
    assert_int_equal(sa_destination_keep(&d, name, false), 0);
    sa_destination_after_fork(&d);
    assert_int_equal(write_text("child"), 0);
    assert_string_equal(read_end(ends[0]), "child");
    close(ends[1]);
    assert_int_equal(read(ends[0], path, 1), 0); /* nobody has it open */
    assert_int_equal(write_text("x"), -EBADF);
    close(ends[0]);
}

static void test_destination_refuses_what_cannot_be_written(void **state)
{
    int fd = open("/dev/null", O_RDONLY);
    char name[16];

    (void)state;
    assert_int_equal(sa_destination_keep(&d, "fd:777", false), -EBADF);
    assert_int_equal(d.told, EBADF);
    assert_int_equal(write_text("x"), -EBADF);
    snprintf(name, sizeof(name), "fd:%d", fd);
    assert_int_equal(sa_destination_keep(&d, name, false), -EBADF);
    close(fd);
}

static void write_without_reader(void *unused)
{
    int ends[2];
    char name[16];

    (void)unused;
    CHILD_CHECK(pipe(ends) == 0);
    snprintf(name, 16, "fd:%d", ends[1]);
    CHILD_CHECK(sa_destination_keep(&d, name, false) == 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    CHILD_CHECK(write_text("x") == -EPIPE);
}

static void write_beyond_limit(void *unused)
{
    struct rlimit limit = {5, 5};
    char name[16];
    int fd = open("limited", O_WRONLY | O_CREAT, 0600);

    (void)unused;
    snprintf(name, 16, "fd:%d", fd);
    CHILD_CHECK(sa_destination_keep(&d, name, false) == 0);
    signal(SIGXFSZ, SIG_DFL);
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(write_text("1234567") == -EFBIG);
}

/* A pipe that nobody reads, and a file that must not grow, are errors, not ends of the process. */
static void test_destination_signals_do_not_kill(void **state)
{
    (void)state;
    test_child_passes(write_without_reader, NULL);
    test_child_passes(write_beyond_limit, NULL);
}

/* A descriptor that does not block is waited for: all of the text comes. */
static void test_destination_waits_for_a_slow_reader(void **state)
{
    static char text[300000], got[300000];
    int ends[2];
    char name[16];
    size_t n = 0;
    pid_t pid;
    int status;

    (void)state;
    make_pipe(ends, name);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    memset(text, 'x', sizeof(text) - 1);
    pid = fork();
    if (pid == 0)
        _exit(sa_destination_keep(&d, name, false) == 0 && write_text(text) == 0 ? 0 : 1);
    close(ends[1]);
    for (ssize_t i = 1; i > 0; n += (size_t)i)
        i = read(ends[0], got + n, sizeof(got) - n);
    assert_int_equal(n, sizeof(text) - 1);
    assert_memory_equal(got, text, n);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
}

static void write_many_lines(void *lines)
{
    CHILD_CHECK(sa_destination_keep(&d, "/dev/stderr", false) == 0);
    CHILD_CHECK(sa_destination_begin(&d, &file, path, true) == 0);
    for (int i = 0; i < *(int *)lines; i++) {
        char line[16];
        size_t n = (size_t)snprintf(line, sizeof(line), "line %d\n", i);

        CHILD_CHECK(sa_file_write(&file, line, n / 2) == 0);
        CHILD_CHECK(sa_file_write(&file, line + n / 2, n - n / 2) == 0);
    }
    CHILD_CHECK(sa_file_commit(&file) == 0);
}

/* stderr gets so many lines of text, the last of which says how many are missing. */
static void test_destination_stderr_gets_few_lines(void **state)
{
    static const int sent[] = {0, 1, 28, 29, 30, 31, 200};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sent); i++) {
        int lines = sent[i];
        struct test_child child = test_child_run(write_many_lines, &lines);
        char expect[4096] = "";
        int shown = lines < SA_DESTINATION_LINES ? lines : SA_DESTINATION_LINES - 1;

        for (int line = 0; line < shown; line++)
            sprintf(expect + strlen(expect), "line %d\n", line);
        if (lines > shown)
            sprintf(expect + strlen(expect),
                    "salloc: %d lines more; a path instead of stderr has them all\n",
                    lines - shown);
        assert_int_equal(child.exit_code, 0);
        assert_string_equal(child.text, expect);
    }
}

/* The folder is that of the start, also one whose name looks like a placeholder; trying leaves
 * nothing and takes no number. */
static void test_destination_is_of_the_first_folder(void **state)
{
    char expect[200];

    (void)state;
    assert_int_equal(mkdir("100%p", 0700), 0);
    assert_int_equal(chdir("100%p"), 0);
    assert_int_equal(sa_destination_keep(&d, "page.%n", false), 0);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(entries(), 1);
    assert_int_equal(rmdir("100%p"), 0);
    assert_int_equal(mkdir("100%p", 0700), 0); /* had anything been left, this had failed */
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(write_text("x"), 0);
    snprintf(expect, sizeof(expect), "%s/100%%p/page.1", folder);
    assert_string_equal(path, expect);
    assert_int_equal(access(expect, F_OK), 0);
}

static void check_without_a_folder(const char *gone)
{
    assert_int_equal(mkdir(gone, 0700), 0);
    assert_int_equal(chdir(gone), 0);
    assert_int_equal(rmdir(gone), 0);
    assert_int_equal(sa_destination_keep(&d, "page", false), -ENOENT);
    assert_int_equal(d.told, ENOENT);
    assert_string_equal(d.pattern, "page");
}

/* If the folder was removed, the path stays relative, and the error is known at the start. Also on
 * tmpfs, which still makes files without names in such a folder. */
static void test_destination_without_a_folder(void **state)
{
    char path_of_it[SA_FILE_PATH_MAX + 8], on_tmpfs[64];

    (void)state;
    snprintf(path_of_it, sizeof(path_of_it), "%s/gone", folder);
    check_without_a_folder(path_of_it);
    if (access("/dev/shm", W_OK) != 0)
        return;
    snprintf(on_tmpfs, sizeof(on_tmpfs), "/dev/shm/salloc-gone-%d", (int)getpid());
    check_without_a_folder(on_tmpfs);
}

/* What is wrong at the start is told then, and may be right later. */
static void test_destination_is_tried_at_the_start(void **state)
{
    (void)state;
    assert_int_equal(sa_destination_keep(&d, "later/page", false), -ENOENT);
    assert_int_equal(d.told, ENOENT);
    assert_int_equal(write_text("x"), -ENOENT);
    assert_int_equal(mkdir("later", 0700), 0);
    assert_int_equal(write_text("x"), 0);
    assert_int_equal(sa_destination_keep(&d, "%z", false), -EINVAL);
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(sa_destination_init(&d, path), 0);
    assert_int_equal(sa_destination_keep(&d, path, false), -ENAMETOOLONG);
}

/* A link to a descriptor is that descriptor: written to only while it is the file that it was at
 * the start. */
static void test_destination_link_to_a_descriptor(void **state)
{
    char target[64];
    int fd = open("log", O_WRONLY | O_CREAT, 0600);
    struct stat st;

    (void)state;
    snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(target, "link"), 0);
    assert_int_equal(symlink("link", "link to link"), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sa_destination_keep(&d, i ? "link to link" : "link", false), 0);
        assert_int_equal(d.number, fd);
        assert_int_equal(write_text("x"), 0);
        close(d.copy);
    }
    close(fd);
    assert_int_equal(open("data", O_WRONLY | O_CREAT, 0600), fd);
    assert_int_equal(write_text("x"), -EBADF);
    close(fd);
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat("log", &st), 0);
    assert_int_equal(st.st_size, 2);
    assert_int_equal(stat("data", &st), 0);
    assert_int_equal(st.st_size, 0);
}

/* What a command writes to now: a path or a descriptor, without placeholders. */
static void test_destination_open(void **state)
{
    int ends[2];
    char name[16];

    (void)state;
    make_pipe(ends, name);
    assert_int_equal(sa_destination_open(&file, name, 0600), 0);
    assert_int_equal(sa_file_write(&file, "x", 1), 0);
    assert_int_equal(sa_file_commit(&file), 0);
    assert_string_equal(read_end(ends[0]), "x");
    assert_int_equal(sa_destination_open(&file, "100%", 0640), 0);
    assert_int_equal(sa_file_commit(&file), 0);
    assert_int_equal(access("100%", F_OK), 0);
    assert_true(sa_destination_is_direct(name));
    assert_true(sa_destination_is_direct("/dev/full"));
    assert_false(sa_destination_is_direct("100%%"));
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(sa_destination_open(&file, name, 0600), -EBADF);
}

static void complain(void *error)
{
    char long_path[4096];

    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    sa_destination_complain("profile ", "/x/y", *(int *)error);
    sa_destination_complain("", long_path, EACCES);
}

static void test_destination_complaint(void **state)
{
    static const struct {
        int error;
        const char *words;
    } errors[] = {{EACCES, "Permission denied"},
                  {ENOSPC, "No space left on device"},
                  {EROFS, "Read-only file system"},
                  {ENOENT, "No such file or directory"},
                  {4095, "error 4095"}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(errors); i++) {
        int error = errors[i].error, pid;
        struct test_child child = test_child_run(complain, &error);
        char expect[200];

        assert_int_equal(sscanf(child.text, "salloc: test_destination[%d]: ", &pid), 1);
        snprintf(expect, sizeof(expect),
                 "salloc: test_destination[%d]: cannot write profile /x/y: %s\n", pid,
                 errors[i].words);
        assert_memory_equal(child.text, expect, strlen(expect));
        assert_non_null(strstr(child.text, "write ...xxx"));
        assert_non_null(strstr(child.text, "xxx: Permission denied\n"));
    }
}

/* Processes that this one starts, and its children, do not replace its file. */
static void test_destination_nested(void **state)
{
    static const char *const names[][2] = {
        {"a.txt", "a.NAME.PID.txt"},   {"a.1.pb.gz", "a.1.NAME.PID.pb.gz"},
        {".pb.gz", ".NAME.PID.pb.gz"}, {"page", "page.NAME.PID"},
        {".page", ".page.NAME.PID"},   {"x.y/page", "x.y/page.NAME.PID"},
        {"%p.txt", "PID.txt"},         {"%%p.txt", "%p.NAME.PID.txt"},
        {"%p%e.json", "PIDNAME.json"},
    };
    char root[] = "/tmp/salloc-nested-XXXXXX";
    char expect[SA_FILE_PATH_MAX], pid[16];

    (void)state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(chdir(root), 0);
    assert_int_equal(mkdir("x.y", 0700), 0);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const char *from = names[i][1];
        size_t n = (size_t)snprintf(expect, sizeof(expect), "%s/", root);

        while (*from) {
            bool name = strncmp(from, "NAME", 4) == 0, is_pid = strncmp(from, "PID", 3) == 0;

            n += (size_t)snprintf(expect + n, sizeof(expect) - n, "%.*s", name || is_pid ? 100 : 1,
                                  name     ? program_invocation_short_name
                                  : is_pid ? pid
                                           : from);
            from += name ? 4 : is_pid ? 3 : 1;
        }
        assert_int_equal(sa_destination_keep(&d, names[i][0], true), 0);
        assert_int_equal(write_text("x"), 0);
        assert_string_equal(path, expect);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(sa_destination_keep(&d, "a.txt", false), 0);
    assert_int_equal(write_text("x"), 0);
    assert_string_equal(strrchr(path, '/'), "/a.txt");
    assert_int_equal(unlink(path), 0);
    sa_destination_after_fork(&d);
    assert_int_equal(write_text("x"), 0);
    assert_string_not_equal(strrchr(path, '/'), "/a.txt");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chdir("/"), 0);
    snprintf(expect, sizeof(expect), "%s/x.y", root);
    assert_int_equal(rmdir(expect) || rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_destination_numbers),
        IN_FOLDER(test_destination_is_of_the_first_folder),
        IN_FOLDER(test_destination_outlives_a_close),
        IN_FOLDER(test_destination_leaves_other_files_alone),
        IN_FOLDER(test_destination_copy_ends_at_fork),
        IN_FOLDER(test_destination_refuses_what_cannot_be_written),
        IN_FOLDER(test_destination_signals_do_not_kill),
        IN_FOLDER(test_destination_waits_for_a_slow_reader),
        IN_FOLDER(test_destination_stderr_gets_few_lines),
        IN_FOLDER(test_destination_without_a_folder),
        IN_FOLDER(test_destination_is_tried_at_the_start),
        IN_FOLDER(test_destination_link_to_a_descriptor),
        IN_FOLDER(test_destination_open),
        IN_FOLDER(test_destination_complaint),
        cmocka_unit_test(test_destination_nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
