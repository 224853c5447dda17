/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of sampled blocks that were freed, kept inaccessible for a while: a use after free faults,
 * and a second free finds the block's history. At most so many, and so many bytes; which go back to
 * the page heap when there are too many is random.
 *
 * A span that is kept has the state KEPT, and is the table's. The table is under KEPT; protections
 * change, and spans go back, without it: an entry that is being protected is not chosen. Histories
 * are read by anybody.
 */
#ifndef SA_SAMPLING_GUARD_SAMPLE_QUARANTINE_H
#define SA_SAMPLING_GUARD_SAMPLE_QUARANTINE_H

#include "pagemap/span.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_SAMPLE_QUARANTINE_MAX 128

struct sa_sample_quarantine_stats {
    uint64_t ever;        /* spans that were kept */
    size_t spans;         /* now, those put aside and those of the sampled heap among them */
    size_t bytes;         /* of all of them: address space */
    size_t empty_bytes;   /* of those not put aside that hold no memory */
    size_t sampled_spans; /* of the sampled heap */
    size_t sampled_bytes; /* the same */
    size_t limit_bytes;
};

/* Before the first allocation. bytes: at most so many, 0: nothing is kept. */
void sa_sample_quarantine_init(size_t bytes, uint64_t seed);

/* The random draws from now on: in a child of fork. */
void sa_sample_quarantine_seed(uint64_t seed);

/*
 * There is no memory for a request: nothing is kept for ten seconds. What is inaccessible does not
 * count as data (RLIMIT_DATA), so that others could take its place, and it could not be made
 * accessible any more.
 */
void sa_sample_quarantine_pause(void);
bool sa_sample_quarantine_paused(void);

/* Whether a span of so many bytes can be kept: the history is then worth having. */
bool sa_sample_quarantine_wants(size_t bytes);

/*
 * Keeps a span whose block was freed, and takes over the references in its history. empty: its
 * pages hold no memory. False: it was not, and they are still the caller's.
 */
bool sa_sample_quarantine_put(struct sa_span *span, const struct sa_block_history *history,
                              bool empty);

/*
 * A span that was freed, and of which a part may be inaccessible, goes back to its page heap; where
 * the kernel does not make it accessible, which at a limit it may refuse, it is put aside. empty:
 * its pages hold no memory.
 */
void sa_sample_quarantine_return(struct sa_span *span, bool empty);

/* Those that were put aside go back, all that can or only until one is refused again. False: one
 * was. */
bool sa_sample_quarantine_retry(bool all);

/* Gives all back to the page heaps. */
void sa_sample_quarantine_flush(void);

/* What is known of an address in a span that is kept. For signal handlers too. */
bool sa_sample_quarantine_find(uintptr_t address, struct sa_lookup *ret);

void sa_sample_quarantine_stats(struct sa_sample_quarantine_stats *ret);

#endif
