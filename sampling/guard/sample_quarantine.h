/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sample quarantine: pages of sampled blocks that were freed stay inaccessible for a while. A
 * use after free faults, and a second free finds the history of the block. Spans and bytes are
 * bounded. Surplus spans are evicted at random, and return to their page heap.
 *
 * A span in quarantine has the state QUARANTINED, and belongs to the quarantine. The lock
 * SAMPLE_QUARANTINE guards the table. The quarantine changes protections and returns spans without
 * that lock: an entry whose protection is being changed is never evicted. Any thread may read
 * histories.
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
    uint64_t ever;        /* spans that entered since the start */
    size_t spans;         /* now: in quarantine or put aside, of either page heap */
    size_t bytes;         /* address space of those */
    size_t empty_bytes;   /* the unbacked part of those not put aside */
    size_t sampled_spans; /* of `spans`: those of the sampled heap */
    size_t sampled_bytes; /* address space of those */
    size_t limit_bytes;   /* the maximum of `bytes` without those put aside */
};

/* Sets the limit, before the first allocation. bytes: the maximum; 0: no span enters. seed: of the
 * random draws. */
void sa_sample_quarantine_init(size_t bytes, uint64_t seed);

/* In a child of fork: seeds the random draws. */
void sa_sample_quarantine_seed(uint64_t seed);

/*
 * Called when there is no memory for a request: no span enters for 10 s. Inaccessible pages do not
 * count as data (RLIMIT_DATA). Other memory could take their share of that limit, and the kernel
 * would then refuse to make them accessible again.
 */
void sa_sample_quarantine_pause(void);
bool sa_sample_quarantine_paused(void);

/* True if a span of `bytes` may enter, so that its history is worth recording. */
bool sa_sample_quarantine_wants(size_t bytes);

/*
 * Puts a span whose block was freed into quarantine, and takes over the references in its history.
 * unbacked: the pages hold no memory. False: there was no room or a pause; span and references
 * still belong to the caller. Makes system calls; the caller holds no lock.
 */
bool sa_sample_quarantine_put(struct sa_span *span, const struct sa_block_history *history,
                              bool unbacked);

/*
 * Returns a freed span, of which a part may be inaccessible, to its page heap. If the kernel
 * refuses to make it accessible, as it may at a limit, the span is put aside until
 * sa_sample_quarantine_retry. unbacked: the pages hold no memory. The caller holds no lock.
 */
void sa_sample_quarantine_return(struct sa_span *span, bool unbacked);

/* Returns the spans that were put aside: all that the kernel permits, or (all == false) until it
 * refuses one. False: it refused one. The caller holds no lock. */
bool sa_sample_quarantine_retry(bool all);

/* Returns all spans to the page heaps. The caller holds no lock. */
void sa_sample_quarantine_flush(void);

/* Looks up an address in the quarantine; false: it is elsewhere. Async-signal-safe; no lock. */
bool sa_sample_quarantine_find(uintptr_t address, struct sa_lookup *ret);

void sa_sample_quarantine_stats(struct sa_sample_quarantine_stats *ret);

#endif
