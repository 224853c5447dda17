/* SPDX-License-Identifier: Apache-2.0 */
/* Running one function in several threads that begin together. */
#ifndef SA_TEST_THREADS_H
#define SA_TEST_THREADS_H

#define TEST_THREADS_MAX 64

typedef void test_thread_fn(int index, void *arg);

/* Runs fn(0, arg) .. fn(count - 1, arg), each in a thread, and waits for all. */
void test_threads_run(int count, test_thread_fn *fn, void *arg);

/*
 * Threads report failures through a word: cmocka's assertions only work in the thread that runs the
 * test. The first failure is kept; test_threads_check asserts that there was none.
 */
void test_thread_failed(const char *file, int line, const char *condition);
void test_threads_check(void);

#define THREAD_CHECK(c)                                                                            \
    do {                                                                                           \
        if (!(c))                                                                                  \
            test_thread_failed(__FILE__, __LINE__, #c);                                            \
    } while (0)

#endif
