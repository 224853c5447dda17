/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples become guarded: one in so many, but not the same stack again and again; and which
 * freed pages of others are kept. Either costs several system calls, and page faults in proportion
 * to the bytes, so both have a pace, which bounds what they can cost any program: unless all
 * samples are to be guarded, that is.
 *
 * For a moment from the first sample on there is none: short programs pay nothing, and others have
 * installed their own handlers of SIGSEGV by then, which the one of fault_handler.h calls exactly
 * as the kernel would.
 *
 * Any state of the counters is valid, so they are written without a lock, and an update that is
 * lost does no harm.
 */
#ifndef SA_SAMPLING_GUARD_GUARD_POLICY_H
#define SA_SAMPLING_GUARD_GUARD_POLICY_H

#include "include/salloc/profile.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_GUARD_POLICY_NS        20000000     /* from one choice to the next, at least */
#define SA_GUARD_POLICY_KEEP_NS   10000000     /* the same for pages that are kept */
#define SA_GUARD_POLICY_BYTE_NS   256          /* more than that for each byte of the last one, */
#define SA_GUARD_POLICY_MAX_BYTES (32ul << 20) /* up to so many */

#define SA_GUARD_POLICY_FIRST_NS 250000000 /* from the first sample to the first choice */

struct sa_guard_policy_stats {
    uint64_t every;   /* one sample in so many; 0: none */
    uint64_t chosen;  /* ever */
    uint64_t skipped; /* it was one's turn, but its stack had its share, or the pace was too high */
};

/* Before the first allocation. every: one sample in so many, 1: all of them, whatever their stack;
 * 0: none. */
void sa_guard_policy_init(uint64_t every, uint64_t seed);

/*
 * After that, with every sample chosen: as far as a budget goes that bounds what guarded blocks
 * cost. There is no pause at the start; when little of the budget is left, the stacks that have had
 * most are let through less.
 */
void sa_guard_policy_bound(void);

/* The random draws from now on, and how many samples come before the next choice: in a child of
 * fork. */
void sa_guard_policy_seed(uint64_t seed);

/* Whether the sample that is being taken is to be guarded: REQUESTED, or why not. */
enum salloc_guarded_status sa_guard_policy_make(const struct sa_stack *stack, size_t bytes,
                                                uint64_t now_ns);

/* Whether the pages of a sample that is taken now, and was not chosen, are to be kept when it is
 * freed. */
bool sa_guard_policy_keep(size_t bytes, uint64_t now_ns);

/* Whether a sampled large block is to end before an inaccessible page. */
bool sa_guard_policy_guard_large(uint64_t now_ns);

void sa_guard_policy_stats(struct sa_guard_policy_stats *ret);

#endif
