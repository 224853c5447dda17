/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for threads' own caches, where rseq is missing: every thread gets one when it first
 * allocates, no two at a time the same, and gives it back at its end together with what the cache
 * holds.
 */
#include "alloc/cpu_cache/thread_slots.h"

#include "alloc/base/attrs.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/slow_path.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/rseq.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 20

static uint8_t taken[SA_SLABS]; /* atomic */
static pthread_barrier_t all_have_one;

static void take_number(int index, void *arg)
{
    void *p;
    int number;

    (void)arg;
    THREAD_CHECK(sa_percpu_cpu() == 0); /* none yet */
    p = sa_front_alloc(100, 1, false);
    number = sa_percpu_cpu();
    THREAD_CHECK(p && number > 0 && number < SA_SLABS);
    THREAD_CHECK(__atomic_exchange_n(&taken[number], 1, __ATOMIC_ACQ_REL) == 0);
    pthread_barrier_wait(&all_have_one);
    THREAD_CHECK(sa_thread_slots_in_use() >= THREADS);
    __atomic_store_n(&taken[number], 0, __ATOMIC_RELEASE);
    for (int i = 0; i < 100; i++) {
        void *q = sa_front_alloc((size_t)(index + 1) * 50, 1, false);

        THREAD_CHECK(q != NULL);
        sa_front_free(q);
    }
    sa_front_free(p);
    THREAD_CHECK(sa_percpu_cpu() == number);
    pthread_barrier_wait(&all_have_one); /* so that nobody ends, and is followed, before */
}

static void test_thread_slots_are_distinct_and_come_back(void **state)
{
    unsigned before = sa_thread_slots_in_use();

    (void)state;
    pthread_barrier_init(&all_have_one, NULL, THREADS);
    for (int round = 0; round < 10; round++) {
        test_threads_run(THREADS, take_number, NULL);
        test_threads_check();
        assert_int_equal(sa_thread_slots_in_use(), before);
        assert_true(sa_thread_slots_created() <= before + THREADS); /* used again */
    }
    pthread_barrier_destroy(&all_have_one);
}

/* What a thread leaves in its cache is not lost. */
static void test_thread_slots_give_back_what_caches_hold(void **state)
{
    (void)state;
    sa_transfer_flush();
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_central_stats s;

        sa_central_stats(cls, &s);
        assert_int_equal(s.spans, 0);
    }
}

static pthread_key_t key;
static uint64_t destroyed; /* atomic */

/*
 * Destructors of thread-specific data run before and after the number is given back. libc calls
 * them until none sets its value again, 4 times at most; ThreadSanitizer's is one of them and is of
 * no use to others any more in the last turn.
 */
static void allocate_at_the_end(void *value)
{
    static _Thread_local int turns;
    void *p = sa_front_alloc(200, 1, true);

    THREAD_CHECK(p != NULL);
    sa_front_free(p);
    sa_front_free(value);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_ACQ_REL);
    if (++turns < (SA_TSAN ? 3 : 100))
        pthread_setspecific(key, sa_front_alloc(10, 1, false)); /* once more */
}

static void set_destructor(int index, void *arg)
{
    (void)index;
    (void)arg;
    pthread_setspecific(key, sa_front_alloc(300, 1, false));
}

static void test_thread_slots_let_destructors_allocate(void **state)
{
    unsigned before = sa_thread_slots_in_use();

    (void)state;
    assert_int_equal(pthread_key_create(&key, allocate_at_the_end), 0);
    test_threads_run(THREADS, set_destructor, NULL);
    test_threads_check();
    assert_true(destroyed >= 2 * THREADS);
    assert_int_equal(sa_thread_slots_in_use(), before);
    pthread_key_delete(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_slots_are_distinct_and_come_back),
        cmocka_unit_test(test_thread_slots_give_back_what_caches_hold),
        cmocka_unit_test(test_thread_slots_let_destructors_allocate),
    };

    setenv("SALLOC_TEST_CACHES", "thread", 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("thread_slots", tests, NULL, NULL);
}
