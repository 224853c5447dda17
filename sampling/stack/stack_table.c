/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of call stacks (stack.h). One lock (STACKS) guards everything here, except the constant
 * fields of a stack. Memory is mapped under the lock, which is rare.
 *
 * Memory is cut into blocks of 4 KiB, and each block into slots of one size. The size is a number
 * of frames. A slot is free, live or idle. The stack of a live slot has references. The stack of an
 * idle slot has none, and is kept because the same stack is likely to come again.
 *
 * At the limit an idle stack makes room. The first of these that exists is taken:
 * - a block without a live slot, if it has been quiet for longer than the next idle stack of the
 *   same size has been waiting: all its stacks are evicted, and it is cut anew;
 * - an idle stack of the same size, by the clock algorithm: stacks found again since the clock hand
 *   last passed stay;
 * - an idle stack of a larger size.
 *
 * The number of buckets in use follows the number of stacks, from STACK_BUCKETS_MIN to
 * STACK_BUCKETS_MAX. Each added stack splits at most one bucket in two (linear hashing, W. Litwin,
 * 1980), so no caller waits for a rehash of the table.
 *
 * The totals of evicted stacks are added to table.evicted, so sums over all stacks lose no sample.
 *
 * Invariants (sa_stack_table_validate): each stack of a bucket is in a taken slot, and each taken
 * slot has a stack in a bucket. A slot is live exactly if its stack has references. A block is in
 * a ready list exactly if it has an idle slot, and in the quiet list exactly if it has stacks but
 * no live one.
 */
#include "sampling/stack/stack.h"

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/os/vm.h"
#include "sampling/stack/stack_table_internal.h"

#include <stdbool.h>
#include <string.h>

#define CHUNK_MIN      ((size_t)64 << 10)  /* bytes mapped first; each mapping doubles the next */
#define CHUNK_PREPARED ((size_t)256 << 10) /* the same for a program that wants no page faults */
#define CHUNK_MAX      ((size_t)1 << 20)   /* bytes of the largest mapping */
#define DEFAULT_MAX    ((size_t)32 << 20)  /* limit of mapped bytes */
#define CLOCK_BLOCKS   16 /* blocks that the clock passes before it takes any idle stack */

static struct stack_table table = {.used = STACK_BUCKETS_MIN,
                                   .half = STACK_BUCKETS_MIN,
                                   .chunk = CHUNK_MIN,
                                   .stats.limit_bytes = DEFAULT_MAX};

SA_LAYOUT_USED struct sa_stack sa_stack_unknown;

SA_LAYOUT = {
    SA_LAYOUT_STATE("stack_table", table, stats),
    SA_LAYOUT_STATE("stack_table", table, evicted.samples),
    SA_LAYOUT_STATE("stack_table", table, evicted.certain),
    SA_LAYOUT_FIELD(struct stack_table, buckets),
    SA_LAYOUT_FIELD(struct stack_table, used),
    SA_LAYOUT_FIELD(struct stack_table, evicted),
    SA_LAYOUT_FIELD(struct stack_table, stats),
};
SA_LAYOUT_STATIC_ADDRESS("stack_table", table);

/* Adds a node before the head, at the end of the ring. */
static void link_last(struct stack_ring *head, struct stack_ring *l)
{
    SA_DCHECK(!l->next);
    l->next = head;
    l->prev = head->prev;
    l->prev->next = l->next->prev = l;
}

/* Removes the node from its ring, if it is in one. */
static void unlink(struct stack_ring *l)
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

static unsigned size_for(unsigned depth)
{
    unsigned size = 0;

    SA_DCHECK(depth > 0 && depth <= SA_STACK_MAX);
    while (stack_slot_frames[size] < depth)
        size++;
    return size;
}

static void link_ready(struct stack_block *b) SA_REQUIRES(SA_RANK_STACKS)
{
    b->ready_since = table.now;
    link_last(&table.ready[b->size], &b->ready);
}

/* --- slots --- */

/* Marks the slot of an idle stack as live. The caller has counted the first reference. */
static void make_live(struct sa_stack *s) SA_REQUIRES(SA_RANK_STACKS)
{
    struct stack_block *b = stack_block_of(s);

    SA_DCHECK(s->references == 1);
    SA_DCHECK(b->taken & ~b->live & 1u << s->slot);
    unlink(&b->quiet);
    b->live |= 1u << s->slot;
    if (b->live == b->taken)
        unlink(&b->ready);
}

/* Marks the slot of a live stack as idle. The caller has given back the last reference. */
static void make_idle(struct sa_stack *s) SA_REQUIRES(SA_RANK_STACKS)
{
    struct stack_block *b = stack_block_of(s);

    SA_DCHECK(s->references == 0);
    SA_DCHECK(b->live & 1u << s->slot);
    if (b->live == b->taken)
        link_ready(b);
    b->live &= ~(1u << s->slot);
    if (!b->live) {
        b->quiet_since = table.now;
        link_last(&table.quiet, &b->quiet);
    }
}

/* Takes one more bucket into use. It receives the stacks of bucket used - half whose hash has the
 * next bit. */
static void split_bucket(void) SA_REQUIRES(SA_RANK_STACKS)
{
    struct sa_stack **from = &table.buckets[table.used - table.half];
    struct sa_stack **to = &table.buckets[table.used];

    SA_DCHECK(table.used < STACK_BUCKETS_MAX && !*to);
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

/* Removes an idle stack from its bucket, and adds its totals to table.evicted. The caller updates
 * the masks of the block. */
SA_RARE static void evict(struct sa_stack *s) SA_REQUIRES(SA_RANK_STACKS)
{
    struct sa_stack **at = stack_bucket_of(&table, s->hash);

    SA_DCHECK(s->references == 0);
    while (*at != s) {
        SA_DCHECK(*at);
        at = &(*at)->next;
    }
    *at = s->next;
    sa_sums_merge(&table.evicted, &s->totals);
    table.stats.stacks--;
    table.stats.evicted++;
}

/*
 * Returns the slot of an idle stack of this size, which is evicted. NULL: the size has none. The
 * slot stays taken in the masks, and idle, for the stack to come. After CLOCK_BLOCKS blocks whose
 * idle stacks were all found again lately, the clock takes any idle stack.
 */
SA_RARE static struct sa_stack *replace_idle(unsigned size) SA_REQUIRES(SA_RANK_STACKS)
{
    struct stack_ring *head = &table.ready[size];
    struct stack_block *b;
    uint32_t old;

    if (head->next == head)
        return NULL;
    for (int n = 0;; n++) {
        b = stack_ready_block(head->next);
        old = b->taken & ~b->live & ~b->used;
        unlink(&b->ready);
        link_ready(b);
        if (n == CLOCK_BLOCKS)
            old = b->taken & ~b->live;
        if (old)
            break;
        b->used = 0;
    }
    evict(stack_in_slot(b, sa_lowest_bit(old)));
    return stack_in_slot(b, sa_lowest_bit(old));
}

/* Maps memory for blocks. False: the limit is reached, or the kernel has no memory. */
static bool map_blocks(void) SA_REQUIRES(SA_RANK_STACKS)
{
    size_t room = table.stats.limit_bytes - sa_min(table.stats.bytes, table.stats.limit_bytes);
    size_t bytes = sa_align_down(sa_min(table.chunk, room), sa_max(sa_vm.page_bytes, 4096));
    void *p = bytes ? sa_vm_map(NULL, bytes, "salloc:stacks") : NULL;

    if (!p)
        return false;
    table.stats.bytes += bytes;
    table.chunk = sa_min(2 * table.chunk, CHUNK_MAX);
    table.next = (uintptr_t)p;
    table.end = table.next + bytes;
    return true;
}

/* Returns an uncut block of the last mapping, or of a new one. NULL: there is no memory. */
static struct stack_block *new_block(void) SA_REQUIRES(SA_RANK_STACKS)
{
    struct stack_block *b;

    if (table.next == table.end && !map_blocks())
        return NULL;
    SA_DCHECK(table.next + STACK_BLOCK_BYTES <= table.end);
    b = (struct stack_block *)table.next;
    table.next += STACK_BLOCK_BYTES;
    return b;
}

/* Returns the block that has been quiet for longest, or NULL. */
static struct stack_block *quiet_first(void) SA_REQUIRES(SA_RANK_STACKS)
{
    if (table.quiet.next == &table.quiet)
        return NULL;
    return stack_quiet_block(table.quiet.next);
}

/* Returns whether the block that has been quiet for longest has waited for longer than the first
 * ready block of the size. */
static bool quiet_goes_first(unsigned size) SA_REQUIRES(SA_RANK_STACKS)
{
    const struct stack_block *b = quiet_first();
    struct stack_ring *ready = table.ready[size].next;

    if (!b || ready == &table.ready[size])
        return b;
    return (int32_t)(b->quiet_since - stack_ready_block(ready)->ready_since) <= 0;
}

/* Evicts all stacks of the block that has been quiet for longest, and returns it uncut. NULL: no
 * block is quiet. */
static struct stack_block *quiet_block(void) SA_REQUIRES(SA_RANK_STACKS)
{
    struct stack_block *b = quiet_first();

    if (!b)
        return NULL;
    SA_DCHECK(b->taken && !b->live);
    unlink(&b->quiet);
    unlink(&b->ready);
    for (uint32_t left = b->taken; left; left &= left - 1)
        evict(stack_in_slot(b, sa_lowest_bit(left)));
    if (table.carving[b->size] == b)
        table.carving[b->size] = NULL;
    b->taken = b->used = 0;
    return b;
}

/* Returns the first free slot of the block, as a taken and idle one. */
static struct sa_stack *carve(struct stack_block *b) SA_REQUIRES(SA_RANK_STACKS)
{
    unsigned size = b->size, slot = sa_lowest_bit(~b->taken);
    struct sa_stack *s = stack_in_slot(b, slot);

    SA_DCHECK(slot < stack_slots_of(size));
    s->slot = (uint16_t)slot;
    /* The caller makes the stack live. Until then the masks and the ready ring say idle. */
    if (b->live == b->taken)
        link_ready(b);
    b->taken |= 1u << slot;
    table.carving[size] = slot + 1 < stack_slots_of(size) ? b : NULL;
    return s;
}

/* Returns a slot for a stack of this depth, taken and idle. NULL: the table is at its limit, and
 * all stacks that are long enough have references. */
static struct sa_stack *find_slot(unsigned depth) SA_REQUIRES(SA_RANK_STACKS)
{
    unsigned size = size_for(depth);
    struct stack_block *b = table.carving[size];
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
    for (s = NULL; !s && ++size < STACK_SLOT_SIZES;)
        s = replace_idle(size);
    return s;
}

/* --- table --- */

/* Maps the buckets, if they are not there yet. False: no memory. */
static bool start(void) SA_REQUIRES(SA_RANK_STACKS)
{
    size_t bytes = STACK_BUCKETS_MAX * sizeof(*table.buckets);

    if (table.buckets)
        return true;
    table.buckets = sa_vm_map(NULL, bytes, "salloc:stacks");
    if (!table.buckets)
        return false;
    table.stats.bytes = bytes;
    table.quiet.prev = table.quiet.next = &table.quiet;
    for (unsigned i = 0; i < STACK_SLOT_SIZES; i++)
        table.ready[i].prev = table.ready[i].next = &table.ready[i];
    return true;
}

static struct sa_stack *find(uint64_t hash, const uintptr_t *pc, unsigned depth)
    SA_REQUIRES(SA_RANK_STACKS)
{
    struct sa_stack *s = *stack_bucket_of(&table, hash);

    while (s &&
           (s->hash != hash || s->depth != depth || memcmp(s->pc, pc, depth * sizeof(*pc)) != 0))
        s = s->next;
    return s;
}

/* Adds a stack without references to the table. NULL: no room. */
static struct sa_stack *add(uint64_t hash, const uintptr_t *pc, unsigned depth)
    SA_REQUIRES(SA_RANK_STACKS)
{
    struct sa_stack *s = find_slot(depth), **bucket;

    if (!s)
        return NULL;
    if (table.stats.stacks >= table.used && table.used < STACK_BUCKETS_MAX)
        split_bucket();
    bucket = stack_bucket_of(&table, hash);
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
    hash = stack_hash_of(pc, depth);
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    if (depth && start()) {
        s = find(hash, pc, depth);
        if (s)
            stack_block_of(s)->used |= 1u << s->slot;
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

SA_RARE void sa_stack_table_prepare(void)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    if (start()) {
        sa_vm_populate(table.buckets, STACK_BUCKETS_MAX * sizeof(*table.buckets));
        table.chunk = sa_max(table.chunk, CHUNK_PREPARED);
        if (table.next != table.end || map_blocks())
            sa_vm_populate((void *)table.next, table.end - table.next);
    }
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

void sa_stack_ref_locked(struct sa_stack *stack)
{
    SA_DCHECK_HELD(SA_RANK_STACKS);
    SA_DCHECK(stack->references < UINT32_MAX);
    if (stack != &sa_stack_unknown && stack->references++ == 0)
        make_live(stack);
}

void sa_stack_ref(struct sa_stack *stack)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    SA_DCHECK(stack == &sa_stack_unknown || stack->references > 0);
    sa_stack_ref_locked(stack);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

void sa_stack_unref(struct sa_stack *stack)
{
    if (stack == &sa_stack_unknown)
        return;
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    SA_DCHECK(stack->references > 0);
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
    SA_DCHECK_HELD(SA_RANK_SAMPLES);
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

SA_RARE void sa_stack_unload(uintptr_t start, uintptr_t end, uintptr_t base, const char *name)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    sa_stack_table_unload(&table, start, end, base, name);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

SA_RARE void sa_stack_table_limit(size_t bytes)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    table.stats.limit_bytes = bytes;
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}

SA_RARE void sa_stack_table_validate(void)
{
    sa_lock_acquire(&table.lock, SA_RANK_STACKS);
    sa_stack_table_check(&table);
    sa_lock_release(&table.lock, SA_RANK_STACKS);
}
