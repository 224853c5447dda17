/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capacity of the per-CPU caches: how much of a CPU's limit each class has, from the slow paths of
 * that CPU. They run at the same time and preempt each other anywhere, see cpu_cache.c; capacity is
 * taken from and given back to available_bytes before and after a header changes, see
 * cpu_cache_internal.h.
 */
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/middle/transfer_cache.h"

/* Allocations between misses of a class above which it gets no more capacity: so many bytes of
 * them, but not fewer. */
#define APART_BYTES 16384
#define APART_MIN   64

/*
 * Where all capacity is given out, what one class gains others lose, and blocks move each time: a
 * class that holds a batch takes some in one miss of so many, from those of so many classes that
 * have not missed.
 */
#define STEAL_EVERY   8
#define STEAL_VICTIMS 16

/* Takes up to bytes from the CPU's unused budget; how many. */
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

/* Lowers a class's capacity on the current CPU to target; bytes of budget that came free. */
SA_RARE static size_t cpu_shrink(struct cpu_cache *c, int cpu, unsigned cls, uint32_t target)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint64_t h = cpu_state(c->slab, cls);
    uint32_t avail = sa_state_avail(h), cap = sa_state_cap(h);

    if (avail > target) {
        void *objs[SA_MOVE_MAX];
        size_t n = sa_cpu_cache_pop_batch(c, cls, objs, sa_min(avail - target, SA_MOVE_MAX));

        if (n)
            sa_transfer_insert(cpu, cls, objs, n);
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
        if (c->touched[hand]) {
            c->touched[hand] = 0;
            continue;
        }
        got = cpu_shrink(c, cpu, hand, cap > sa_size_classes.of[hand].batch ? cap / 2 : 0);
        budget_give(c, got);
        need -= sa_min(got, need);
    }
    c->hand = hand;
}

/* Whether a class's slots are where there is room, or beyond. They never come back. */
static bool cpu_is_beyond(const struct cpu_cache *c, unsigned cls, void **slots)
{
    return sa_load_relaxed(&c->slab->header[cls].slots) >= slots;
}

/*
 * Gives a class on the current CPU slots further on; false: somebody else is at it, or its state
 * changes all the time. What it holds is taken out meanwhile: slots move while nothing is filled.
 * Whoever moves them has the lock, so that nobody moves them back who has seen less.
 */
SA_NOINLINE static bool cpu_move(struct cpu_cache *c, int cpu, unsigned cls, void **slots)
{
    void *objs[SA_MIDDLE_MAX];
    size_t n = sa_cpu_cache_pop_batch(c, cls, objs, SA_MIDDLE_MAX), pushed = 0;
    bool moved = false;

    if (sa_lock_try(&c->lock, SA_RANK_CPU_CACHE)) {
        uint64_t h = cpu_state(c->slab, cls);

        moved = cpu_is_beyond(c, cls, slots) ||
                (sa_state_avail(h) == 0 && sa_percpu_move(cpu, c->slab, cls, h, slots));
        sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
    }
    if (n)
        pushed = sa_cpu_cache_push_batch(c, cls, objs, n);
    if (pushed < n)
        sa_transfer_insert(cpu, cls, objs + pushed, n - pushed);
    return moved;
}

/* Whether a class has slots for a capacity, on the current CPU. */
static bool cpu_has_room(struct cpu_cache *c, int cpu, unsigned cls, uint32_t cap)
{
    void **slots = (void **)c->slab + sa_class_slots(&sa_size_classes.of[cls], cap);

    return cpu_is_beyond(c, cls, slots) || cpu_move(c, cpu, cls, slots);
}

/*
 * A class missed after a miss of the other kind. Whether that was so soon, of late, that more
 * capacity is worth its memory. Where many blocks are allocated and then freed again, no more than
 * the cache holds are allocated in between. Where they come and go at random it is many times that,
 * unless the cache is tiny. A miss costs some 200 ns, so that above the bounds it is less than 3 ns
 * for each block of 256 bytes or more, and 0.2 for the smallest.
 */
static bool cpu_misses_often(struct cpu_cache *c, unsigned cls, uint32_t since, uint32_t cap)
{
    uint32_t apart = (c->apart[cls] + since) / 2;

    c->apart[cls] = (uint16_t)apart;
    return apart < sa_max(sa_max(APART_MIN, APART_BYTES / sa_size_classes.of[cls].size), cap);
}

uint32_t sa_cpu_cache_grow(struct cpu_cache *c, int cpu, unsigned cls, enum sa_miss kind)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint64_t h = cpu_state(c->slab, cls);
    uint32_t cap = sa_state_cap(h), more;
    uint16_t passed = (uint16_t)(sa_load_relaxed(&c->allocs[cls]) - sa_state_until(h));
    uint16_t since = (uint16_t)(passed - c->missed_at[cls]);
    bool same = c->last_miss[cls] == kind;
    size_t got;

    c->missed_at[cls] = passed;
    c->last_miss[cls] = (uint8_t)kind;
    c->touched[cls] = 1;
    if (cap >= k->most || (same && cap >= 2u * k->batch))
        return cap;
    if (!same && !cpu_misses_often(c, cls, since, cap) && cap >= k->batch)
        return cap;
    more = (uint32_t)sa_min(sa_max(k->batch, cap / 2), k->most - cap);
    SA_DCHECK(more && cap + more <= k->most);
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
        if (cap + more > k->most || !cpu_has_room(c, cpu, cls, cap + more))
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
