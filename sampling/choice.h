/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples become guarded: one in so many, but not the same stack again and again; and which freed pages of
 * others are kept. Either costs several system calls, so both have a pace, which bounds what they can cost any program:
 * unless all samples are to be guarded, that is.
 *
 * Any state of the counters is valid, so they are written without a lock, and an update that is lost does no harm.
 */
#ifndef SA_SAMPLING_CHOICE_H
#define SA_SAMPLING_CHOICE_H

#include "sampling/stack.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_CHOICE_NS      20000000 /* from one choice to the next, at least */
#define SA_CHOICE_KEEP_NS 10000000 /* the same for pages that are kept */

struct sa_choice_stats {
    uint64_t every;   /* one sample in so many; 0: none */
    uint64_t chosen;  /* ever */
    uint64_t skipped; /* it was one's turn, but its stack had its share, or the pace was too high */
};

/* Before the first allocation. every: one sample in so many, 1: all of them, whatever their stack; 0: none. */
void sa_choice_init(uint64_t every, uint64_t seed);

/* Whether the sample that is being taken is to be guarded. */
bool sa_choice_make(const struct sa_stack *stack, uint64_t now_ns);

/* Whether the pages of a sample that is taken now, and was not chosen, are to be kept when it is freed. */
bool sa_choice_keep(uint64_t now_ns);

void sa_choice_stats(struct sa_choice_stats *ret);

#endif
