/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of call stacks; see stack.h. One lock (STACKS) guards everything here but the constant
 * parts of a stack; memory is mapped under it, which is rare.
 *
 * Memory is cut into blocks of 4 KiB, and a block into slots for stacks of up to so many frames. A
 * slot is free, live (its stack is referred to) or idle (nobody refers to it; it is kept because
 * the same stack is likely to come again). At the limit an idle stack makes room: one of the same
 * size by a clock that passes over what was used since it last came by; else a block without a live
 * stack is cut anew; else an idle stack with more room than is needed.
 *
 * Of the buckets as many are used as there are stacks, from a page of them up to the most: when a
 * stack is added, one bucket is split in two (linear hashing), so that nobody ever waits for more
 * than that.
 *
 * What an evicted stack had in its totals is added up in one place, so no sample is lost from the
 * sum.
 */
#include "sampling/stack/stack.h"

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK_BYTES  4096
#define BUCKETS      (1u << 16)
#define FEWEST       512                /* buckets in use */
#define CHUNK_FIRST  ((size_t)64 << 10) /* mapped at a time; doubled up to the most */
#define CHUNK_MAX    ((size_t)1 << 20)
#define DEFAULT_MAX  ((size_t)32 << 20)
#define CLOCK_BLOCKS 16 /* looked at for a stack that was not used lately */

/* Frames that fit into a slot of each size. */
static const uint8_t slot_frames[] = {4, 8, 12, 16, 24, 32, 48, SA_STACK_MAX};
#define SIZES (sizeof(slot_frames) / sizeof(*slot_frames))

struct links {
    struct links *prev, *next; /* NULL: in no list */
};

/* At the start of each block. Bit n of a mask is slot n. */
struct block {
    struct links ready; /* in table.ready[size]: has an idle slot */
    struct links quiet; /* in table.quiet: has stacks, none is live */
    uint32_t taken;     /* slots with a stack, live or idle */
    uint32_t live;
    uint32_t used;                     /* found again since the clock last came by */
    uint32_t ready_since, quiet_since; /* when it was put last in the list, by table.now */
    uint8_t size;
    uint8_t pad[11];
};

SA_STATIC_ASSERT(sizeof(struct block) == SA_CACHELINE, "slots begin on a line of their own");
SA_STATIC_ASSERT(sizeof(struct sa_stack) % 8 == 0, "slots are aligned");

static struct stack_table {
    struct sa_lock lock;
    struct sa_stack **buckets;
    uint32_t used, half;          /* buckets in use; half: a power of two, half <= used < 2 half */
    struct block *carving[SIZES]; /* the block with free slots, if there is one */
    struct links ready[SIZES], quiet; /* heads of rings */
    uintptr_t next, end;              /* blocks of the chunk mapped last */
    size_t chunk;                     /* bytes of the next one */
    uint32_t now;                     /* counts stacks added */
    struct sa_sums evicted;
    struct sa_stack_stats stats;
} table = {.used = FEWEST, .half = FEWEST, .chunk = CHUNK_FIRST, .stats.limit_bytes = DEFAULT_MAX};

struct sa_stack sa_stack_unknown;

SA_LAYOUT = {
    SA_LAYOUT_FIELD(struct stack_table, buckets),
    SA_LAYOUT_FIELD(struct stack_table, used),
    SA_LAYOUT_FIELD(struct stack_table, evicted),
    SA_LAYOUT_FIELD(struct stack_table, stats),
};
SA_LAYOUT_STATIC_ADDRESS("stack_table", table);

static void link_last(struct links *head, struct links *l)
{
    l->next = head;
    l->prev = head->prev;
    l->prev->next = l->next->prev = l;
}

static void unlink(struct links *l)
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

static struct block *ready_block(struct links *l)
{
    return (struct block *)((char *)l - offsetof(struct block, ready));
}

static size_t slot_bytes(unsigned size)
{
    return sizeof(struct sa_stack) + slot_frames[size] * sizeof(uintptr_t);
}

static unsigned slots_of(unsigned size)
{
    return (unsigned)((BLOCK_BYTES - sizeof(struct block)) / slot_bytes(size));
}

static unsigned size_for(unsigned depth)
{
    unsigned size = 0;

    while (slot_frames[size] < depth)
        size++;
    return size;
}

static struct sa_stack *stack_at(struct block *b, unsigned slot)
{
    return (struct sa_stack *)((char *)(b + 1) + slot * slot_bytes(b->size));
}

static struct block *block_of(const struct sa_stack *s)
{
    return (struct block *)((uintptr_t)s & ~(uintptr_t)(BLOCK_BYTES - 1));
}

static uint64_t hash_of(const uintptr_t *pc, unsigned depth)
{
    uint64_t a = depth, b = 0x9e3779b97f4a7c15, last = 0;
    unsigned i;

    for (i = 0; i + 1 < depth; i += 2) { /* two chains, so that multiplications overlap */
        a = (a ^ pc[i]) * 0xff51afd7ed558ccd;
        b = (b ^ pc[i + 1]) * 0xc4ceb9fe1a85ec53;
        a ^= a >> 32;
        b ^= b >> 29;
    }
    if (i < depth)
        last = pc[i] * 0xff51afd7ed558ccd;
    a = (a ^ (b >> 7) ^ last ^ last >> 31) * 0xc4ceb9fe1a85ec53 + b;
    return a ^ a >> 33;
}

static void link_ready(struct block *b)
{
    b->ready_since = table.now;
    link_last(&table.ready[b->size], &b->ready);
}

/* --- slots --- */

static void make_live(struct sa_stack *s)
{
    struct block *b = block_of(s);

    unlink(&b->quiet);
    b->live |= 1u << s->slot;
    if (b->live == b->taken)
        unlink(&b->ready);
}

static void make_idle(struct sa_stack *s)
{
    struct block *b = block_of(s);

    if (b->live == b->taken)
        link_ready(b);
    b->live &= ~(1u << s->slot);
    if (!b->live) {
        b->quiet_since = table.now;
        link_last(&table.quiet, &b->quiet);
    }
}

static struct sa_stack **bucket_of(uint64_t hash)
{
    uint32_t at = hash & (2 * table.half - 1);

    return &table.buckets[at < table.used ? at : at - table.half];
}

/* One more bucket, with a part of the stacks of another. */
static void split_bucket(void)
{
    struct sa_stack **from = &table.buckets[table.used - table.half];
    struct sa_stack **to = &table.buckets[table.used];

    while (*from) {
        struct sa_stack *s = *from;

        if (s->hash & table.half) {
            *from = s->next;
            s->next = *to;
            *to = s;
        } else {
            from = &s->next;
        }
    }
    if (++table.used == 2 * table.half)
        table.half *= 2;
}

/* Forgets an idle stack. Its slot is still taken, as far as the masks know. */
static void evict(struct sa_stack *s)
{
    struct sa_stack **at = bucket_of(s->hash);

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    sa_sums_merge(&table.evicted, &s->totals);
    table.stats.stacks--;
    table.stats.evicted++;
}

/* The slot of an idle stack of this size, evicted; NULL if there is none. */
SA_RARE static struct sa_stack *replace_idle(unsigned size)
{
    struct links *head = &table.ready[size];
    struct block *b;
    uint32_t old;

    if (head->next == head)
        return NULL;
    for (int n = 0;; n++) {
        b = ready_block(head->next);
        old = b->taken & ~b->live & ~b->used;
        unlink(&b->ready);
        link_ready(b);
        if (n == CLOCK_BLOCKS)
            old = b->taken & ~b->live;
        if (old)
            break;
        b->used = 0;
    }
    evict(stack_at(b, sa_lowest_bit(old)));
    return stack_at(b, sa_lowest_bit(old));
}

/* Whole blocks: of the chunk, else of a new one. */
static struct block *new_block(void)
{
    struct block *b;

    if (table.next == table.end) {
        size_t room = table.stats.limit_bytes - sa_min(table.stats.bytes, table.stats.limit_bytes);
        size_t bytes = sa_align_down(sa_min(table.chunk, room), sa_max(sa_vm.page_bytes, 4096));
        void *p = bytes ? sa_vm_map(NULL, bytes, "salloc:stacks") : NULL;

        if (!p)
            return NULL;
        table.stats.bytes += bytes;
        table.chunk = sa_min(2 * table.chunk, CHUNK_MAX);
        table.next = (uintptr_t)p;
        table.end = table.next + bytes;
    }
    b = (struct block *)table.next;
    table.next += BLOCK_BYTES;
    return b;
}

static struct block *quiet_first(void)
{
    if (table.quiet.next == &table.quiet)
        return NULL;
    return (struct block *)((char *)table.quiet.next - offsetof(struct block, quiet));
}

/* Whether the block that has been quiet for longest has waited longer than the next idle stack of a
 * size. */
static bool quiet_goes_first(unsigned size)
{
    const struct block *b = quiet_first();
    struct links *ready = table.ready[size].next;

    if (!b || ready == &table.ready[size])
        return b;
    return (int32_t)(b->quiet_since - ready_block(ready)->ready_since) <= 0;
}

/* A block without live stacks, emptied; NULL if there is none. */
static struct block *quiet_block(void)
{
    struct block *b = quiet_first();

    if (!b)
        return NULL;
    unlink(&b->quiet);
    unlink(&b->ready);
    for (uint32_t left = b->taken; left; left &= left - 1)
        evict(stack_at(b, sa_lowest_bit(left)));
    if (table.carving[b->size] == b)
        table.carving[b->size] = NULL;
    b->taken = b->used = 0;
    return b;
}

static struct sa_stack *carve(struct block *b)
{
    unsigned size = b->size, slot = sa_lowest_bit(~b->taken);
    struct sa_stack *s = stack_at(b, slot);

    s->slot = (uint16_t)slot;
    /* The stack will be made live; until then the masks say idle, lists included. */
    if (b->live == b->taken)
        link_ready(b);
    b->taken |= 1u << slot;
    table.carving[size] = slot + 1 < slots_of(size) ? b : NULL;
    return s;
}

static struct sa_stack *find_slot(unsigned depth)
{
    unsigned size = size_for(depth);
    struct block *b = table.carving[size];
    struct sa_stack *s;

    if (!b)
        b = new_block();
    if (!b && quiet_goes_first(size))
        b = quiet_block();
    if (!b) {
        s = replace_idle(size);
        if (s)
            return s;
    }
    if (b) {
        b->size = (uint8_t)size;
        return carve(b);
    }
    for (s = NULL; !s && ++size < SIZES;)
        s = replace_idle(size);
    return s;
}

/* --- table --- */

static bool start(void)
{
    size_t bytes = BUCKETS * sizeof(*table.buckets);

    if (table.buckets)
        return true;
    table.buckets = sa_vm_map(NULL, bytes, "salloc:stacks");
    if (!table.buckets)
        return false;
    table.stats.bytes = bytes;
    table.quiet.prev = table.quiet.next = &table.quiet;
    for (unsigned i = 0; i < SIZES; i++)
        table.ready[i].prev = table.ready[i].next = &table.ready[i];
    return true;
}

static struct sa_stack *find(uint64_t hash, const uintptr_t *pc, unsigned depth)
{
    struct sa_stack *s = *bucket_of(hash);

    while (s &&
           (s->hash != hash || s->depth != depth || memcmp(s->pc, pc, depth * sizeof(*pc)) != 0))
        s = s->next;
    return s;
}

static struct sa_stack *add(uint64_t hash, const uintptr_t *pc, unsigned depth)
{
    struct sa_stack *s = find_slot(depth), **bucket;

    if (!s)
        return NULL;
    if (table.stats.stacks >= table.used && table.used < BUCKETS)
        split_bucket();
    bucket = bucket_of(hash);
    s->next = *bucket;
    s->hash = hash;
    s->references = 0;
    s->depth = (uint16_t)depth;
    memset(&s->totals, 0, sizeof(s->totals));
    memcpy(s->pc, pc, depth * sizeof(*pc));
    *bucket = s;
    table.stats.stacks++;
    table.now++;
    return s;
}

struct sa_stack *sa_stack_intern(const uintptr_t *pc, unsigned depth)
{
    struct sa_stack *s = NULL;
    uint64_t hash;

    if (depth > SA_STACK_MAX)
        depth = SA_STACK_MAX;
    hash = hash_of(pc, depth);
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    if (depth && start()) {
        s = find(hash, pc, depth);
        if (s)
            block_of(s)->used |= 1u << s->slot;
        else
            s = add(hash, pc, depth);
    }
    if (s) {
        if (s->references++ == 0)
            make_live(s);
    } else {
        table.stats.dropped++;
    }
    sa_lock_release(&table.lock, SA_RANK_STACKS);
    return s ? s : &sa_stack_unknown;
}

void sa_stack_ref_locked(struct sa_stack *stack)
{
    if (stack != &sa_stack_unknown && stack->references++ == 0)
        make_live(stack);
}

void sa_stack_ref(struct sa_stack *stack)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    sa_stack_ref_locked(stack);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

void sa_stack_unref(struct sa_stack *stack)
{
    if (stack == &sa_stack_unknown)
        return;
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    if (--stack->references == 0)
        make_idle(stack);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

static bool has_totals(const struct sa_stack *s)
{
    return s->totals.samples || s->totals.certain;
}

SA_RARE void sa_stack_each(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                           struct sa_sums *ret_evicted)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    for (unsigned i = 0; table.buckets && i < table.used; i++)
        for (struct sa_stack *s = table.buckets[i]; s; s = s->next)
            if (has_totals(s))
                visit(s, arg);
    *ret_evicted = table.evicted;
    sa_sums_merge(ret_evicted, &sa_stack_unknown.totals);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

SA_RARE void sa_stack_stats(struct sa_stack_stats *ret)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    *ret = table.stats;
    ret->evicted_samples = table.evicted.samples + table.evicted.certain;
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

SA_RARE void sa_stack_table_limit(size_t bytes)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    table.stats.limit_bytes = bytes;
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}
