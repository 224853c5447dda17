/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed blocks that are kept from being used again for a while: how long is random. The quarantine
 * holds addresses and does nothing to the blocks. Small blocks and large ones, whose memory has
 * gone back, have a share each, bounded by bytes and by number.
 *
 * The caller is inside of the gate. Nothing is called with a lock held but mmap for the tables.
 */
#ifndef SA_HARDENING_QUARANTINE_H
#define SA_HARDENING_QUARANTINE_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_QUARANTINE_MAX (1ul << 40) /* bytes */

/* A block, with its class; 0: a large one. */
struct sa_quarantined {
    void *block;
    unsigned cls;
};

enum sa_quarantine_result {
    SA_QUARANTINE_TAKEN,
    SA_QUARANTINE_REFUSED, /* too large, no memory for the tables, or a lock not to be had */
    SA_QUARANTINE_TWICE,   /* it is there already; looked for where blocks have no marks */
};

struct sa_quarantine_stats {
    size_t small_bytes, small_blocks;
    size_t large_bytes, large_blocks; /* address space */
    size_t limit_bytes;
};

/* Large blocks that may be there at a time, as each takes mappings. Set before the first
 * allocation. */
extern size_t sa_quarantine_most SA_HIDDEN;

/* bytes: of small blocks, and a share of that of address space for large ones; 0: none. */
void sa_quarantine_init(size_t bytes);

enum sa_quarantine_result sa_quarantine_put(struct sa_quarantined block);

/*
 * Takes a block out, at random, if there are more than there may be of the kind (of small ones, or
 * large ones), or in any case (all). False: none.
 */
bool sa_quarantine_take(bool large, bool all, struct sa_quarantined *ret);

/*
 * The first small block that `damaged` says is damaged, of up to n from the place *at on, which
 * becomes where to go on; 0: from the start. False: none was.
 */
bool sa_quarantine_find(bool (*damaged)(struct sa_quarantined block), size_t *at, size_t n,
                        struct sa_quarantined *ret);

/* Blocks of a class that are there. */
size_t sa_quarantine_count(unsigned cls);
void sa_quarantine_stats(struct sa_quarantine_stats *ret);

#endif
