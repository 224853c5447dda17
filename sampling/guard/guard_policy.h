/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard policy decides which samples are guarded: one in N, and each stack less often the more
 * it was guarded before. It also decides the pages of which other samples enter the sample
 * quarantine when they are freed. Both cost several system calls, and page faults in proportion to
 * the bytes. A minimum pause after each one bounds that cost for every program, unless all samples
 * are to be guarded (N = 1).
 *
 * No sample is guarded within SA_GUARD_POLICY_FIRST_NS of the first one. Short programs therefore
 * pay nothing, and other programs have installed their own handlers of SIGSEGV by then. The handler
 * of fault_handler.h calls those exactly as the kernel would.
 *
 * Any state of the counters is valid. They are written without a lock, and a lost update does no
 * harm.
 */
#ifndef SA_SAMPLING_GUARD_GUARD_POLICY_H
#define SA_SAMPLING_GUARD_GUARD_POLICY_H

#include "include/salloc/profile.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_GUARD_POLICY_NS            20000000 /* minimum pause after a guarded sample */
#define SA_GUARD_POLICY_QUARANTINE_NS 10000000 /* minimum pause after quarantined pages */
#define SA_GUARD_POLICY_BYTE_NS       256      /* added to either for each byte of the sample, */
#define SA_GUARD_POLICY_MAX_BYTES     (32ul << 20) /* up to this many bytes */

#define SA_GUARD_POLICY_FIRST_NS 250000000 /* from the first sample to the first guarded one */

struct sa_guard_policy_stats {
    uint64_t every;    /* one sample in `every` is guarded; 0: none */
    uint64_t selected; /* samples chosen to be guarded since the start */
    uint64_t skipped;  /* samples whose turn it was, refused by the filter, a pause or the budget */
};

/* Sets the policy, before the first allocation. every: guard one sample in `every`; 1: all samples,
 * whatever their stacks; 0: none. seed: of the random draws. */
void sa_guard_policy_init(uint64_t every, uint64_t seed);

/*
 * Bounds the cost of guarded blocks by a budget instead of pauses; called after
 * sa_guard_policy_init with every == 1. Samples are then guarded from the start: the first `first`,
 * and then one in 5 ms. When less than half of the budget is left, the filter refuses the stacks
 * that were guarded most.
 */
void sa_guard_policy_bound(unsigned first);

/* In a child of fork: seeds the random draws, and draws anew how many samples precede the next
 * guarded one. */
void sa_guard_policy_seed(uint64_t seed);

/* Decides whether the sample that is being taken is guarded: SALLOC_GUARDED_REQUESTED, or the
 * reason why not. now_ns: of the coarse clock. Safe to call from any thread. */
enum salloc_guarded_status sa_guard_policy_make(const struct sa_stack *stack, size_t bytes,
                                                uint64_t now_ns);

/* True if the pages of a sample that is taken now, and is not guarded, are to enter the sample
 * quarantine when it is freed. */
bool sa_guard_policy_quarantine(size_t bytes, uint64_t now_ns);

/* True if a sampled large block is to end before an inaccessible page. */
bool sa_guard_policy_guard_large(uint64_t now_ns);

void sa_guard_policy_stats(struct sa_guard_policy_stats *ret);

#endif
