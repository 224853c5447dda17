/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The futex lock: mutual exclusion, waiting and waking, trying; and in builds with debug_checks
 * that the rank checker ends the program at a wrong order and at a lock that is not held.
 */
#include "alloc/os/lock.h"

#include "alloc/base/fatal.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/threads.h"

#include <time.h>

#define THREADS 4
#define TURNS   100000

static struct sa_lock lock;
static uint64_t plain; /* guarded by lock; not annotated: threads that have ended are seen, too */

static void sleep_ms(long ms)
{
    const struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

static void count(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < TURNS; i++) {
        /* Every other thread only tries, and so is sometimes turned away. */
        if (index % 2) {
            sa_lock_acquire(&lock, SA_RANK_ARENA);
        } else {
            while (!sa_lock_try(&lock, SA_RANK_ARENA))
                ;
        }
        plain++;
        sa_lock_release(&lock, SA_RANK_ARENA);
    }
}

static void test_lock_excludes_threads(void **state)
{
    (void)state;
    plain = 0;
    test_threads_run(THREADS, count, NULL);
    assert_int_equal(plain, (uint64_t)THREADS * TURNS);
    assert_int_equal(lock.word, 0);
}

/* No analysis: it does not follow what an assertion says of a try. */
static void test_lock_try_fails_while_held(void **state) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)state;
    assert_true(sa_lock_try(&lock, SA_RANK_ARENA));
    assert_false(sa_lock_try(&lock, SA_RANK_ARENA));
    sa_lock_release(&lock, SA_RANK_ARENA);
    assert_true(sa_lock_try(&lock, SA_RANK_ARENA));
    sa_lock_release(&lock, SA_RANK_ARENA);
}

static uint32_t holding; /* atomic */

/* Thread 0 holds the lock until others sleep in the kernel, then each must get it in turn. */
static void hold_or_wait(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        sa_lock_acquire(&lock, SA_RANK_ARENA);
        sa_store_relaxed(&holding, 1);
        for (int ms = 0; ms < 10000 && sa_load_relaxed(&lock.word) != 2; ms++)
            sleep_ms(1);
        THREAD_CHECK(sa_load_relaxed(&lock.word) == 2); /* somebody waits */
        sleep_ms(20);                                   /* and probably all do */
        plain = 100;
    } else {
        while (sa_load_relaxed(&holding) == 0)
            sleep_ms(1);
        sa_lock_acquire(&lock, SA_RANK_ARENA);
        THREAD_CHECK(plain >= 100);
        plain++;
    }
    sa_lock_release(&lock, SA_RANK_ARENA);
}

static void test_lock_wakes_all_who_wait(void **state)
{
    (void)state;
    plain = 0;
    test_threads_run(8, hold_or_wait, NULL);
    test_threads_check();
    assert_int_equal(plain, 107);
    assert_int_equal(lock.word, 0);
}

/* Thread 0 lets go of the lock for moments only, thread 1 gets it nevertheless. */
static void yield_or_wait(int index, void *arg)
{
    double waited = 0;

    (void)arg;
    sa_lock_acquire(&lock, SA_RANK_ARENA);
    if (index) {
        plain = 1;
    } else {
        sa_store_relaxed(&holding, 1);
        for (; plain == 0 && waited < 10; waited += 1e-4) {
            for (int i = 0; i < 1000; i++) /* long enough for the other to stop spinning */
                sa_load_relaxed(&holding);
            sa_lock_yield(&lock, SA_RANK_ARENA);
        }
        THREAD_CHECK(plain == 1);
    }
    sa_lock_release(&lock, SA_RANK_ARENA);
}

static void test_lock_yield_lets_others_in(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        plain = 0;
        sa_store_relaxed(&holding, 0);
        test_threads_run(2, yield_or_wait, NULL);
        test_threads_check();
        assert_int_equal(lock.word, 0);
    }
}

static void no_side_effects(void *unused)
{
    int evaluated = 0;

    (void)unused;
    SA_DCHECK(++evaluated);
#ifdef SA_DEBUG
    CHILD_CHECK(evaluated == 1);
#else
    SA_DCHECK(evaluated < 0);
    SA_DCHECK_HELD(SA_RANK_ARENA);
    CHILD_CHECK(evaluated == 0);
#endif
}

/* Conditions of checks are evaluated in debug builds, and in those only. */
static void test_lock_checks_cost_nothing(void **state)
{
    (void)state;
    test_child_passes(no_side_effects, NULL);
}

#ifdef SA_DEBUG
static struct sa_lock other;

/* What is wrong in the following functions is what clang's analysis finds. */

static void take_downwards(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_INIT);
    sa_lock_acquire(&other, SA_RANK_ARENA);
    sa_lock_release(&lock, SA_RANK_INIT); /* in any order */
    sa_lock_release(&other, SA_RANK_ARENA);
    sa_lock_acquire(&lock, SA_RANK_INIT);
    sa_lock_release(&lock, SA_RANK_INIT);
}

static void take_upwards(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_ARENA);
    sa_lock_acquire(&other, SA_RANK_CENTRAL);
}

static void take_same_rank(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_TRANSFER);
    sa_lock_acquire(&other, SA_RANK_TRANSFER);
}

static void try_upwards(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_PAGE_HEAP);
    sa_lock_try(&other, SA_RANK_MAINTAIN);
}

static void release_not_held(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_PAGE_HEAP);
    sa_lock_release(&lock, SA_RANK_ARENA);
}

static void assert_held(void *unused)
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_CENTRAL);
    SA_DCHECK_HELD(SA_RANK_CENTRAL);
    sa_lock_release(&lock, SA_RANK_CENTRAL);
}

static void assert_other_held(void *unused)
{
    (void)unused;
    sa_lock_acquire(&lock, SA_RANK_CENTRAL);
    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    sa_lock_release(&lock, SA_RANK_CENTRAL);
}

static void assert_after_release(void *unused) SA_NO_THREAD_SAFETY_ANALYSIS
{
    assert_held(unused);
    SA_DCHECK_HELD(SA_RANK_CENTRAL);
}

static void test_lock_is_asserted(void **state)
{
    (void)state;
    test_child_passes(assert_held, NULL);
    test_child_aborts(assert_other_held, NULL, "not PAGE_HEAP");
    test_child_aborts(assert_after_release, NULL, "not CENTRAL");
}

static void test_lock_ranks_are_checked(void **state)
{
    (void)state;
    test_child_passes(take_downwards, NULL);
    test_child_aborts(take_upwards, NULL, "lock order");
    test_child_aborts(take_upwards, NULL, "takes CENTRAL");
    test_child_aborts(take_same_rank, NULL, "takes TRANSFER");
    test_child_aborts(try_upwards, NULL, "takes MAINTAIN");
    test_child_aborts(release_not_held, NULL, "internal error");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_try_fails_while_held),
        cmocka_unit_test(test_lock_excludes_threads),
        cmocka_unit_test(test_lock_wakes_all_who_wait),
        cmocka_unit_test(test_lock_yield_lets_others_in),
        cmocka_unit_test(test_lock_checks_cost_nothing),
#ifdef SA_DEBUG
        cmocka_unit_test(test_lock_is_asserted),
        cmocka_unit_test(test_lock_ranks_are_checked),
#endif
    };

    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
