/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quarantine delays the reuse of freed blocks for a random time. It holds addresses and does
 * not touch the blocks. Small blocks, and large ones, whose memory was released, have a share each,
 * which is limited by bytes and by number.
 *
 * Any thread that is inside the gate may call the functions. They hold one lock (QUARANTINE) at a
 * time, and with it make one system call: mmap, for the tables. put, take and find give up if the
 * lock is not to be had for a while; count waits for it.
 */
#ifndef SA_HARDENING_QUARANTINE_H
#define SA_HARDENING_QUARANTINE_H

#include "alloc/base/attrs.h"
#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_QUARANTINE_MAX (1ul << 40) /* bytes */

/* A block with its class; 0: a large block. */
struct sa_quarantined {
    void *block;
    unsigned cls;
};

enum sa_quarantine_result {
    SA_QUARANTINE_TAKEN,
    /* Too large, no memory for the tables, full, or the lock was not to be had. */
    SA_QUARANTINE_REFUSED,
    /* The block is in quarantine already; detected only where blocks have no canaries. */
    SA_QUARANTINE_TWICE,
};

struct sa_quarantine_stats {
    size_t small_bytes, small_blocks;
    size_t large_bytes, large_blocks; /* address space of large blocks */
    size_t limit_bytes;
};

/* The maximum number of large blocks in quarantine, as each takes mappings. Set before the first
 * allocation, constant afterwards. */
extern size_t sa_quarantine_max SA_HIDDEN;

/* Sets the limit: `bytes` of small blocks, and 16 times as much address space of large ones. 0: no
 * quarantine. Called before the first allocation. */
void sa_quarantine_init(size_t bytes);

/* Puts a block into quarantine. TAKEN: the quarantine owns the block. */
enum sa_quarantine_result sa_quarantine_put(struct sa_quarantined block) SA_INSIDE_GATE;

/* Takes a block out at random if its kind (small or large) exceeds its limit, or in any case if
 * `all`. The caller then owns the block. False: there is none to take. */
bool sa_quarantine_take(bool large, bool all, struct sa_quarantined *ret) SA_INSIDE_GATE;

/*
 * Finds the first small block for which `damaged` returns true, among up to n blocks from position
 * *at, and advances *at; 0 is the start. False: none was damaged, or the lock was not to be had.
 * `damaged` is called with the lock held.
 */
bool sa_quarantine_find(bool (*damaged)(struct sa_quarantined block), size_t *at, size_t n,
                        struct sa_quarantined *ret) SA_INSIDE_GATE;

/* The number of blocks of a class in quarantine. */
size_t sa_quarantine_count(unsigned cls) SA_INSIDE_GATE;
/* The amounts now, read without a lock. */
void sa_quarantine_stats(struct sa_quarantine_stats *ret);

#endif
