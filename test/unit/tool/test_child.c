/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in child processes: how they end, what their readers wait for, and readers that signals
 * interrupt. */
#include "tool/base/child.h"

#include "tool/base/time.h"
#include "tool/reading/sweep.h"

#include "test/support/cmocka.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG 10.0 /* seconds: no test waits for that */

static void tick(int number)
{
    (void)number;
}

/* Interrupts system calls of this process every 5 ms, or no more. */
static void interrupt(bool on)
{
    struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
    struct itimerval timer = {{0, on ? 5000 : 0}, {0, on ? 5000 : 0}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void wait_ms(unsigned ms)
{
    sa_time_wait(ms * 1e-3);
}

/* --- tasks --- */

static bool say(void *arg, int fd)
{
    const char *text = arg;

    wait_ms(30);
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool fails(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    return false;
}

static bool sleep_on(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    while (pause() < 0)
        ;
    return true;
}

static bool die(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    return raise(SIGUSR1) == 0;
}

static bool spin(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    for (volatile unsigned char i = 1; i; i += 2)
        ;
    return true;
}

/* Whether 64 MiB cannot be mapped. */
static bool lacks_memory(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    return mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static enum sa_child_end end_of(struct sa_child_task task, int *ret_number)
{
    struct sa_buffer answer = {NULL, 0, 0};
    enum sa_child_end end;

    task.answer_max = task.answer_max ? task.answer_max : 64;
    task.seconds = task.seconds > 0 ? task.seconds : LONG;
    end = sa_child_run(&task, &answer, ret_number);
    sa_buffer_free(&answer);
    return end;
}

static void test_child_ends(void **state)
{
    int number;

    (void)state;
    assert_int_equal(end_of((struct sa_child_task){.run = say, .arg = "x"}, &number),
                     SA_CHILD_DONE);
    assert_int_equal(end_of((struct sa_child_task){.run = fails}, &number), SA_CHILD_FAILED);
    assert_int_equal(
        end_of((struct sa_child_task){.run = say, .arg = "longer", .answer_max = 5}, &number),
        SA_CHILD_FAILED);
    assert_int_equal(end_of((struct sa_child_task){.run = sleep_on, .seconds = 0.05}, &number),
                     SA_CHILD_LATE);
    assert_int_equal(end_of((struct sa_child_task){.run = die}, &number), SA_CHILD_KILLED);
    assert_int_equal(number, SIGUSR1);
}

static void test_child_limits(void **state)
{
    int number;

    (void)state;
    assert_int_equal(end_of((struct sa_child_task){.run = spin, .cpu_seconds = 1}, &number),
                     SA_CHILD_KILLED);
    assert_int_equal(
        end_of((struct sa_child_task){.run = lacks_memory, .memory = 32 << 20}, &number),
        SA_CHILD_DONE);
    assert_int_equal(end_of((struct sa_child_task){.run = lacks_memory}, &number), SA_CHILD_FAILED);
}

/* Signals neither end a wait nor prolong it. */
static void test_child_interrupted(void **state)
{
    struct sa_buffer answer = {NULL, 0, 0};
    struct sa_child_task task = {.run = say, .arg = "text", .seconds = LONG, .answer_max = 64};
    int number;

    (void)state;
    interrupt(true);
    assert_int_equal(sa_child_run(&task, &answer, &number), SA_CHILD_DONE);
    assert_int_equal(answer.used, 4);
    assert_int_equal(end_of((struct sa_child_task){.run = sleep_on, .seconds = 0.05}, &number),
                     SA_CHILD_LATE);
    interrupt(false);
    sa_buffer_free(&answer);
}

/* What errno was before says nothing about the end of a pipe. */
static void test_child_read_end(void **state)
{
    double start = sa_time_seconds();
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    close(ends[1]);
    errno = EINTR;
    assert_int_equal(sa_child_read(ends[0], &byte, 1, start + LONG), 1);
    errno = EINTR;
    assert_int_equal(sa_child_read(ends[0], &byte, 1, start + LONG), 0);
    close(ends[0]);
    assert_int_equal(sa_child_read(ends[0], &byte, 1, start + LONG), -EBADF);
    assert_true(sa_time_seconds() - start < LONG / 2);
}

/* --- a sweep --- */

/* The child ends at this process, a moment after its parent has begun to wait, and others are not
 * on salloc. */
static bool end_at(pid_t pid, void *arg)
{
    if (pid != *(const pid_t *)arg)
        return true;
    wait_ms(30);
    _exit(1);
}

/* A sweep whose wait was interrupted sees at once that its child has ended: the process is given 3
 * seconds. */
static void test_child_sweep(void **state)
{
    pid_t own = getpid();
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_sweep sweep = {.skip = end_at, .arg = &own};
    double start = sa_time_seconds();

    (void)state;
    interrupt(true);
    assert_true(sa_sweep(&sweep, &e));
    interrupt(false);
    assert_int_equal(sweep.unread, 1);
    assert_true(sa_time_seconds() - start < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_ends),        cmocka_unit_test(test_child_limits),
        cmocka_unit_test(test_child_interrupted), cmocka_unit_test(test_child_read_end),
        cmocka_unit_test(test_child_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
