/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that misuse malloc on purpose. Each does one forbidden thing, which must be
 * reported, and must be stopped by it. Its first comment tells run.py what to expect:
 *
 *   EXPECT: regular expression that the text after "salloc: " on stderr matches from its start
 *   ARGS:   axes of values, separated by blanks; an axis is a list like 1,2,8-16; the program runs
 *           once for every combination. Several such lines add up.
 *   SURVIVES: yes, if the program goes on after the report, except in a hardened build
 *   REPORTS: how many lines begin a report, if more than one
 *   NAMES:  damaged, if names of functions cannot be read; none, if the line is the program's own
 *
 * A line that begins with more than one blank continues the one before it, after one blank.
 *
 * A program that survives exits with FATAL_SURVIVED; one for which a combination makes no sense
 * with FATAL_SENSELESS.
 */
#ifndef SA_TEST_FATAL_H
#define SA_TEST_FATAL_H

#include <malloc.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FATAL_SURVIVED = 3, FATAL_SENSELESS = 77 };

/* In C23 and in the library; not in every libc's header yet. */
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);

/* Says which pointer the message must name. Allocates nothing. */
static inline void *fatal_names(void *p)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "0x%lx\n", (unsigned long)(uintptr_t)p);

    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(1);
    return p;
}

/* Keeps the process on one CPU: caches are per CPU, and some misuse is only found in the same
 * one. */
static inline void fatal_pin(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();

    CPU_ZERO(&set);
    CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* An argument, in any base that strtoul knows. */
static inline size_t fatal_arg(int argc, char **argv, int i)
{
    if (i >= argc)
        _exit(1);
    return strtoul(argv[i], NULL, 0);
}

/* A call whose result nobody wants. */
#define FATAL_IGNORE(call)                                                                         \
    do {                                                                                           \
        if (call)                                                                                  \
            __asm__ volatile("" ::: "memory");                                                     \
    } while (0)

#endif
