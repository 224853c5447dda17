/* SPDX-License-Identifier: Apache-2.0 */
/* Running test code in a child process; see child.h. */
#include "test/support/child.h"

#include "test/support/cmocka.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SECONDS 60 /* a child that hangs is ended by SIGALRM */
#ifdef SA_PREEMPT
#undef CHILD_SECONDS
#define CHILD_SECONDS 600 /* threads are held up */
#endif

void test_child_failed(const char *file, int line, const char *condition)
{
    dprintf(STDERR_FILENO, "%s:%d: does not hold: %s\n", file, line, condition);
    _exit(1);
}

static void child_main(test_child_fn *fn, void *arg, int err)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    dup2(err, STDERR_FILENO);
    close(err);
    alarm(CHILD_SECONDS);
    fn(arg);
    _exit(0);
}

struct test_child test_child_run(test_child_fn *fn, void *arg)
{
    struct test_child child = {.exit_code = -1};
    size_t len = 0;
    int ends[2], status;
    ssize_t n;
    pid_t pid;

    fflush(stdout);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_main(fn, arg, ends[1]);
    close(ends[1]);
    while (len < sizeof(child.text) - 1) {
        n = read(ends[0], child.text + len, sizeof(child.text) - 1 - len);
        if (n == -1 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    child.text[len] = '\0';
    close(ends[0]);
    assert_true(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        child.exit_code = WEXITSTATUS(status);
    else
        child.signal = WTERMSIG(status);
    return child;
}

void test_child_passes(test_child_fn *fn, void *arg)
{
    struct test_child child = test_child_run(fn, arg);

    if (child.exit_code != 0)
        print_error("child: exit code %d, signal %d\n%s\n", child.exit_code, child.signal,
                    child.text);
    assert_int_equal(child.exit_code, 0);
}

void test_child_reports(test_child_fn *fn, void *arg, const char *text)
{
    struct test_child child = test_child_run(fn, arg);

    if (child.exit_code != 0 || !strstr(child.text, text))
        print_error("child: exit code %d, signal %d, expected \"%s\"\n%s\n", child.exit_code,
                    child.signal, text, child.text);
    assert_int_equal(child.exit_code, 0);
    assert_non_null(strstr(child.text, text));
    assert_memory_equal(child.text, "salloc: ", 8);
}

/* Returns what follows the first line. */
static const char *child_aborts(test_child_fn *fn, void *arg, const char *text)
{
    static char rest[sizeof(((struct test_child *)0)->text)];
    struct test_child child = test_child_run(fn, arg);
    const char *end = strchr(child.text, '\n');

    if (child.signal != SIGABRT || !strstr(child.text, text))
        print_error("child: exit code %d, signal %d, expected \"%s\" and SIGABRT\n%s\n",
                    child.exit_code, child.signal, text, child.text);
    assert_int_equal(child.signal, SIGABRT);
    assert_non_null(strstr(child.text, text));
    assert_memory_equal(child.text, "salloc: ", 8);
    assert_non_null(end);
    return strcpy(rest, end + 1);
}

void test_child_aborts(test_child_fn *fn, void *arg, const char *text)
{
    assert_string_equal(child_aborts(fn, arg, text), "");
}

void test_child_aborts_with_stacks(test_child_fn *fn, void *arg, const char *text)
{
    const char *line = child_aborts(fn, arg, text);

    assert_non_null(strstr(line, "allocated"));
    for (; strchr(line, '\n'); line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "salloc:   ", 10);
}
