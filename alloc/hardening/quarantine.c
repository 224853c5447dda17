/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quarantine; see quarantine.h.
 *
 * Small blocks are split into parts by the hash of their address, so that threads seldom want the
 * same lock, and so that a block that is freed twice is found: both frees come to the same part. A
 * part has a list, from which victims are chosen, and without canaries a set of the same blocks.
 * When the quarantine is in excess, a random part gives up a block. If another random part is much
 * fuller, that one does, which keeps all parts within their room. (If always the fuller of two gave
 * up a block, the emptiest part would hardly ever do so, and blocks that are freed again and again
 * come back to the same part.)
 *
 * Invariants, under the lock of a part (QUARANTINE): list and set hold the same blocks, and
 * of_class adds up to the list. The sums of a kind are atomic, and change after the lock is
 * released.
 */
#include "alloc/hardening/quarantine.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/base/rng.h"
#include "alloc/base/size_class.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "pagemap/pagemap.h"

#define PARTS 8 /* parts of the small blocks */
/* Address space of large blocks, which are unbacked, per byte of the limit. */
#define LARGE_FACTOR 16
/* The default of the maximum number of large blocks. */
#define LARGE_MAX     1024
#define BLOCK_TYPICAL 128          /* bytes that small blocks are assumed to have on average */
#define SMALL_MIN     (64 * PARTS) /* minimum of small blocks */
/* Maximum of small blocks. */
#define SMALL_MAX (32768 * PARTS)

#define CLS_SHIFT 56
/* Attempts to get a lock. */
#define LOCK_TRIES 1000

struct part {
    struct sa_lock lock;
    /* Blocks; also read without the lock, as a hint: written by atomic stores. */
    size_t count SA_GUARDED_BY(SA_RANK_QUARANTINE);
    /* Block, with its class in the upper byte; NULL: not mapped yet. */
    uint64_t *list SA_GUARDED_BY(SA_RANK_QUARANTINE);
    /* Hash table of the blocks, 0 in free places; NULL: blocks have canaries. */
    uint64_t *set SA_GUARDED_BY(SA_RANK_QUARANTINE);
    /* Blocks of each class. */
    uint32_t of_class[SA_CLASSES_MAX] SA_GUARDED_BY(SA_RANK_QUARANTINE);
} __attribute__((aligned(SA_CACHELINE)));

/* A kind of blocks: small or large ones. */
struct kind {
    struct part *parts;
    unsigned part_count;
    unsigned set_log;  /* log2 of the places of a set */
    size_t limit, max; /* limits of all parts */
    size_t room;       /* capacity of a part's list */
    /* Now, in all parts; atomic, relaxed: changed by the thread that puts or takes a block. */
    size_t bytes, count;
};

SA_START_DATA size_t sa_quarantine_max = LARGE_MAX;

static struct part parts[PARTS + 1];
static struct kind kinds[2] = {{.part_count = PARTS}, {.part_count = 1}};

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ARRAY("quarantine.kinds", kinds),
    SA_LAYOUT_STATE_EACH("quarantine.kinds", kinds, limit),
    SA_LAYOUT_STATE_EACH("quarantine.kinds", kinds, bytes),
    SA_LAYOUT_STATE_EACH("quarantine.kinds", kinds, count),
    SA_LAYOUT_STATE_ARRAY("quarantine.parts", parts),
    SA_LAYOUT_STATE_EACH("quarantine.parts", parts, of_class),
};
SA_LAYOUT_STATIC_ADDRESS("quarantine.kinds", kinds);
SA_LAYOUT_STATIC_ADDRESS("quarantine.parts", parts);

static void kind_init(struct kind *kind, struct part *first, size_t limit, size_t max)
{
    size_t share = max / kind->part_count;

    kind->parts = first;
    kind->limit = limit;
    kind->max = max;
    /* Parts do not fill evenly. */
    kind->room = share + share / 4 + 64;
    kind->set_log = sa_log2(kind->room + kind->room / 2) + 1;
    SA_DCHECK(kind->room < 1ul << kind->set_log); /* a search of the set ends at a free place */
}

void sa_quarantine_init(size_t bytes)
{
    bytes = sa_min(bytes, SA_QUARANTINE_MAX);
    kind_init(&kinds[0], parts, bytes, sa_max(sa_min(bytes / BLOCK_TYPICAL, SMALL_MAX), SMALL_MIN));
    kind_init(&kinds[1], parts + PARTS, bytes * LARGE_FACTOR, sa_quarantine_max);
}

static size_t block_bytes(struct sa_quarantined b)
{
    return b.cls ? sa_size_classes.of[b.cls].size
                 : sa_span_bytes(sa_pagemap_span((uintptr_t)b.block));
}

static uint64_t hash(uint64_t block)
{
    return sa_rng_mix(block ^ sa_hardening.key[2]);
}

/* The place of a block in the set, or the free place where it would be. */
static size_t set_find(const struct kind *kind, const struct part *part, uint64_t block)
    SA_REQUIRES(SA_RANK_QUARANTINE)
{
    size_t mask = (1ul << kind->set_log) - 1, at = hash(block) >> (64 - kind->set_log);

    while (part->set[at] && part->set[at] != block)
        at = (at + 1) & mask;
    return at;
}

/* Removes a block from the set, and moves blocks that would not be found any more into the free
 * place. */
static void set_remove(const struct kind *kind, struct part *part, uint64_t block)
    SA_REQUIRES(SA_RANK_QUARANTINE)
{
    size_t mask = (1ul << kind->set_log) - 1, hole = set_find(kind, part, block), at = hole;

    SA_DCHECK(part->set[hole] == block);
    while (part->set[at = (at + 1) & mask]) {
        size_t home = hash(part->set[at]) >> (64 - kind->set_log);

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            part->set[hole] = part->set[at];
            hole = at;
        }
    }
    part->set[hole] = 0;
}

/* Acquires the lock of a part, or gives up: a signal handler may have interrupted the holder on
 * this very thread. The body is not analysed, because the analysis does not follow a try whose
 * result is returned. */
static bool part_lock(struct part *part)
    SA_TRY_ACQUIRE(true, SA_RANK_QUARANTINE) SA_NO_THREAD_SAFETY_ANALYSIS
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (sa_lock_try(&part->lock, SA_RANK_QUARANTINE))
            return true;
        sa_cpu_relax();
    }
    return false;
}

/* Maps the tables of a part, at its first use. False: there is no memory. */
static bool part_prepare(const struct kind *kind, struct part *part) SA_REQUIRES(SA_RANK_QUARANTINE)
{
    size_t set = sa_hardening.canaries ? 0 : sizeof(*part->set) << kind->set_log;
    size_t list = kind->room * sizeof(*part->list);
    char *p;

    if (SA_LIKELY(part->list != NULL))
        return true;
    p = sa_vm_map(NULL, sa_align_up(list + set, sa_vm.page_bytes), "salloc:quarantine");
    if (!p)
        return false;
    part->set = set ? (uint64_t *)p : NULL;
    part->list = (uint64_t *)(p + set);
    return true;
}

/* Puts a block into a part. */
static enum sa_quarantine_result part_put(struct kind *kind, struct part *part,
                                          struct sa_quarantined b) SA_REQUIRES(SA_RANK_QUARANTINE)
{
    uint64_t block = (uintptr_t)b.block;

    if (!part_prepare(kind, part) || part->count == kind->room)
        return SA_QUARANTINE_REFUSED;
    if (part->set) {
        size_t at = set_find(kind, part, block);

        if (part->set[at])
            return SA_QUARANTINE_TWICE;
        part->set[at] = block;
    }
    SA_DCHECK(part->count < kind->room && b.cls < SA_CLASSES_MAX);
    part->list[part->count] = block | (uint64_t)b.cls << CLS_SHIFT;
    sa_store_relaxed(&part->count, part->count + 1);
    part->of_class[b.cls]++;
    return SA_QUARANTINE_TAKEN;
}

enum sa_quarantine_result sa_quarantine_put(struct sa_quarantined b)
{
    struct kind *kind = &kinds[b.cls == 0];
    struct part *part = &kind->parts[hash((uintptr_t)b.block) % kind->part_count];
    size_t bytes = block_bytes(b);
    enum sa_quarantine_result result;

    if (bytes > kind->limit / PARTS)
        return SA_QUARANTINE_REFUSED;
    if (!part_lock(part))
        return SA_QUARANTINE_REFUSED;
    result = part_put(kind, part, b);
    sa_lock_release(&part->lock, SA_RANK_QUARANTINE);
    if (result == SA_QUARANTINE_TAKEN) {
        sa_add_relaxed(&kind->bytes, bytes);
        sa_add_relaxed(&kind->count, 1ul);
    }
    return result;
}

/* Takes a block at random out of a part that has one. */
static struct sa_quarantined part_take(struct kind *kind, struct part *part, uint64_t random)
    SA_REQUIRES(SA_RANK_QUARANTINE)
{
    size_t at = random % part->count;
    uint64_t block = part->list[at] & ((1ull << CLS_SHIFT) - 1);
    unsigned cls = (unsigned)(part->list[at] >> CLS_SHIFT);

    SA_DCHECK(part->count && part->count <= kind->room && part->of_class[cls]);
    part->list[at] = part->list[part->count - 1];
    sa_store_relaxed(&part->count, part->count - 1);
    part->of_class[cls]--;
    if (part->set)
        set_remove(kind, part, block);
    return (struct sa_quarantined){(void *)block, cls};
}

bool sa_quarantine_take(bool large, bool all, struct sa_quarantined *ret)
{
    struct kind *kind = &kinds[large];
    uint64_t random;
    unsigned first, second;
    size_t here;
    bool got = false;

    if (!all && sa_load_relaxed(&kind->bytes) <= kind->limit &&
        sa_load_relaxed(&kind->count) <= kind->max)
        return false;
    random = sa_rng_next(&sa_hardening.rng);
    first = random % kind->part_count;
    second = (random >> 8) % kind->part_count;
    here = sa_load_relaxed(&kind->parts[first].count);
    if (sa_load_relaxed(&kind->parts[second].count) > here + here / 8 + 8)
        first = second;
    for (unsigned i = 0; !got && i < kind->part_count; i++) {
        struct part *part = &kind->parts[(first + i) % kind->part_count];

        if (!part_lock(part))
            continue;
        got = part->count != 0;
        if (got)
            *ret = part_take(kind, part, random >> 16);
        sa_lock_release(&part->lock, SA_RANK_QUARANTINE);
    }
    if (got) {
        sa_sub_relaxed(&kind->bytes, block_bytes(*ret));
        sa_sub_relaxed(&kind->count, 1ul);
    }
    return got;
}

/* The block at a position of the list. */
static struct sa_quarantined part_block(const struct part *part, size_t at)
    SA_REQUIRES(SA_RANK_QUARANTINE)
{
    uint64_t block = part->list[at] & ((1ull << CLS_SHIFT) - 1);

    return (struct sa_quarantined){(void *)block, (unsigned)(part->list[at] >> CLS_SHIFT)};
}

bool sa_quarantine_find(bool (*damaged)(struct sa_quarantined block), size_t *at, size_t n,
                        struct sa_quarantined *ret)
{
    const struct kind *kind = &kinds[0];
    struct part *part;
    bool found = false;

    if (!kind->parts)
        return false;
    part = &kind->parts[*at / kind->room % kind->part_count];
    if (!part_lock(part))
        return false;
    for (size_t i = *at % kind->room; !found && n-- && i < part->count; i++) {
        *ret = part_block(part, i);
        found = damaged(*ret);
        (*at)++;
    }
    if (*at % kind->room >= part->count) /* continue with the next part */
        *at = (*at / kind->room + 1) * kind->room;
    sa_lock_release(&part->lock, SA_RANK_QUARANTINE);
    if (*at >= kind->room * kind->part_count)
        *at = 0;
    return found;
}

size_t sa_quarantine_count(unsigned cls)
{
    const struct kind *kind = &kinds[cls == 0];
    struct part *first = cls ? parts : parts + PARTS;
    size_t n = 0;

    for (unsigned i = 0; kind->limit && i < kind->part_count; i++) {
        sa_lock_acquire(&first[i].lock, SA_RANK_QUARANTINE);
        n += first[i].of_class[cls];
        sa_lock_release(&first[i].lock, SA_RANK_QUARANTINE);
    }
    return n;
}

void sa_quarantine_stats(struct sa_quarantine_stats *ret)
{
    ret->limit_bytes = kinds[0].limit;
    ret->small_bytes = sa_load_relaxed(&kinds[0].bytes);
    ret->small_blocks = sa_load_relaxed(&kinds[0].count);
    ret->large_bytes = sa_load_relaxed(&kinds[1].bytes);
    ret->large_blocks = sa_load_relaxed(&kinds[1].count);
}
