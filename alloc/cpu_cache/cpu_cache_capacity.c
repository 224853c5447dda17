/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares a CPU's limit out among its size classes, from the slow paths of that CPU. These preempt
 * each other anywhere (cpu_cache.c). A slow path takes capacity from available_bytes before it
 * changes a header, and gives capacity back afterwards (cpu_cache_internal.h).
 */
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/scratch.h"
#include "alloc/page_heap/account/heap_types.h"

/* A class with more allocations than this between two misses of different kinds gets no more
 * capacity: 16 KiB of objects, but at least 64 objects. */
#define APART_BYTES 16384
#define APART_MIN   64

/*
 * When all capacity is given out, a class takes capacity from others, and objects move each time. A
 * class that holds a batch therefore does so at one miss in STEAL_EVERY. It looks at STEAL_VICTIMS
 * classes, and takes from those that have not missed lately.
 */
#define STEAL_EVERY   8
#define STEAL_VICTIMS 16

/* Takes up to `bytes` from what is available on the CPU; how many. */
static size_t budget_take(struct cpu_cache *c, size_t bytes)
{
    int64_t have = sa_load_relaxed(&c->available_bytes), take;

    do {
        take = have < (int64_t)bytes ? have : (int64_t)bytes;
        if (take <= 0)
            return 0;
    } while (!sa_cas_relaxed(&c->available_bytes, &have, have - take));
    SA_DCHECK((size_t)take <= bytes);
    return (size_t)take;
}

static void budget_give(struct cpu_cache *c, size_t bytes)
{
    sa_add_relaxed(&c->available_bytes, (int64_t)bytes);
}

/* Lowers a class's capacity on the current CPU to `target`; the bytes that came free. */
SA_RARE static size_t cpu_shrink(struct cpu_cache *c, int cpu, unsigned cls, uint32_t target)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint64_t h = cpu_state(c->slab, cls);
    uint32_t avail = sa_state_avail(h), cap = sa_state_cap(h);

    if (avail > target) {
        void *few[SA_BATCH_FEW];
        struct sa_batch b = sa_batch_begin(few);
        size_t n = sa_min(sa_min(avail - target, SA_MOVE_MAX), b.max);

        n = sa_cpu_cache_pop_batch(c, cls, b.objs, n);
        if (n)
            sa_transfer_insert(cpu, cls, b.objs, n);
        sa_batch_end(&b);
        h = cpu_state(c->slab, cls);
        avail = sa_state_avail(h);
        cap = sa_state_cap(h);
        target = avail > target ? avail : target;
    }
    if (cap <= target || !sa_percpu_replace(cpu, c->slab, cls, h, sa_state_with(h, avail, target)))
        return 0;
    SA_DCHECK(target >= avail);
    return (size_t)(cap - target) * k->size;
}

/* Takes capacity from classes of this CPU that have not missed since the hand last passed. */
static void cpu_steal(struct cpu_cache *c, int cpu, unsigned for_cls, size_t need)
{
    unsigned count = sa_size_classes.count, hand = c->hand;

    for (int looked = 0; looked < STEAL_VICTIMS && need; looked++) {
        size_t got;
        uint32_t cap;

        hand = hand + 1 < count ? hand + 1 : 1;
        cap = sa_state_cap(cpu_state(c->slab, hand));
        if (hand == for_cls || cap == 0)
            continue;
        if (c->clock_bit[hand]) {
            c->clock_bit[hand] = 0;
            continue;
        }
        got = cpu_shrink(c, cpu, hand, cap > sa_size_classes.of[hand].batch ? cap / 2 : 0);
        budget_give(c, got);
        need -= sa_min(got, need);
    }
    c->hand = hand;
}

/* Whether a class's slots begin at `slots` or further on. Slots only move forward. */
static bool cpu_is_beyond(const struct cpu_cache *c, unsigned cls, void **slots)
{
    return sa_load_relaxed(&c->slab->header[cls].slots) >= slots;
}

/*
 * Moves a class's slots on the current CPU further on. False: another thread holds the lock, or the
 * state has changed. The objects are popped meanwhile, because slots move only while none is
 * filled. The lock keeps a thread that has read an older place from moving the slots back.
 */
SA_RARE SA_NOINLINE static bool cpu_move(struct cpu_cache *c, int cpu, unsigned cls, void **slots)
{
    void *few[SA_BATCH_FEW];
    struct sa_batch b = sa_batch_begin(few); /* with few, longer stacks do not move */
    size_t n = sa_cpu_cache_pop_batch(c, cls, b.objs, sa_min(SA_MIDDLE_MAX, b.max)), pushed = 0;
    bool moved = false;

    if (sa_lock_try(&c->lock, SA_RANK_CPU_CACHE)) {
        uint64_t h = cpu_state(c->slab, cls);

        moved = cpu_is_beyond(c, cls, slots) ||
                (sa_state_avail(h) == 0 && sa_percpu_move(cpu, c->slab, cls, h, slots));
        sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
    }
    if (n)
        pushed = sa_cpu_cache_push_batch(c, cls, b.objs, n);
    if (pushed < n)
        sa_transfer_insert(cpu, cls, b.objs + pushed, n - pushed);
    sa_batch_end(&b);
    return moved;
}

/* Whether a class has slots for a capacity, on the current CPU. */
static bool cpu_has_room(struct cpu_cache *c, int cpu, unsigned cls, uint32_t cap)
{
    void **slots = (void **)c->slab + sa_class_slots(&sa_size_classes.of[cls], cap);

    return cpu_is_beyond(c, cls, slots) || cpu_move(c, cpu, cls, slots);
}

/*
 * Whether misses of a class alternate so often that more capacity is worth its memory. A program
 * that allocates many blocks and then frees them allocates at most as many between two misses as
 * the cache holds. Where blocks come and go at random it allocates many times that, unless the
 * cache is tiny. A miss costs about 200 ns. Above the bounds that is less than 3 ns for each block
 * of 256 bytes or more, and 0.2 ns for the smallest blocks.
 */
static bool cpu_misses_often(struct cpu_cache *c, unsigned cls, uint32_t since, uint32_t cap)
{
    uint32_t apart = (c->apart[cls] + since) / 2;

    c->apart[cls] = (uint16_t)apart;
    return apart < sa_max(sa_max(APART_MIN, APART_BYTES / sa_size_classes.of[cls].size), cap);
}

/* Lowers a class's capacity on the current CPU to a batch; returns what it is then. Others on the
 * CPU may raise it meanwhile: it is tried as often as there is a move in the largest capacity. */
SA_RARE SA_NOINLINE static uint32_t cpu_keep_batch(struct cpu_cache *c, int cpu, unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint32_t cap = sa_state_cap(cpu_state(c->slab, cls));

    for (size_t moved = 0; cap > k->batch && moved < k->max; moved += SA_MOVE_MAX) {
        budget_give(c, cpu_shrink(c, cpu, cls, k->batch));
        cap = sa_state_cap(cpu_state(c->slab, cls));
    }
    return cap;
}

uint32_t sa_cpu_cache_grow(struct cpu_cache *c, int cpu, unsigned cls, enum sa_miss kind)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint64_t h = cpu_state(c->slab, cls);
    uint32_t cap = sa_state_cap(h), more;
    uint16_t seen = (uint16_t)(sa_load_relaxed(&c->allocs[cls]) - sa_state_until(h));
    uint16_t since = (uint16_t)(seen - c->missed_at[cls]);
    bool same = c->last_miss[cls] == kind;
    size_t got;

    c->missed_at[cls] = seen;
    c->last_miss[cls] = (uint8_t)kind;
    c->clock_bit[cls] = 1;
    if (SA_UNLIKELY(sa_load_relaxed(&sa_page_heap_fall)) && kind == SA_MISS_OVERFLOW &&
        cap >= k->batch)
        return cpu_keep_batch(c, cpu, cls);
    if (cap >= k->max || (same && cap >= 2u * k->batch))
        return cap;
    if (!same && !cpu_misses_often(c, cls, since, cap) && cap >= k->batch)
        return cap;
    more = (uint32_t)sa_min(sa_max(k->batch, cap / 2), k->max - cap);
    SA_DCHECK(more && cap + more <= k->max);
    got = budget_take(c, (size_t)more * k->size);
    if (got < (size_t)more * k->size && (cap < k->batch || ++c->unstolen % STEAL_EVERY == 0)) {
        cpu_steal(c, cpu, cls, (size_t)more * k->size - got);
        got += budget_take(c, (size_t)more * k->size - got);
    }
    SA_DCHECK(got <= (size_t)more * k->size);
    more = (uint32_t)(got / k->size);
    budget_give(c, got - (size_t)more * k->size);
    for (int tries = 0; more && tries < 3; tries++) {
        cap = sa_state_cap(cpu_state(c->slab, cls));
        if (cap + more > k->max || !cpu_has_room(c, cpu, cls, cap + more))
            break;
        h = cpu_state(c->slab, cls);
        if (sa_state_cap(h) == cap &&
            sa_percpu_replace(cpu, c->slab, cls, h,
                              sa_state_with(h, sa_state_avail(h), cap + more)))
            return cap + more;
    }
    budget_give(c, (size_t)more * k->size);
    return sa_state_cap(cpu_state(c->slab, cls));
}
