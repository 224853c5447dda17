/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: closing waits for everybody who is inside, nobody enters while it is closed (but is
 * turned away after a bounded wait), and opening wakes those who wait.
 */
#include "alloc/fork/fork_gate.h"

#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static uint32_t inside(void)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        n += sa_load_seq_cst(&sa_fork_gate.stripe[i].inside);
    return n;
}

static void test_gate_nests(void **state)
{
    (void)state;
    assert_int_equal(inside(), 0);
    assert_true(sa_fork_gate_enter());
    assert_true(sa_fork_gate_enter());
    assert_true(sa_fork_gate_enter());
    assert_int_equal(inside(), 1);
    sa_fork_gate_leave();
    sa_fork_gate_leave();
    assert_int_equal(inside(), 1);
    sa_fork_gate_leave();
    assert_int_equal(inside(), 0);
}

static uint32_t entered, left, closed; /* atomic */

/* Thread 0 closes while the others are inside: it must see all of them leave first. */
static void close_or_stay(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        while (sa_load_seq_cst(&entered) < 3)
            sched_yield();
        sa_fork_gate_close();
        sa_store_seq_cst(&closed, 1);
        THREAD_CHECK(sa_load_seq_cst(&left) == 3);
        THREAD_CHECK(inside() == 0);
        sa_fork_gate_open();
    } else {
        THREAD_CHECK(sa_fork_gate_enter());
        sa_add_seq_cst(&entered, 1);
        sleep_ms(20 * index);
        THREAD_CHECK(sa_load_seq_cst(&closed) == 0);
        sa_add_seq_cst(&left, 1);
        sa_fork_gate_leave();
    }
}

static void test_gate_close_waits_for_those_inside(void **state)
{
    (void)state;
    entered = left = closed = 0;
    test_threads_run(4, close_or_stay, NULL);
    test_threads_check();
    assert_int_equal(inside(), 0);
}

/* To the thread that closed it the gate is open, and also to one that was inside itself. */
static void test_gate_lets_the_closer_pass(void **state)
{
    (void)state;
    for (int was_inside = 0; was_inside < 2; was_inside++) {
        if (was_inside)
            assert_true(sa_fork_gate_enter());
        sa_fork_gate_close();
        assert_true(sa_fork_gate_is_closed());
        assert_true(sa_fork_gate_enter());
        assert_true(sa_fork_gate_enter());
        sa_fork_gate_leave();
        sa_fork_gate_leave();
        sa_fork_gate_open();
        assert_false(sa_fork_gate_is_closed());
        assert_int_equal(inside(), (uint32_t)was_inside);
        if (was_inside)
            sa_fork_gate_leave();
        assert_int_equal(inside(), 0);
    }
}

/* fork_gate.c: 50 times 1 ms, each of which the kernel may stretch. */
static void wait_in_vain(int index, void *arg)
{
    uint64_t start = now_ms(), waited;

    (void)index;
    (void)arg;
    THREAD_CHECK(!sa_fork_gate_enter());
    waited = now_ms() - start;
    THREAD_CHECK(waited >= 49 && waited < 5000);
}

static void test_gate_turns_away_after_a_bounded_wait(void **state)
{
    (void)state;
    sa_fork_gate_close();
    test_threads_run(1, wait_in_vain, NULL);
    test_threads_check();
    sa_fork_gate_open();
    assert_int_equal(inside(), 0);
    assert_true(sa_fork_gate_enter());
    sa_fork_gate_leave();
}

static uint64_t opened_ms, admitted_ms; /* atomic */

static void open_or_wait(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        sa_fork_gate_close();
        sa_store_seq_cst(&closed, 1);
        sleep_ms(10);
        sa_store_seq_cst(&opened_ms, now_ms());
        sa_fork_gate_open();
    } else {
        while (!sa_load_seq_cst(&closed))
            sched_yield();
        while (!sa_fork_gate_enter()) /* turned away: the other thread got no processor for long */
            continue;
        sa_store_seq_cst(&admitted_ms, now_ms());
        sa_fork_gate_leave();
    }
}

static void test_gate_open_lets_waiters_in(void **state)
{
    (void)state;
    closed = 0;
    test_threads_run(2, open_or_wait, NULL);
    test_threads_check();
    assert_true(admitted_ms >= opened_ms);
    assert_int_equal(inside(), 0);
}

static uint32_t may_open; /* atomic */

/* Thread 0 has the gate closed when the other one wants to close it, too. */
static void close_in_turn(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        sa_fork_gate_close();
        sa_store_seq_cst(&closed, 1);
        sleep_ms(30);
        sa_store_seq_cst(&may_open, 1);
        sa_fork_gate_open();
    } else {
        while (!sa_load_seq_cst(&closed))
            sched_yield();
        sa_fork_gate_close();
        THREAD_CHECK(sa_load_seq_cst(&may_open) == 1);
        THREAD_CHECK(sa_fork_gate_is_closed());
        sa_fork_gate_open();
    }
}

static void test_gate_is_closed_by_one_at_a_time(void **state)
{
    (void)state;
    closed = may_open = 0;
    test_threads_run(2, close_in_turn, NULL);
    test_threads_check();
    assert_false(sa_fork_gate_is_closed());
    assert_int_equal(inside(), 0);
}

static uint32_t busy, stop; /* atomic */

/*
 * Two threads close and open over and over: between the two nobody else may be inside.
 */
static void close_or_work(int index, void *arg)
{
    (void)arg;
    if (index < 2) {
        for (int i = 0; i < 100; i++) {
            sa_fork_gate_close();
            THREAD_CHECK(sa_load_seq_cst(&busy) == 0);
            if (i % 10 == 0)
                sched_yield();
            THREAD_CHECK(sa_load_seq_cst(&busy) == 0);
            sa_fork_gate_open();
            sched_yield();
        }
        sa_add_seq_cst(&stop, 1);
    } else {
        while (sa_load_seq_cst(&stop) < 2) {
            if (!sa_fork_gate_enter())
                continue;
            sa_add_seq_cst(&busy, 1);
            THREAD_CHECK(sa_fork_gate_enter());
            sa_fork_gate_leave();
            sa_sub_release(&busy, 1);
            sa_fork_gate_leave();
        }
    }
}

static void test_gate_excludes(void **state)
{
    (void)state;
    stop = 0;
    test_threads_run(5, close_or_work, NULL);
    test_threads_check();
    assert_int_equal(inside(), 0);
    assert_false(sa_fork_gate_is_closed());
}

/* A child begins with an open gate and nobody inside, whatever the parent's threads were doing. */
static void test_gate_reset_forgets_the_other_threads(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    sa_fork_gate_close();
    sa_add_seq_cst(&sa_fork_gate.stripe[3].inside, 2); /* two threads that waited too long */
    pid = fork();
    if (pid == 0) {
        sa_fork_gate_reset();
        _exit(inside() == 0 && sa_fork_gate_enter() && inside() == 1 ? 0 : 1);
    }
    sa_sub_release(&sa_fork_gate.stripe[3].inside, 2);
    sa_fork_gate_open();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/*
 * A signal handler that forks, called between the instructions that count this thread and those
 * that note it (here played by hand, as sa_fork_gate_enter and sa_fork_gate_leave have them): the
 * child's count is right once the interrupted code has gone on.
 */
static void test_gate_counts_right_in_a_child_of_an_interrupted_thread(void **state)
{
    (void)state;
    sa_fork_gate_move_begin(); /* entering */
    sa_add_seq_cst(&sa_fork_gate.stripe[0].inside, 1);
    sa_fork_gate_close();
    sa_fork_gate_reset();
    sa_thread.gate_stripe = 0;
    sa_thread.gate_depth = 1;
    sa_fork_gate_move_end();
    assert_int_equal(inside(), 1);

    sa_fork_gate_move_begin(); /* leaving */
    sa_thread.gate_depth = 0;
    sa_fork_gate_close();
    sa_fork_gate_reset();
    sa_sub_release(&sa_fork_gate.stripe[0].inside, 1);
    sa_fork_gate_move_end();
    assert_int_equal(inside(), 0);
    assert_false(sa_fork_gate_is_closed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_nests),
        cmocka_unit_test(test_gate_close_waits_for_those_inside),
        cmocka_unit_test(test_gate_lets_the_closer_pass),
        cmocka_unit_test(test_gate_turns_away_after_a_bounded_wait),
        cmocka_unit_test(test_gate_open_lets_waiters_in),
        cmocka_unit_test(test_gate_is_closed_by_one_at_a_time),
        cmocka_unit_test(test_gate_excludes),
        cmocka_unit_test(test_gate_reset_forgets_the_other_threads),
        cmocka_unit_test(test_gate_counts_right_in_a_child_of_an_interrupted_thread),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
