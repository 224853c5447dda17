/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the function that checks a structure (sa_..._validate). The structure passes in order.
 * Where one field is wrong, the check of the invariant that the field belongs to ends the program.
 */
#ifndef TEST_SUPPORT_CORRUPTION_H
#define TEST_SUPPORT_CORRUPTION_H

#include "test/support/child.h"

#include <stddef.h>

struct corruption {
    void (*apply)(void);   /* changes a field */
    const char *condition; /* the check that fails */
};

/* A check, and what is changed before it; NULL: nothing. */
struct corruption_run {
    void (*validate)(void);
    const struct corruption *corruption;
};

static inline void corruption_run(void *arg)
{
    const struct corruption_run *run = arg;

    if (run->corruption)
        run->corruption->apply();
    run->validate();
}

static inline void check_passes_in_order(void (*validate)(void))
{
    test_child_passes(corruption_run, &(struct corruption_run){validate, NULL});
}

static inline void check_finds(void (*validate)(void), const struct corruption *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        test_child_aborts(corruption_run, &(struct corruption_run){validate, &list[i]},
                          list[i].condition);
}

/* tick: changes a field and ticks, which checks the structure in debug builds. */
static inline void check_finds_at_ticks(test_child_fn *tick, const char *condition)
{
#ifdef SA_DEBUG
    test_child_aborts(tick, NULL, condition);
#else
    (void)condition;
    test_child_passes(tick, NULL);
#endif
}

#endif
