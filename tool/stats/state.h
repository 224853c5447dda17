/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a target's library in place of this process's own. sallocctl has the code of the
 * library in it, with all variables. To report on a target, a child process copies the target's
 * state to these variables, and the library's own code makes the report (stats_page.c).
 *
 * Nothing that is copied leads anywhere: numbers are copied by name (SA_LAYOUT_STATE), records that
 * pointers lead to become new records here, with bounds on their number, and whatever the library
 * uses as an index, a divisor or a bound is checked.
 */
#ifndef SA_TOOL_STATS_STATE_H
#define SA_TOOL_STATS_STATE_H

#include "tool/layout/table.h"

struct sa_state {
    struct sa_target *target;
    const struct sa_table *table;
    struct sa_error *e;
    uint64_t dropped; /* records that made no sense */
};

/* Copies all of it. False: *s->e says why. */
bool sa_state_take(struct sa_state *s);

/* Parts of it, in this order. state_numbers.c: what is no pointer. */
bool sa_state_take_numbers(struct sa_state *s);

/* state_caches.c: the caches of CPUs, and transfer caches. */
bool sa_state_take_caches(struct sa_state *s);

/* state_heap.c, state_ranges.c: hugepages and regions; free ranges, and free spans of sampled
 * blocks. */
bool sa_state_take_hugepages(struct sa_state *s);
bool sa_state_take_ranges(struct sa_state *s);

/* state_options.c */
bool sa_state_take_options(struct sa_state *s);

/* The address of a field of a variable; 0, and an error: there is none. */
uint64_t sa_state_place(struct sa_state *s, const char *variable, const char *record,
                        const char *field);

/* A pointer, or another word, in the target. 0: it cannot be read, or is 0. */
uint64_t sa_state_word(struct sa_state *s, uint64_t address);

/* Sets the error for a state that makes no sense; returns false. */
bool sa_state_damaged(struct sa_state *s, const char *what);

#endif
