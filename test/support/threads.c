/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a test; see threads.h. */
#include "test/support/threads.h"

#include "test/support/cmocka.h"

#include <pthread.h>
#include <stdio.h>

struct thread {
    pthread_t id;
    int index;
    test_thread_fn *fn;
    void *arg;
    pthread_barrier_t *barrier;
};

static int thread_failures; /* atomic */
static char thread_first_failure[256];

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    pthread_barrier_wait(t->barrier);
    t->fn(t->index, t->arg);
    return NULL;
}

void test_threads_run(int count, test_thread_fn *fn, void *arg)
{
    struct thread threads[TEST_THREADS_MAX];
    pthread_barrier_t barrier;

    assert_in_range(count, 1, TEST_THREADS_MAX);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){.index = i, .fn = fn, .arg = arg, .barrier = &barrier};
        assert_int_equal(pthread_create(&threads[i].id, NULL, thread_main, &threads[i]), 0);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_join(threads[i].id, NULL), 0);
    pthread_barrier_destroy(&barrier);
}

void test_thread_failed(const char *file, int line, const char *condition)
{
    if (__atomic_fetch_add(&thread_failures, 1, __ATOMIC_ACQ_REL) == 0)
        snprintf(thread_first_failure, sizeof(thread_first_failure), "%s:%d: does not hold: %s",
                 file, line, condition);
}

/* The threads have been joined, which orders their writes before. */
void test_threads_check(void)
{
    int failures = thread_failures;

    thread_failures = 0;
    if (failures)
        print_error("%d failures in threads, the first: %s\n", failures, thread_first_failure);
    assert_int_equal(failures, 0);
}
