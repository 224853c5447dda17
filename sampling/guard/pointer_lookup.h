/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointer lookup in the inaccessible pages of large blocks. Such pages follow a block in use (every
 * large block in the hardened modes, else some sampled ones), or are those of a block in
 * quarantine. Lookups take no lock: a result is what the radix map and the spans say at that
 * moment.
 */
#ifndef SA_SAMPLING_GUARD_POINTER_LOOKUP_H
#define SA_SAMPLING_GUARD_POINTER_LOOKUP_H

#include "pagemap/span.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of large blocks that end before an inaccessible page; atomic, relaxed. */
extern uint32_t sa_large_guards;

/* Looks up an address in such pages; false: it is elsewhere. Async-signal-safe. */
bool sa_lookup_large(uintptr_t address, struct sa_lookup *ret);

/* Corrects the lookup result of an address in the pages of a freed block. If the address lies
 * behind the end of that block, and nearer to the next block, which is in use, *found describes the
 * next block afterwards. Async-signal-safe. */
void sa_lookup_nearer(uintptr_t address, struct sa_lookup *found);

/* Describes the sampled block of a span, guarded or not, for a report; false: the block is not
 * sampled. */
bool sa_lookup_sample(const struct sa_span *span, struct sa_lookup *ret);

#endif
