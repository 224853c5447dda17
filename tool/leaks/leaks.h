/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaks: sampled blocks that the program cannot reach any more. A block that only other such blocks
 * point to is held by one of them, from which it can be reached; the others are lost by themselves.
 */
#ifndef SA_TOOL_LEAKS_LEAKS_H
#define SA_TOOL_LEAKS_LEAKS_H

#include "tool/leaks/mark.h"
#include "tool/reading/reading.h"

#define SA_LEAK_NONE    UINT32_MAX       /* it can be reached */
#define SA_LEAK_UNKNOWN (UINT32_MAX - 1) /* where it lies could not be read */

struct sa_leaks {
    struct sa_pages pages;
    struct sa_scan scan;
    struct sa_heap heap;
    struct sa_mark mark;
    /* [sample]: the number of the sample that holds it, its own if it is lost by itself, or one of
     * the above. */
    uint32_t *holder;
    size_t count;         /* samples */
    size_t lost, unknown; /* of these: lost, held or not; of which nothing is known */
};

/* Reads the heap, and takes all memory that the search needs. The target may run: then this only
 * shows whether there is enough. False: *e says why. */
bool sa_leaks_open(struct sa_leaks *l, struct sa_reading *r, const struct sa_live_copy *live,
                   struct sa_error *e);

/* Finds which samples can be reached. The target has not run since sa_leaks_open. */
bool sa_leaks_find(struct sa_leaks *l, struct sa_reading *r, const struct sa_threads *threads,
                   struct sa_error *e);

/* Finds who holds the others. The target may run: nobody changes what cannot be reached. */
bool sa_leaks_find_holders(struct sa_leaks *l, struct sa_error *e);

/* Frees all but what was found: the holders and the numbers. */
void sa_leaks_forget_heap(struct sa_leaks *l);

void sa_leaks_close(struct sa_leaks *l);

#endif
