/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process of one thread does without locked instructions: signal handlers that come in
 * between must lose nothing, and what was begun alone must be right for the threads that come
 * meanwhile. Each in a child of its own, as libc does not say again that a process is alone once it
 * had threads.
 */
#include "alloc/base/single_threaded.h"

#include "alloc/fork/fork_gate.h"
#include "alloc/os/lock.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>

static struct sa_lock lock;
static uint64_t shared, handled;

static void *nothing(void *arg)
{
    return arg;
}

static void flag_in_child(void *arg)
{
    pthread_t thread;

    (void)arg;
#if __has_include(<sys/single_threaded.h>) && !SA_TSAN && !defined(SA_PREEMPT)
    CHILD_CHECK(sa_single_threaded());
#endif
    CHILD_CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    CHILD_CHECK(!sa_single_threaded());
    CHILD_CHECK(pthread_join(thread, NULL) == 0);
}

/* libc's word is taken; it must be what is thought here. */
static void test_single_threaded_ends_with_the_first_thread(void **state)
{
    (void)state;
    test_child_passes(flag_in_child, NULL);
}

#if defined(__x86_64__) && !SA_TSAN /* which puts signals off */
static volatile sig_atomic_t stepping;

/* After each instruction: all that a slow path does in between. */
static void on_step(int number, siginfo_t *info, void *context)
{
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

    (void)number;
    (void)info;
    if (sa_fork_gate_enter()) {
        if (sa_lock_try(&lock, SA_RANK_ARENA))
            sa_lock_release(&lock, SA_RANK_ARENA);
        sa_fork_gate_leave();
    }
    sa_count_shared(&shared, 3);
    handled++;
    *flags = stepping ? *flags | 0x100 : *flags & ~(greg_t)0x100; /* a trap after the next one */
}

static void interrupted_in_child(void *arg)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    uint64_t rounds = 200;

    (void)arg;
    CHILD_CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    stepping = 1;
    CHILD_CHECK(raise(SIGTRAP) == 0);
    for (uint64_t i = 0; i < rounds; i++) {
        sa_count_shared(&shared, 1);
        CHILD_CHECK(sa_fork_gate_enter());
        sa_lock_acquire(&lock, SA_RANK_ARENA);
        CHILD_CHECK(lock.word == 1);
        sa_lock_release(&lock, SA_RANK_ARENA);
        sa_fork_gate_leave();
    }
    stepping = 0;
    CHILD_CHECK(raise(SIGTRAP) == 0);
    CHILD_CHECK(handled > 10 * rounds);
    CHILD_CHECK(shared == rounds + 3 * handled);
    CHILD_CHECK(lock.word == 0);
    for (unsigned k = 0; k < SA_FORK_GATE_STRIPES; k++)
        CHILD_CHECK(sa_fork_gate.stripe[k].inside == 0);
}

static void test_single_threaded_is_interrupted(void **state)
{
    (void)state;
    test_child_passes(interrupted_in_child, NULL);
}
#endif

static void *wait_for_lock(void *arg)
{
    sa_lock_acquire(&lock, SA_RANK_ARENA);
    *(int *)arg = 1;
    sa_lock_release(&lock, SA_RANK_ARENA);
    return NULL;
}

static void *close_gate(void *arg)
{
    sa_fork_gate_close();
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELAXED);
    sa_fork_gate_open();
    return NULL;
}

static void begun_in_child(void *arg)
{
    const struct timespec a_while = {0, 30000000};
    pthread_t waits, closes;
    int got = 0, closed = 0;

    (void)arg;
    CHILD_CHECK(sa_fork_gate_enter());
    sa_lock_acquire(&lock, SA_RANK_ARENA);
    CHILD_CHECK(pthread_create(&waits, NULL, wait_for_lock, &got) == 0);
    CHILD_CHECK(pthread_create(&closes, NULL, close_gate, &closed) == 0);
    nanosleep(&a_while, NULL);
    CHILD_CHECK(!__atomic_load_n(&closed, __ATOMIC_RELAXED));
    CHILD_CHECK(sa_load_relaxed(&lock.word) != 0);
    sa_lock_release(&lock, SA_RANK_ARENA);
    CHILD_CHECK(pthread_join(waits, NULL) == 0);
    CHILD_CHECK(got == 1);
    sa_fork_gate_leave();
    CHILD_CHECK(pthread_join(closes, NULL) == 0);
    CHILD_CHECK(closed == 1);
    CHILD_CHECK(lock.word == 0);
}

/* A lock that was taken alone keeps others out, and they are woken; the gate is not closed with
 * somebody inside. */
static void test_single_threaded_is_over_meanwhile(void **state)
{
    (void)state;
    test_child_passes(begun_in_child, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_threaded_ends_with_the_first_thread),
#if defined(__x86_64__) && !SA_TSAN /* which puts signals off */
        cmocka_unit_test(test_single_threaded_is_interrupted),
#endif
        cmocka_unit_test(test_single_threaded_is_over_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
