/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs with one planted bug each, which run with every block guarded. Their first comment
 * tells run.py what is to be found:
 *
 *   EXPECT: regular expression that the first line on stderr matches after "salloc: "; empty: no
 *           report
 *   SIGNAL: names of the signals that may end the program, separated by |; or the exit code
 *   STACKS: what the report tells, as event=function: the function is in one of the first three
 *           frames; or event|event=function
 *   ARGS:   axes of values, separated by blanks, as in the folder fatal; several lines add up
 *
 * A line that begins with more than one blank continues the one before it, after one blank.
 *
 * Bugs are repeated, each time with a block of its own: which side of a block is guarded is random,
 * and a slot may be used again soon.
 */
#ifndef SA_TEST_PLANTED_H
#define SA_TEST_PLANTED_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLANTED_SURVIVED = 3, PLANTED_TIMES = 40 };

#define PLANTED_FUNCTION __attribute__((noinline, noclone, unused)) static

/* Keeps a call from becoming a jump, so that the function is on the stack. */
#define PLANTED_END __asm__ volatile("" ::: "memory")

PLANTED_FUNCTION char *make(size_t size)
{
    char *p = (char *)malloc(size);

    if (!p)
        _exit(1);
    memset(p, 1, size);
    PLANTED_END;
    return p;
}

PLANTED_FUNCTION void drop(void *p)
{
    free(p);
    PLANTED_END;
}

PLANTED_FUNCTION void *resize(void *p, size_t size)
{
    void *q = realloc(p, size);

    PLANTED_END;
    return q;
}

PLANTED_FUNCTION void touch_write(volatile char *p)
{
    *p = 7;
    PLANTED_END;
}

PLANTED_FUNCTION void touch_read(const volatile char *p)
{
    (void)*p;
    PLANTED_END;
}

/* What a program does meanwhile. */
PLANTED_FUNCTION void delay(size_t times, size_t size)
{
    for (size_t i = 0; i < times; i++)
        drop(make(size));
}

static inline long planted_arg(int argc, char **argv, int i)
{
    if (i >= argc)
        _exit(1);
    return strtol(argv[i], NULL, 0);
}

#endif
