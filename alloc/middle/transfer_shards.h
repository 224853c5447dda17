/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards of the transfer cache: a shard has a stack of objects for each class, and each CPU uses
 * one shard. A CPU so gets back first the objects that it freed itself. Those are still in the
 * processor's caches, and their neighbours belong to the same threads. Blocks of two threads in one
 * cache line cost a miss for each write, for as long as both live.
 *
 * A CPU claims a shard when it first needs one. There are at most SA_SHARDS_MAX shards, and
 * SA_SHARDS_DOMAIN for each domain (last-level cache); further CPUs share them. A CPU whose own
 * stack is empty may take from the other shards of its domain.
 */
#ifndef SA_MIDDLE_TRANSFER_SHARDS_H
#define SA_MIDDLE_TRANSFER_SHARDS_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/page.h"
#include "alloc/os/lock.h"
#include "alloc/os/percpu.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_SHARDS_MAX    128
#define SA_SHARDS_DOMAIN 16 /* fewer if there are many domains */
#define SA_DOMAINS_MAX   64

/* One class's stack in one shard; see transfer_cache.c. */
struct sa_transfer {
    struct sa_lock lock;
    /* Objects; read by other threads without the lock, as a hint. */
    uint16_t used SA_GUARDED_BY(SA_RANK_TRANSFER);
    /* The least value of `used` since the last plunder: that many objects were of no use. */
    uint16_t low_water : 14 SA_GUARDED_BY(SA_RANK_TRANSFER);
    /* Enum in transfer_cache.c, for stacks that are the only one of their class. */
    uint16_t need : 2 SA_GUARDED_BY(SA_RANK_TRANSFER);
    /* NULL until first needed; the word before the first slot is their number. */
    void **slots SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t insert_hits SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t insert_misses SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t insert_partial SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t remove_hits SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t remove_misses SA_GUARDED_BY(SA_RANK_TRANSFER);
    uint64_t remove_partial SA_GUARDED_BY(SA_RANK_TRANSFER);
} __attribute__((aligned(SA_CACHELINE)));

struct sa_transfer_shards {
    int32_t first; /* atomic, relaxed, written once: one more than the CPU whose shard is number 0;
                      0: none yet */
    uint32_t more; /* atomic: further numbers that were claimed; there may be no shard behind some
                      of them */
    uint32_t domains; /* atomic, written once; 0 counts as 1 */
};

extern struct sa_transfer_shards sa_transfer_shards SA_HIDDEN;

/* The part that only programs on more than one CPU touch. */
struct sa_transfer_others {
    /* By number of the shard; each has a stack for each sa_first_use_index. Atomic: the CPU that
     * claims the number publishes with release. */
    struct sa_transfer *at[SA_SHARDS_MAX];
    uint8_t domain[SA_SHARDS_MAX]; /* atomic, relaxed: of the CPUs that use it */
    uint8_t of_cpu[SA_SLABS]; /* atomic: one more than the number of its shard; 0: none yet, or the
                                 first CPU */
    uint8_t domain_of_cpu[SA_SLABS]; /* atomic, relaxed: written by sa_transfer_split */
};

extern struct sa_transfer_others sa_transfer_others SA_HIDDEN;

/* The first shard, which is always there. */
extern struct sa_transfer sa_transfer_first[SA_CLASSES_MAX] SA_HIDDEN;

/* Finds a shard for a CPU that has none and is not the first; its number. */
unsigned sa_transfer_claim(int cpu);

/* The shard of that number, or NULL. */
SA_INLINE struct sa_transfer *sa_transfer_shard(unsigned number)
{
    return number ? sa_load_acquire(&sa_transfer_others.at[number]) : sa_transfer_first;
}

/* Above the numbers of all shards. */
SA_INLINE unsigned sa_transfer_shard_count(void)
{
    return 1 + sa_load_relaxed(&sa_transfer_shards.more);
}

/* The number of a CPU's shard, which is there. */
SA_INLINE unsigned sa_transfer_shard_of(int cpu)
{
    int32_t first = sa_load_relaxed(&sa_transfer_shards.first);
    unsigned number;

    if (SA_LIKELY(first == cpu + 1) || SA_UNLIKELY(cpu < 0 || cpu >= SA_SLABS) ||
        (!first && sa_cas_relaxed(&sa_transfer_shards.first, &first, cpu + 1)))
        return 0;
    number = sa_load_acquire(&sa_transfer_others.of_cpu[cpu]);
    return SA_LIKELY(number - 1 < SA_SHARDS_MAX) ? number - 1 : sa_transfer_claim(cpu);
}

#endif
