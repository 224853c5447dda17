/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded blocks; see guarded.h. State: sa_guarded, guarded as its fields say. */
#include "sampling/guard/guarded.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/base/rng.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/guarded_slots.h"
#include "sampling/guard/misuse.h"

#include <string.h>

#define RED_BYTES_MAX  128 /* of the red zones: bytes on each side of a block that are checked */
#define TRIES          8   /* places that are tried for a pool */
#define LARGE_FRACTION 8   /* 1/LARGE_FRACTION as many large slots as slots of one page */

#define guarded sa_guarded

SA_LAYOUT_USED struct sa_guarded_state sa_guarded;

SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_guarded", sa_guarded, large),
    SA_LAYOUT_STATE("sa_guarded", sa_guarded, succeeded),
    SA_LAYOUT_STATE("sa_guarded", sa_guarded, failed),
    SA_LAYOUT_STATE("sa_guarded", sa_guarded, max),
    SA_LAYOUT_STATE("sa_guarded", sa_guarded, pool),
    SA_LAYOUT_FIELD(struct slot, history),
    SA_LAYOUT_FIELD(struct slot, state),
    SA_LAYOUT_FIELD(struct slot, cls),
    SA_LAYOUT_VALUE(STATE_FREE),
};
SA_LAYOUT_ADDRESS(sa_guarded);

static void guarded_lock(void) SA_ACQUIRE(SA_RANK_GUARDED)
{
    sa_lock_acquire(&guarded.lock, SA_RANK_GUARDED);
}

static void guarded_unlock(void) SA_RELEASE(SA_RANK_GUARDED)
{
    sa_lock_release(&guarded.lock, SA_RANK_GUARDED);
}

void sa_guarded_init(size_t slots, uint64_t seed)
{
    guarded.pool[POOL_PAGE].wanted = sa_min(slots, SA_GUARDED_MAX);
    guarded.pool[POOL_LARGE].wanted =
        (guarded.pool[POOL_PAGE].wanted + LARGE_FRACTION - 1) / LARGE_FRACTION;
    guarded.rng = sa_rng_mix(seed);
}

SA_COLD void sa_guarded_init_zero(size_t slots)
{
    guarded.pool[POOL_ZERO].wanted = sa_min(slots, SA_GUARDED_MAX);
}

SA_COLD void sa_guarded_seed(uint64_t seed)
{
    guarded.rng = sa_rng_mix(seed);
}

static struct pool *pool_of(const struct slot *slot)
{
    return &guarded.pool[slot->pool];
}

/* True if a block of `requested` bytes lies in POOL_ZERO, and is never accessible. */
static bool pool_is_zero(size_t requested)
{
    return SA_UNLIKELY(!requested) && guarded.pool[POOL_ZERO].wanted;
}

static size_t pool_bytes(const struct pool *p)
{
    return p->count * (p->bytes + p->gap) + p->gap;
}

/* Maps an inaccessible pool of `bytes`, known to the radix map, at random in the second half of the
 * sampled window, which the sampled heap does not use. NULL: the system has no place. */
static char *pool_map(size_t bytes)
{
    const uintptr_t half = SA_HOME_START + SA_HOME_BYTES + SA_HOME_BYTES / 2;

    for (int i = 0; i < TRIES; i++) {
        uintptr_t hint = half + sa_rng_next(&guarded.rng) % (SA_HOME_BYTES / 4);
        char *p = sa_vm_map_hidden((void *)sa_align_down(hint, 1ul << 21), bytes, "salloc:guarded");

        if (!p)
            return NULL;
        if ((uintptr_t)p % SA_PAGE_BYTES == 0 && sa_page_heap_sampled_address((uintptr_t)p) &&
            sa_page_heap_sampled_address((uintptr_t)p + bytes - 1) &&
            sa_pagemap_grow((uintptr_t)p, bytes) && sa_vm_protect(p, bytes, false))
            return p; /* protected last: unmapped ranges should be accessible, see vm.c */
        sa_vm_unmap_hidden(p, bytes);
    }
    return NULL;
}

/* Maps a pool and its records. False: there is no memory or place. */
static bool pool_make(struct pool *pool, size_t bytes) SA_REQUIRES(SA_RANK_GUARDED)
{
    size_t numbers = sa_align_up(pool->wanted * sizeof(uint16_t), 16);
    size_t table =
        sa_align_up(numbers + pool->wanted * sizeof(struct slot), sa_max(sa_vm.page_bytes, 4096));
    char *records = sa_vm_map(NULL, table, "salloc:guarded");
    char *p = NULL;

    SA_DCHECK_HELD(SA_RANK_GUARDED);
    SA_DCHECK(!pool->slots && pool->wanted > 0 && pool->wanted <= SA_GUARDED_MAX);
    pool->gap = sa_max(SA_PAGE_BYTES, sa_vm.page_bytes);
    pool->bytes = sa_max(bytes, pool->gap);
    pool->count = pool->wanted;
    if (records)
        p = pool_map(pool_bytes(pool));
    if (!p) {
        if (records)
            sa_vm_unmap(records, table);
        return false;
    }
    pool->start = (uintptr_t)p;
    sa_vm_reserve(pool_bytes(pool));
    pool->number = (uint16_t *)records;
    sa_store_release(&pool->slots, (struct slot *)(records + numbers));
    return true;
}

/* The record of slot `at`; NULL: the slot was never used. */
static struct slot *pool_slot(const struct pool *pool, size_t at)
{
    unsigned number = sa_load_acquire(&pool->number[at]);

    return number ? &pool->slots[number - 1] : NULL;
}

/* Makes the record of slot `at`, which is used for the first time. */
static struct slot *pool_add(struct pool *pool, size_t at) SA_REQUIRES(SA_RANK_GUARDED)
{
    struct slot *slot = &pool->slots[pool->used];

    SA_DCHECK_HELD(SA_RANK_GUARDED);
    SA_DCHECK(at < pool->count && pool->used < pool->count && !pool->number[at]);
    /* Stores are atomic: sa_pagemap_next reads records while they are filled in. */
    sa_store_relaxed(&slot->span.start, pool->start + pool->gap + at * (pool->bytes + pool->gap));
    sa_store_relaxed(&slot->span.pages, (uint32_t)(pool->bytes >> SA_PAGE_SHIFT));
    slot->pool = (uint8_t)(pool - guarded.pool);
    slot->span.heap = SA_HEAP_GUARDED;
    sa_store_relaxed(&slot->span.state, SA_SPAN_GUARDED);
    sa_pagemap_set_pages(&slot->span); /* a block may begin on any of them */
    sa_store_release(&pool->used, (uint16_t)(pool->used + 1));
    sa_store_release(&pool->number[at], pool->used);
    return slot;
}

static size_t pools_allocated(void) SA_REQUIRES(SA_RANK_GUARDED)
{
    return guarded.pool[POOL_PAGE].allocated + guarded.pool[POOL_LARGE].allocated;
}

/* Picks a free slot at random, and makes it BUSY. bytes: of the slots, if the pool is to be mapped.
 * NULL: no slot is free. */
static struct slot *slot_pick(struct pool *pool, size_t bytes)
{
    struct slot *slot = NULL;
    size_t at;

    guarded_lock();
    if (!pool->slots && !pool->refused)
        pool->refused = !pool->wanted || !pool_make(pool, bytes);
    if (!pool->refused && pool->allocated < (pool->count + 1) / 2) {
        at = sa_rng_next(&guarded.rng) % pool->count;
        while ((slot = pool_slot(pool, at)) != NULL &&
               sa_load_relaxed(&slot->state) != STATE_FREE) /* at least half of them are FREE */
            at = at + 1 < pool->count ? at + 1 : 0;
        slot = slot ? slot : pool_add(pool, at);
        sa_store_relaxed(&slot->state, STATE_BUSY);
        pool->allocated++;
        SA_DCHECK(pool->allocated <= (pool->count + 1) / 2);
        guarded.max = sa_max(guarded.max, pools_allocated());
        guarded.succeeded++;
    } else {
        guarded.failed++;
    }
    guarded_unlock();
    return slot;
}

/* Makes a BUSY slot FREE. failed: no block came of it. */
static void slot_give_back(struct slot *slot, bool failed)
{
    guarded_lock();
    SA_DCHECK(sa_load_relaxed(&slot->state) == STATE_BUSY && pool_of(slot)->allocated > 0);
    sa_store_relaxed(&slot->state, STATE_FREE);
    pool_of(slot)->allocated--;
    guarded.succeeded -= failed;
    guarded.failed += failed;
    guarded_unlock();
}

/* The range of kernel pages that a block has a part in. Exactly those are accessible while it is in
 * use. */
static uintptr_t block_low(uintptr_t start)
{
    return sa_align_down(start, sa_vm.page_bytes);
}

static uintptr_t block_high(uintptr_t start, size_t bytes)
{
    if (pool_is_zero(bytes))
        return block_low(start);
    return sa_align_up(start + sa_max(bytes, 1), sa_vm.page_bytes);
}

/* The bytes of that range. */
static size_t block_pages(uintptr_t start, size_t bytes)
{
    return block_high(start, bytes) - block_low(start);
}

static bool block_protect(uintptr_t start, size_t bytes, bool accessible)
{
    return pool_is_zero(bytes) ||
           sa_vm_protect((void *)block_low(start), block_pages(start, bytes), accessible);
}

/* Writes the pattern beside the block, and into the block on those of its pages that this touches
 * anyway. */
static void block_fill(uintptr_t start, size_t bytes)
{
    uintptr_t low = sa_max(block_low(start), start - RED_BYTES_MAX), end = start + bytes;
    uintptr_t high = sa_min(block_high(start, bytes), end + RED_BYTES_MAX);
    uintptr_t first = sa_min(sa_align_up(start, sa_vm.page_bytes), high);
    uintptr_t last = sa_max(sa_align_down(end, sa_vm.page_bytes), low);

    /* The pages in between belong to the block alone. A block on one page has first == high. */
    memset((void *)low, SA_GUARDED_FILL, first - low);
    memset((void *)last, SA_GUARDED_FILL, high - last);
}

/* The address of the nearest byte beside the block that was written; 0: none was. */
static uintptr_t block_damage(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes, limit = sa_min(block_high(start, bytes), end + RED_BYTES_MAX);
    uintptr_t low = sa_max(block_low(start), start - RED_BYTES_MAX);

    for (uintptr_t at = end; at < limit; at++)
        if (*(const unsigned char *)at != SA_GUARDED_FILL)
            return at;
    for (uintptr_t at = start; at > low; at--)
        if (*(const unsigned char *)(at - 1) != SA_GUARDED_FILL)
            return at - 1;
    return 0;
}

/* The address of a new block: the beginning or the end of its slot, at random. align is at most a
 * page. */
static uintptr_t slot_place(const struct slot *slot, size_t requested, size_t align)
{
    if (sa_rng_next(&guarded.rng) & 1)
        return slot->span.start;
    return sa_align_down(sa_span_end(&slot->span) - sa_max(requested, 1),
                         sa_max(align, SA_MIN_ALIGN));
}

struct sa_span *sa_guarded_alloc(size_t requested, size_t align, unsigned cls,
                                 struct sa_stack *stack, enum salloc_guarded_status *ret_status)
{
    struct sa_block_history before, now = {0};
    bool large = requested > SA_PAGE_BYTES, none = pool_is_zero(requested);
    struct slot *slot;

    if (requested > SA_MID_MAX || align > SA_PAGE_BYTES) {
        sa_add_relaxed(&guarded.large, 1);
        *ret_status = SALLOC_GUARDED_LARGER_THAN_ONE_PAGE;
        return NULL;
    }
    *ret_status = SALLOC_GUARDED_NO_AVAILABLE_SLOTS;
    if (!none) /* malloc_usable_size lets programs use a byte of a block of 0 bytes */
        requested = sa_max(requested, 1);
    slot = slot_pick(&guarded.pool[none ? POOL_ZERO : large], large ? SA_MID_MAX : SA_PAGE_BYTES);
    if (!slot)
        return NULL;
    SA_DCHECK(sa_load_relaxed(&slot->state) == STATE_BUSY);
    before = slot->history.history;
    now.requested = requested;
    now.start = slot_place(slot, requested, align);
    SA_DCHECK(now.start >= slot->span.start && now.start + requested <= sa_span_end(&slot->span));
    sa_block_history_write(&slot->history, &(struct sa_block_history){0});
    sa_block_history_drop(&before);
    if (!block_protect(now.start, requested, true)) {
        block_protect(now.start, requested, false);
        slot_give_back(slot, true);
        *ret_status = SALLOC_GUARDED_MPROTECT_FAILED;
        return NULL;
    }
    sa_vm_use_reserved(block_pages(now.start, requested));
    if (!none)
        block_fill(now.start, requested);
    sa_stack_ref(stack);
    now.allocated = (struct sa_event){stack, sa_clock_ns(), sa_sys_tid()};
    sa_block_history_write(&slot->history, &now);
    slot->cls = (uint8_t)cls;
    slot->span.requested = requested;
    sa_store_relaxed(&slot->span.sample, NULL);
    sa_store_relaxed(&slot->object, NULL);
    sa_store_release(&slot->state, STATE_LIVE);
    *ret_status = SALLOC_GUARDED_GUARDED;
    return &slot->span;
}

uintptr_t sa_guarded_start(const struct sa_span *span)
{
    const struct slot *slot = (const struct slot *)span;

    uint8_t state = sa_load_acquire(&slot->state);

    return state == STATE_LIVE || state == STATE_CHECKED ? slot->history.history.start : 0;
}

SA_COLD size_t sa_guarded_bytes(const struct sa_span *span)
{
    return ((const struct slot *)span)->history.history.requested;
}

unsigned sa_guarded_class(const struct sa_span *span)
{
    SA_DCHECK(sa_guarded_span(span));
    return ((const struct slot *)span)->cls;
}

SA_COLD void sa_guarded_set_object(struct sa_span *span, void *object)
{
    sa_store_relaxed(&((struct slot *)span)->object, object);
}

SA_COLD void *sa_guarded_object(const struct sa_span *span)
{
    return sa_load_relaxed(&((const struct slot *)span)->object);
}

uintptr_t sa_slot_damage(const struct slot *slot, struct sa_lookup *ret)
{
    ret->state = SA_LOOKUP_LIVE;
    ret->history = slot->history.history;
    if (pool_is_zero(ret->history.requested))
        return 0;
    return block_damage(ret->history.start, ret->history.requested);
}

bool sa_guarded_claim(struct sa_span *span)
{
    struct slot *slot = (struct slot *)span;
    uint8_t state = STATE_LIVE;

    SA_DCHECK(sa_guarded_span(span));
    if (!sa_cas_acquire(&slot->state, &state, STATE_BUSY) &&
        !(state == STATE_CHECKED && sa_slot_claim_checked(slot)))
        return false;
    if (sa_hardening.inspect)
        sa_slot_check(slot, false);
    return true;
}

void sa_guarded_check(const struct sa_span *span)
{
    struct sa_lookup found;
    uintptr_t damage = sa_slot_damage((const struct slot *)span, &found);

    if (SA_UNLIKELY(damage))
        sa_misuse_damage_survives(damage, &found);
}

void sa_guarded_free(struct sa_span *span, struct sa_stack *freed)
{
    struct slot *slot = (struct slot *)span;
    struct sa_block_history now = slot->history.history;
    uintptr_t start = now.start;
    size_t bytes = now.requested;

    SA_DCHECK(sa_guarded_span(span));
    SA_DCHECK(sa_load_relaxed(&slot->state) == STATE_BUSY ||
              sa_load_relaxed(&slot->state) == STATE_LOST);
    now.freed = (struct sa_event){freed, sa_clock_ns(), sa_sys_tid()};
    sa_block_history_write(&slot->history, &now);
    if (SA_UNLIKELY(sa_load_relaxed(&slot->state) == STATE_LOST))
        return;
    /* If the kernel refuses, the free slot stays accessible: misuse of it is not detected. */
    block_protect(start, bytes, false);
    /* Locked pages stay in memory; they count as reserved all the same. */
    if (!pool_is_zero(bytes))
        sa_vm_release((void *)block_low(start), block_pages(start, bytes));
    sa_vm_reserve(block_pages(start, bytes));
    slot_give_back(slot, false);
}

/* The distance of an address from a block, in bytes; 0 inside. */
static uintptr_t distance(uintptr_t address, const struct sa_block_history *h)
{
    uintptr_t end = h->start + h->requested;

    return address < h->start ? h->start - address : address < end ? 0 : address - end;
}

/* Reads the history of a slot. slot: NULL if it was never used. */
SA_RARE static void slot_read(const struct slot *slot, struct sa_lookup *ret)
{
    ret->state = SA_LOOKUP_NOTHING;
    if (slot && sa_block_history_read(&slot->history, &ret->history))
        ret->state = ret->history.freed.time_ns ? SA_LOOKUP_FREED : SA_LOOKUP_LIVE;
}

/* Looks up an address in a slot. between: the address is beside the pages of a block in use, and so
 * inaccessible. */
static void slot_find(const struct slot *slot, uintptr_t address, struct sa_lookup *ret)
{
    const struct sa_block_history *h = &ret->history;

    slot_read(slot, ret);
    ret->between = ret->state == SA_LOOKUP_LIVE &&
                   (address < block_low(h->start) || address >= block_high(h->start, h->requested));
}

static bool pool_find(const struct pool *pool, uintptr_t address, struct sa_lookup *ret)
{
    struct sa_lookup right;
    size_t at, offset;

    if (!sa_load_acquire(&pool->slots) || address - pool->start >= pool_bytes(pool))
        return false;
    at = (address - pool->start) / (pool->bytes + pool->gap);
    offset = (address - pool->start) % (pool->bytes + pool->gap);
    if (offset >= pool->gap) {
        slot_find(pool_slot(pool, at), address, ret);
        return true;
    }
    ret->state = right.state = SA_LOOKUP_NOTHING;
    if (at > 0)
        slot_read(pool_slot(pool, at - 1), ret);
    if (at < pool->count)
        slot_read(pool_slot(pool, at), &right);
    /* A gap: the block that is in use, else the nearer one. */
    if (right.state < ret->state ||
        (right.state == ret->state && right.state != SA_LOOKUP_NOTHING &&
         distance(address, &right.history) < distance(address, &ret->history)))
        *ret = right;
    ret->between = true;
    return true;
}

SA_RARE bool sa_guarded_find(uintptr_t address, struct sa_lookup *ret)
{
    for (size_t i = 0; i < POOLS; i++)
        if (pool_find(&guarded.pool[i], address, ret))
            return true;
    return false;
}

SA_RARE static void pool_stats(const struct pool *pool, struct sa_guarded_stats *ret)
    SA_REQUIRES(SA_RANK_GUARDED)
{
    size_t slots = pool->slots ? pool->count : 0;

    SA_DCHECK(pool->allocated <= (slots + 1) / 2);
    ret->allocated += pool->allocated;
    ret->slots += slots;
    ret->quarantined += slots - pool->allocated;
    if (!pool->refused && ret->every)
        ret->allowed += (pool->wanted + 1) / 2;
}

SA_RARE void sa_guarded_stats(struct sa_guarded_stats *ret)
{
    struct sa_guard_policy_stats choice;

    sa_guard_policy_stats(&choice);
    *ret = (struct sa_guarded_stats){.every = choice.every, .skipped = choice.skipped};
    ret->large = sa_load_relaxed(&guarded.large);
    guarded_lock();
    ret->succeeded = guarded.succeeded;
    ret->failed = guarded.failed;
    ret->max_allocated = guarded.max;
    pool_stats(&guarded.pool[0], ret);
    pool_stats(&guarded.pool[1], ret);
    guarded_unlock();
}
