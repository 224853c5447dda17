/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded blocks; see guarded.h. */
#include "sampling/guarded.h"

#include "alloc/base/bits.h"
#include "alloc/base/rng.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/choice.h"
#include "sampling/misuse.h"

#include <string.h>

#define PATTERN   0xcb
#define RED_BYTES 128 /* beside the block, at most: so many are checked */
#define TRIES     8   /* places for the pool */

enum state { STATE_FREE, STATE_BUSY, STATE_LIVE };

struct slot {
    struct sa_span span; /* first: a span is turned into its slot */
    struct sa_history_slot history;
    uint8_t state; /* GUARDED; atomic */
    uint8_t cls;
    bool touched; /* GUARDED: it may hold memory; until then it counts as reserved */
};

static struct {
    struct sa_lock lock;
    uint64_t rng;       /* atomic */
    size_t wanted;      /* slots; const after init */
    struct slot *slots; /* atomic: release when the pool is ready */
    uintptr_t start;    /* of the pool; this and the next are const when slots is set */
    size_t unit, count; /* bytes of a slot and of what is between; slots */
    bool refused;       /* GUARDED: there is no place for a pool */
    size_t allocated;   /* GUARDED */
    size_t most;        /* GUARDED */
    uint64_t succeeded; /* GUARDED */
    uint64_t failed;    /* GUARDED */
    uint64_t large;     /* atomic, relaxed */
} pool;

static void pool_lock(void)
{
    sa_lock_acquire(&pool.lock, SA_RANK_GUARDED);
}

static void pool_unlock(void)
{
    sa_lock_release(&pool.lock, SA_RANK_GUARDED);
}

void sa_guarded_init(size_t slots, uint64_t seed)
{
    pool.wanted = sa_min(slots, SA_GUARDED_MOST);
    pool.rng = sa_rng_mix(seed);
}

static size_t pool_bytes(size_t count, size_t unit)
{
    return (2 * count + 1) * unit;
}

/* Inaccessible, somewhere in the second half of the sampled window, where the sampled heap does not come. */
static char *pool_map(size_t bytes)
{
    const uintptr_t half = SA_HOME_START + SA_HOME_BYTES + SA_HOME_BYTES / 2;

    for (int i = 0; i < TRIES; i++) {
        uintptr_t hint = half + sa_rng_next(&pool.rng) % (SA_HOME_BYTES / 4);
        char *p = sa_vm_map((void *)sa_align_down(hint, 1ul << 21), bytes, "salloc:guarded");

        if (!p)
            return NULL;
        if (sa_page_heap_sampled_address((uintptr_t)p) &&
            sa_page_heap_sampled_address((uintptr_t)p + bytes - 1) &&
            sa_vm_protect(p, bytes, false))
            return p;
        sa_vm_unmap(p, bytes);
    }
    return NULL;
}

/* Under the lock. */
static bool pool_make(void)
{
    size_t unit = sa_max(SA_PAGE_BYTES, sa_vm.page_bytes), count = pool.wanted;
    size_t table = sa_align_up(count * sizeof(struct slot), sa_max(sa_vm.page_bytes, 4096));
    struct slot *slots = sa_vm_map(NULL, table, "salloc:guarded");
    char *p = slots ? pool_map(pool_bytes(count, unit)) : NULL;

    if (!p || !sa_pagemap_grow((uintptr_t)p, pool_bytes(count, unit))) {
        if (p)
            sa_vm_unmap(p, pool_bytes(count, unit));
        if (slots)
            sa_vm_unmap(slots, table);
        return false;
    }
    pool.start = (uintptr_t)p;
    pool.unit = unit;
    pool.count = count;
    sa_add_relaxed(&sa_vm.reserved_bytes, pool_bytes(count, unit));
    for (size_t i = 0; i < count; i++) {
        slots[i].span.start = pool.start + (2 * i + 1) * unit;
        slots[i].span.pages = (uint32_t)(unit >> SA_PAGE_SHIFT);
        slots[i].span.heap = SA_HEAP_GUARDED;
        slots[i].span.state = SA_SPAN_GUARDED;
        sa_pagemap_set_ends(&slots[i].span);
    }
    sa_store_release(&pool.slots, slots);
    return true;
}

/* Makes a free slot busy, at random; NULL: there is none. */
static struct slot *slot_pick(void)
{
    struct slot *slot = NULL;
    size_t at;

    pool_lock();
    if (!pool.slots && !pool.refused)
        pool.refused = !pool.wanted || !pool_make();
    if (!pool.refused && pool.allocated < (pool.count + 1) / 2) {
        at = sa_rng_next(&pool.rng) % pool.count;
        while (sa_load_relaxed(&pool.slots[at].state) != STATE_FREE) /* at least half of them are */
            at = at + 1 < pool.count ? at + 1 : 0;
        slot = &pool.slots[at];
        sa_store_relaxed(&slot->state, STATE_BUSY);
        pool.allocated++;
        pool.most = sa_max(pool.most, pool.allocated);
        pool.succeeded++;
        if (!slot->touched)
            sa_sub_relaxed(&sa_vm.reserved_bytes, pool.unit);
        slot->touched = true;
    } else {
        pool.failed++;
    }
    pool_unlock();
    return slot;
}

/* A busy slot is free again. */
static void slot_give_back(struct slot *slot, bool failed)
{
    pool_lock();
    sa_store_relaxed(&slot->state, STATE_FREE);
    pool.allocated--;
    pool.succeeded -= failed;
    pool.failed += failed;
    pool_unlock();
}

static uintptr_t slot_end(const struct slot *slot)
{
    return slot->span.start + pool.unit;
}

/* What is beside the block, and has the pattern. */
static void slot_fill(const struct slot *slot, uintptr_t start, size_t bytes)
{
    uintptr_t low = sa_max(slot->span.start, start - RED_BYTES), end = start + bytes;

    memset((void *)low, PATTERN, start - low);
    memset((void *)end, PATTERN, sa_min(slot_end(slot) - end, RED_BYTES));
}

/* The byte that was written beside the block, nearest to it; 0 if none was. */
static uintptr_t slot_damage(const struct slot *slot, uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes, limit = sa_min(slot_end(slot), end + RED_BYTES);
    uintptr_t low = sa_max(slot->span.start, start - RED_BYTES);

    for (uintptr_t at = end; at < limit; at++)
        if (*(const unsigned char *)at != PATTERN)
            return at;
    for (uintptr_t at = start; at > low; at--)
        if (*(const unsigned char *)(at - 1) != PATTERN)
            return at - 1;
    return 0;
}

/* Where the block goes; nothing that was ever aligned to more than a slot is here. */
static uintptr_t slot_place(const struct slot *slot, size_t requested, size_t align)
{
    if (sa_rng_next(&pool.rng) & 1)
        return slot->span.start;
    return sa_align_down(slot_end(slot) - sa_max(requested, 1), sa_max(align, SA_MIN_ALIGN));
}

struct sa_span *sa_guarded_alloc(size_t requested, size_t align, unsigned cls,
                                 struct sa_stack *stack)
{
    struct sa_history before, now = {.requested = requested};
    struct slot *slot;

    if (requested > SA_PAGE_BYTES || align > SA_PAGE_BYTES) {
        sa_add_relaxed(&pool.large, 1);
        return NULL;
    }
    slot = slot_pick();
    if (!slot)
        return NULL;
    before = slot->history.history;
    now.start = slot_place(slot, requested, align);
    sa_history_open(&slot->history);
    slot->history.history = (struct sa_history){0};
    sa_history_close(&slot->history);
    sa_history_drop(&before);
    if (!sa_vm_protect((void *)slot->span.start, pool.unit, true)) {
        slot_give_back(slot, true);
        return NULL;
    }
    slot_fill(slot, now.start, requested);
    sa_stack_ref(stack);
    now.allocated = (struct sa_event){stack, sa_clock_ns(), sa_sys_tid()};
    sa_history_open(&slot->history);
    slot->history.history = now;
    sa_history_close(&slot->history);
    slot->cls = (uint8_t)cls;
    slot->span.requested = requested;
    sa_store_relaxed(&slot->span.sample, NULL);
    sa_store_release(&slot->state, STATE_LIVE);
    return &slot->span;
}

uintptr_t sa_guarded_start(const struct sa_span *span)
{
    const struct slot *slot = (const struct slot *)span;

    return sa_load_acquire(&slot->state) == STATE_LIVE ? slot->history.history.start : 0;
}

unsigned sa_guarded_class(const struct sa_span *span)
{
    return ((const struct slot *)span)->cls;
}

bool sa_guarded_claim(struct sa_span *span)
{
    struct slot *slot = (struct slot *)span;
    struct sa_found found = {.state = SA_FOUND_LIVE};
    uint8_t state = STATE_LIVE;
    uintptr_t damage;

    if (!sa_cas_acquire(&slot->state, &state, STATE_BUSY))
        return false;
    found.history = slot->history.history;
    damage = slot_damage(slot, found.history.start, found.history.requested);
    if (SA_UNLIKELY(damage))
        sa_misuse_damage(damage, &found);
    return true;
}

void sa_guarded_free(struct sa_span *span, struct sa_stack *freed)
{
    struct slot *slot = (struct slot *)span;

    sa_history_open(&slot->history);
    slot->history.history.freed = (struct sa_event){freed, sa_clock_ns(), sa_sys_tid()};
    sa_history_close(&slot->history);
    /* If the kernel refuses, the slot is accessible and free: what is done to it is not found. */
    sa_vm_protect((void *)slot->span.start, pool.unit, false);
    slot_give_back(slot, false);
}

/* How far an address is from a block. */
static uintptr_t distance(uintptr_t address, const struct sa_history *h)
{
    uintptr_t end = h->start + h->requested;

    return address < h->start ? h->start - address : address < end ? 0 : address - end;
}

static void slot_read(const struct slot *slot, struct sa_found *ret)
{
    ret->state = SA_FOUND_NOTHING;
    if (sa_history_read(&slot->history, &ret->history))
        ret->state = ret->history.freed.time_ns ? SA_FOUND_FREED : SA_FOUND_LIVE;
}

bool sa_guarded_find(uintptr_t address, struct sa_found *ret)
{
    const struct slot *slots = sa_load_acquire(&pool.slots);
    struct sa_found right;
    size_t unit;

    if (!slots || address - pool.start >= pool_bytes(pool.count, pool.unit))
        return false;
    unit = (address - pool.start) / pool.unit;
    ret->state = right.state = SA_FOUND_NOTHING;
    ret->between = right.between = unit % 2 == 0;
    if (unit % 2) {
        slot_read(&slots[unit / 2], ret);
        return true;
    }
    if (unit > 0)
        slot_read(&slots[unit / 2 - 1], ret);
    if (unit / 2 < pool.count)
        slot_read(&slots[unit / 2], &right);
    /* The block that is in use, else the nearer one. */
    if (right.state < ret->state ||
        (right.state == ret->state && right.state != SA_FOUND_NOTHING &&
         distance(address, &right.history) < distance(address, &ret->history)))
        *ret = right;
    return true;
}

void sa_guarded_stats(struct sa_guarded_stats *ret)
{
    struct sa_choice_stats choice;

    sa_choice_stats(&choice);
    ret->every = choice.every;
    ret->skipped = choice.skipped;
    ret->large = sa_load_relaxed(&pool.large);
    pool_lock();
    ret->succeeded = pool.succeeded;
    ret->failed = pool.failed;
    ret->allocated = pool.allocated;
    ret->most_allocated = pool.most;
    ret->slots = pool.slots ? pool.count : 0;
    ret->quarantined = ret->slots - pool.allocated;
    ret->allowed = pool.refused || !choice.every ? 0 : (pool.wanted + 1) / 2;
    pool_unlock();
}
