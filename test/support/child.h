/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that runs in a process of its own: because it is meant to end the process, because it has to
 * meet the allocator in its first moments, or because it leaves it in a state that later tests must
 * not see. The parent must have no other threads.
 *
 * Inside a child, cmocka's assertions end it with SIGABRT instead of jumping back into the runner's
 * copy; CHILD_CHECK ends it with exit code 1.
 */
#ifndef SA_TEST_CHILD_H
#define SA_TEST_CHILD_H

#include <stdbool.h>
#include <stddef.h>

typedef void test_child_fn(void *arg);

/* What became of a child. */
struct test_child {
    int exit_code;   /* -1: ended by a signal */
    int signal;      /* 0: exited */
    char text[8192]; /* what it wrote to stderr */
};

/* Runs fn(arg) in a child, which exits with 0 when fn returns. */
struct test_child test_child_run(test_child_fn *fn, void *arg);

/* The child must return from fn with all its checks passed. */
void test_child_passes(test_child_fn *fn, void *arg);

/*
 * The child must abort, after exactly one line on stderr that begins with "salloc: " and contains
 * the text.
 */
void test_child_aborts(test_child_fn *fn, void *arg, const char *text);

/* The child must return from fn, after a report on stderr that begins with "salloc: " and contains
 * the text. */
void test_child_reports(test_child_fn *fn, void *arg, const char *text);

/* As test_child_aborts, with lines about stacks behind the first, that of the allocation among
 * them. */
void test_child_aborts_with_stacks(test_child_fn *fn, void *arg, const char *text);

void test_child_failed(const char *file, int line, const char *condition);

#define CHILD_CHECK(c)                                                                             \
    do {                                                                                           \
        if (!(c))                                                                                  \
            test_child_failed(__FILE__, __LINE__, #c);                                             \
    } while (0)

#endif
