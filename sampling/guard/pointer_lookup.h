/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inaccessible pages of large blocks: those that follow a block in use (all blocks in the hardened
 * modes, else sampled ones), and those of blocks in quarantine. No lock: what the map and the spans
 * say at the moment.
 */
#ifndef SA_SAMPLING_GUARD_POINTER_LOOKUP_H
#define SA_SAMPLING_GUARD_POINTER_LOOKUP_H

#include "pagemap/span.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks that end before an inaccessible page; atomic, relaxed. */
extern uint32_t sa_large_guards;

/* What is known of an address in such a page. For signal handlers too. */
bool sa_lookup_large(uintptr_t address, struct sa_lookup *ret);

/* Of an address in the pages of a block that was freed, and what is known of that block: if the
 * address lies behind its end, and nearer to the next block, which is in use, *found becomes what
 * is known of the latter. */
void sa_lookup_nearer(uintptr_t address, struct sa_lookup *found);

/* What is known of the block of such a span, or of a large one, guarded or not; false: it is no
 * sample. For reports. */
bool sa_lookup_sample(const struct sa_span *span, struct sa_lookup *ret);

#endif
