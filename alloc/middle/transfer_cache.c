/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfer caches; see transfer_cache.h, and transfer_shards.h for the stacks that there are. Each
 * stack has a lock (TRANSFER). The central free list is called without it.
 *
 * A stack gives the objects that came last, because those are warmest in the processor's caches.
 *
 * A CPU whose own stack is empty takes from the other shards only if they hold many objects or the
 * spans have none. To move a few objects to and fro would mix neighbours of different CPUs. To
 * leave many would need new spans in their place.
 *
 * A stack begins with ROOM_FIRST slots, and gets ROOM_GROWS times as many when it is full. Short
 * stacks lie in an arena, so that the stacks of all classes share few pages in a small program; the
 * slots that such a stack had before are lost. A longer stack moves to a reserved mapping with room
 * for the whole capacity, of which it touches only the slots that it uses.
 */
#include "alloc/middle/transfer_cache.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/central_mix.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/transfer_shards.h"
#include "alloc/os/lock.h"
#include "alloc/os/scratch.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"

#include <string.h>

/*
 * The capacity of a class: TRANSFER_OBJECTS or TRANSFER_BYTES, whichever is less, but at least a
 * batch. Classes of TRANSFER_LONG (8 KiB) and more, about 40, have TRANSFER_BYTES_LONG: for them
 * the page heap costs little beside what the program does with an object. A lower capacity slows
 * down programs that pass many blocks from thread to thread. A higher one wastes memory where
 * arrays grow through the classes, because each class keeps that much.
 *
 * A class of larger blocks that many CPUs use has as much for each SCALE_CPUS CPUs of a domain.
 * What CPUs give up and lack at a time grows with their number, and what does not fit here goes
 * through the page heap, which has one lock. CPUs with a shard count; those beyond SA_SHARDS_DOMAIN
 * do not.
 */
#define TRANSFER_OBJECTS    8192
#define TRANSFER_BYTES      524288
#define TRANSFER_LONG       8192
#define TRANSFER_BYTES_LONG 262144
#define SCALE_CPUS          4
#define SCALE_MAX           (SA_SHARDS_DOMAIN / SCALE_CPUS)

/*
 * Blocks up to SHARDED_BYTES are in shards: few larger blocks share a cache line with others. A CPU
 * takes from the fullest other shard if the others hold 1/4 of the class's capacity
 * (MUCH_FRACTION), or if spans have no object and the fullest has ENOUGH times what is wanted.
 */
#define SHARDED_BYTES 256
#define MUCH_FRACTION 4
#define ENOUGH        4

#define ROOM_FIRST      32 /* slots */
#define ROOM_GROWS      4  /* times */
#define PACKED_FRACTION 4  /* stacks up to 1/4 of a kernel page lie in an arena */

SA_STATIC_ASSERT(TRANSFER_OBJECTS < 1 << 14, "counts fit");

/*
 * A sole stack, the only one of its class, holds at most 1/8 of the least capacity, or a batch, at
 * first. It may hold the whole capacity once objects did not fit and a CPU then found the stack
 * short of objects. It goes back to 1/8 if no CPU takes an object between two plunders. Arrays that
 * grow leave blocks behind in one class after the other that no thread allocates again; those are
 * better in spans, which become free. Shards do not do this: there, a CPU lacks what another CPU
 * has given up.
 */
#define SHORT_FRACTION 8

enum {
    TRANSFER_SHORT,
    TRANSFER_LOST, /* short, and something did not fit */
    TRANSFER_FULL,
    TRANSFER_IDLE, /* full, and nothing was taken since the last plunder */
};

/* The capacity of a class that has `scale` times the bytes. */
static size_t transfer_capacity_scaled(unsigned cls, size_t scale)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t bytes = k->size < TRANSFER_LONG ? TRANSFER_BYTES : TRANSFER_BYTES_LONG;

    return sa_min(TRANSFER_OBJECTS, sa_max(k->batch, scale * bytes / k->size));
}

/* The capacity of a class in each domain. */
static size_t transfer_capacity(unsigned cls)
{
    size_t cpus = sa_transfer_shard_count();

    if (cpus < 2 * SCALE_CPUS || sa_size_classes.of[cls].size <= SHARDED_BYTES)
        return transfer_capacity_scaled(cls, 1);
    cpus /= sa_transfer_domains();
    return transfer_capacity_scaled(cls, sa_min(sa_max(cpus / SCALE_CPUS, 1), SCALE_MAX));
}

/* The most that the capacity of a class may become. */
static size_t transfer_capacity_most(unsigned cls)
{
    return transfer_capacity_scaled(cls,
                                    sa_size_classes.of[cls].size > SHARDED_BYTES ? SCALE_MAX : 1);
}

/* Whether CPUs have shards for a class: small blocks, and with several domains all blocks. */
static bool transfer_is_sharded(unsigned cls)
{
    return sa_size_classes.of[cls].size <= SHARDED_BYTES ||
           sa_load_relaxed(&sa_transfer_shards.domains) > 1;
}

static unsigned transfer_shard_for(int cpu, unsigned cls)
{
    return transfer_is_sharded(cls) ? sa_transfer_shard_of(cpu) : 0;
}

/* The number of objects of a class in the other shards of the domain, and the fullest of those
 * stacks. NULL: they are empty. */
SA_RARE SA_NOINLINE static size_t transfer_others(unsigned number, unsigned cls,
                                                  struct sa_transfer **ret_fullest)
{
    const struct sa_transfer_others *s = &sa_transfer_others;
    unsigned count = transfer_is_sharded(cls) ? sa_transfer_shard_count() : 1;
    unsigned domain = sa_load_relaxed(&s->domain[number]);
    size_t all = 0, max = 0;

    *ret_fullest = NULL;
    for (unsigned n = 0; n < count; n++) {
        struct sa_transfer *t =
            n == number || sa_load_relaxed(&s->domain[n]) != domain ? NULL : sa_transfer_shard(n);
        size_t used = t ? sa_load_relaxed(&t[sa_first_use_index(cls)].used) : 0;

        all += used;
        if (used > max) {
            max = used;
            *ret_fullest = t + sa_first_use_index(cls);
        }
    }
    return all;
}

/* The stack from which a CPU whose own is empty takes n objects. NULL: it takes from spans. */
SA_RARE SA_NOINLINE static struct sa_transfer *transfer_choose(unsigned number, unsigned cls,
                                                               size_t n)
{
    size_t capacity = transfer_capacity(cls);
    struct sa_transfer *fullest;
    size_t all = transfer_others(number, cls, &fullest);

    if (!all || all >= capacity / MUCH_FRACTION)
        return fullest;
    return sa_central_has(cls) || sa_load_relaxed(&fullest->used) < ENOUGH * n ? NULL : fullest;
}

/* How many objects a stack that is to hold `need` may hold: the capacity is shared by all stacks of
 * the class in the domain. */
SA_RARE SA_NOINLINE static size_t transfer_share(unsigned number, unsigned cls, size_t need)
{
    size_t capacity = transfer_capacity(cls);
    struct sa_transfer *fullest;

    if (need <= capacity / SA_SHARDS_DOMAIN)
        return capacity; /* all shards of the domain may hold that many */
    return capacity - sa_min(transfer_others(number, cls, &fullest), capacity);
}

/* Whether a class has one stack only. */
static bool transfer_is_sole(unsigned cls)
{
    return !transfer_is_sharded(cls) || sa_transfer_shard_count() == 1;
}

/* How many objects a sole stack may hold. */
static size_t transfer_sole_max(const struct sa_transfer *t, unsigned cls)
    SA_REQUIRES(SA_RANK_TRANSFER)
{
    return t->need >= TRANSFER_FULL ? transfer_capacity(cls)
                                    : sa_max(sa_size_classes.of[cls].batch,
                                             transfer_capacity_scaled(cls, 1) / SHORT_FRACTION);
}

/* The number of slots of a stack. */
static size_t transfer_room(const struct sa_transfer *t) SA_REQUIRES(SA_RANK_TRANSFER)
{
    return t->slots ? (uintptr_t)t->slots[-1] : 0;
}

/* Whether a stack of that many slots lies in an arena. A longer one gets a mapping of its own. */
static bool transfer_is_packed(size_t room)
{
    return (room + 1) * sizeof(void *) <= sa_vm.page_bytes / PACKED_FRACTION;
}

/* Slots for a stack: `room` of them in an arena, or a reserved mapping for the capacity. NULL: out
 * of memory. */
SA_RARE static void **transfer_place(size_t room, size_t capacity)
{
    void **slots =
        transfer_is_packed(room)
            ? sa_arena_alloc((room + 1) * sizeof(*slots), sizeof(*slots))
            : sa_vm_map_reserved(sa_align_up((capacity + 1) * sizeof(*slots), sa_vm.page_bytes),
                                 "salloc:metadata");

    return slots ? slots + 1 : NULL;
}

/* Gives a stack at least `need` slots, up to its capacity; fewer if there is no memory. */
SA_RARE SA_NOINLINE static void transfer_grow(struct sa_transfer *t, size_t need, size_t capacity)
    SA_REQUIRES(SA_RANK_TRANSFER)
{
    size_t before = transfer_room(t), mapped = transfer_is_packed(before) ? 0 : before;
    size_t room = before;
    void **slots = t->slots;

    SA_DCHECK_HELD(SA_RANK_TRANSFER);
    SA_DCHECK(need > before && need <= capacity && t->used <= before);
    do
        room = sa_min(room ? ROOM_GROWS * room : ROOM_FIRST, capacity);
    while (room < need && room < capacity);
    if (sa_limits_keep_all() && !mapped && !transfer_is_packed(room))
        return; /* a mapping is page faults; what does not fit goes to the spans */
    if (!mapped)
        slots = transfer_place(room, capacity);
    if (!slots && !before) {
        room = sa_min(ROOM_FIRST, capacity);
        slots = transfer_place(room, capacity);
    }
    if (!slots)
        return;
    if (!transfer_is_packed(room))
        sa_vm_use_reserved((room - mapped) * sizeof(*slots));
    if (!mapped && t->used)
        memcpy(slots, t->slots, t->used * sizeof(*slots));
    SA_DCHECK(room > before && room <= capacity);
    slots[-1] = (void *)room;
    t->slots = slots;
}

/* Takes up to n objects off a stack; how many. */
static size_t transfer_take(struct sa_transfer *t, unsigned cls, void **objs, size_t n)
{
    size_t got;

    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    SA_DCHECK(t->low_water <= t->used && t->used <= transfer_room(t));
    got = sa_min(t->used, n);
    if (got) {
        sa_store_relaxed(&t->used, (uint16_t)(t->used - got));
        memcpy(objs, t->slots + t->used, got * sizeof(*objs));
        if (t->used < t->low_water)
            t->low_water = t->used;
    }
    if (t->need == TRANSFER_IDLE)
        t->need = TRANSFER_FULL;
    if (got == n) {
        t->remove_hits++;
    } else {
        t->remove_misses++;
        t->remove_partial += n != sa_size_classes.of[cls].batch;
        if (t->need == TRANSFER_LOST)
            t->need = TRANSFER_FULL;
    }
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    return got;
}

size_t sa_transfer_remove(int cpu, unsigned cls, void **objs, size_t n)
{
    unsigned number = transfer_shard_for(cpu, cls);
    struct sa_transfer *own = sa_transfer_shard(number) + sa_first_use_index(cls), *other = NULL;
    size_t got;

    SA_DCHECK(n && n <= SA_MOVE_MAX && cls && cls < sa_size_classes.count);
    if (!sa_load_relaxed(&own->used) && sa_transfer_shard_count() > 1)
        other = transfer_choose(number, cls, n);
    got = transfer_take(other ? other : own, cls, objs, n);
    /* A few objects are enough to go on with; only an empty stack is worth another lock. */
    if (!got)
        got = sa_central_remove(cls, objs, n);
    if (SA_UNLIKELY(!got) && transfer_others(number, cls, &other))
        got = transfer_take(other, cls, objs, n);
    if (SA_UNLIKELY(sa_load_relaxed(&sa_central_mix_unshaken)) && sa_central_mix_shake_is_due())
        sa_transfer_plunder();
    sa_in_use_add((int64_t)(got * sa_size_classes.of[cls].size));
    return got;
}

SA_RARE bool sa_transfer_has(int cpu, unsigned cls)
{
    unsigned number;

    if (!sa_class_is_used(cls))
        return false;
    number = transfer_shard_for(cpu, cls);
    return sa_load_relaxed(&sa_transfer_shard(number)[sa_first_use_index(cls)].used) ||
           (sa_transfer_shard_count() > 1 && transfer_choose(number, cls, 1));
}

void sa_transfer_insert(int cpu, unsigned cls, void *const *objs, size_t n)
{
    unsigned number = transfer_shard_for(cpu, cls);
    struct sa_transfer *t = sa_transfer_shard(number) + sa_first_use_index(cls);
    bool fall = sa_load_relaxed(&sa_page_heap_fall);
    size_t max, room, fit = 0;

    SA_DCHECK(n && cls && cls < sa_size_classes.count);
    sa_in_use_add(-(int64_t)(n * sa_size_classes.of[cls].size));
    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    max = transfer_is_sole(cls) ? transfer_sole_max(t, cls)
                                : transfer_share(number, cls, t->used + n);
    if (SA_UNLIKELY(fall))
        max = sa_min(max, sa_size_classes.of[cls].batch);
    room = transfer_room(t);
    if (SA_UNLIKELY(t->used + n > room) && room < max) {
        transfer_grow(t, sa_min(t->used + n, max), transfer_capacity_most(cls));
        room = transfer_room(t);
    }
    room = sa_min(room, max);
    if (room > t->used)
        fit = sa_min(room - t->used, n);
    if (fit) {
        memcpy(t->slots + t->used, objs, fit * sizeof(*objs));
        sa_store_relaxed(&t->used, (uint16_t)(t->used + fit));
    }
    SA_DCHECK(t->used <= transfer_room(t) && t->used <= transfer_capacity_most(cls));
    if (fit == n) {
        t->insert_hits++;
    } else {
        t->insert_misses++;
        t->insert_partial += n != sa_size_classes.of[cls].batch;
        if (t->need == TRANSFER_SHORT && !fall)
            t->need = TRANSFER_LOST;
    }
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    if (fit < n) {
        sa_central_insert(cls, objs + fit, n - fit);
        sa_transfer_shard_of(cpu); /* the CPU counts for the capacity from now on */
    }
}

/* Passes on up to n of the oldest objects. */
SA_RARE static void transfer_drain(struct sa_transfer *t, unsigned cls, size_t n)
{
    void *few[SA_BATCH_FEW];
    struct sa_batch b = sa_batch_begin(few);

    while (n) {
        size_t k;

        sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
        k = sa_min(sa_min(n, sa_min(SA_MOVE_MAX, b.max)), t->used);
        if (k) {
            memcpy(b.objs, t->slots, k * sizeof(*b.objs));
            memmove(t->slots, t->slots + k, (t->used - k) * sizeof(*b.objs));
            sa_store_relaxed(&t->used, (uint16_t)(t->used - k));
            if (t->used < t->low_water)
                t->low_water = t->used;
        }
        sa_lock_release(&t->lock, SA_RANK_TRANSFER);
        if (!k)
            break;
        sa_central_insert(cls, b.objs, k);
        n -= k;
    }
    sa_batch_end(&b);
}

static void transfer_each(void (*visit)(struct sa_transfer *, unsigned cls))
{
    for (unsigned n = 0; n < sa_transfer_shard_count(); n++) {
        struct sa_transfer *of = sa_transfer_shard(n);

        for (unsigned cls = 1; of && cls < sa_size_classes.count; cls++)
            if (sa_class_is_used(cls) && sa_load_relaxed(&of[sa_first_use_index(cls)].used))
                visit(&of[sa_first_use_index(cls)], cls);
    }
}

SA_RARE static void transfer_plunder_one(struct sa_transfer *t, unsigned cls)
{
    size_t idle;

    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    idle = t->low_water;
    if (t->need >= TRANSFER_FULL)
        t->need = t->need == TRANSFER_IDLE ? TRANSFER_SHORT : TRANSFER_IDLE;
    t->low_water = t->used;
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    transfer_drain(t, cls, idle);
}

SA_RARE static void transfer_flush_one(struct sa_transfer *t, unsigned cls)
{
    transfer_drain(t, cls, transfer_capacity_most(cls));
}

#ifdef SA_DEBUG
/* Bounds of a stack, and that what is in it are objects of the class. */
static void transfer_check(const struct sa_transfer *t, unsigned cls) SA_REQUIRES(SA_RANK_TRANSFER)
{
    SA_CHECK(t->low_water <= t->used && t->used <= transfer_room(t));
    SA_CHECK(transfer_room(t) <= transfer_capacity_most(cls));
    for (size_t i = 0; i < t->used; i++) {
        unsigned of_page = sa_pagemap_class((uintptr_t)t->slots[i]);

        SA_CHECK((of_page ? of_page : sa_mixed_class((uintptr_t)t->slots[i])) == cls);
    }
}

void sa_transfer_validate(void)
{
    SA_CHECK(sa_transfer_shard_count() <= SA_SHARDS_MAX);
    for (unsigned n = 0; n < sa_transfer_shard_count(); n++) {
        struct sa_transfer *of = sa_transfer_shard(n);

        SA_CHECK(sa_load_relaxed(&sa_transfer_others.domain[n]) < SA_DOMAINS_MAX);
        for (unsigned cls = 1; of && cls < sa_size_classes.count; cls++) {
            struct sa_transfer *t;

            if (!sa_class_is_used(cls))
                continue;
            t = &of[sa_first_use_index(cls)];
            sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
            transfer_check(t, cls);
            sa_lock_release(&t->lock, SA_RANK_TRANSFER);
        }
    }
}
#endif

void sa_transfer_plunder(void)
{
    sa_transfer_validate();
    transfer_each(transfer_plunder_one);
    sa_central_plunder();
}

SA_RARE void sa_transfer_flush(void)
{
    transfer_each(transfer_flush_one);
    sa_central_flush();
}

SA_RARE void sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret)
{
    unsigned count = sa_transfer_shard_count();

    *ret =
        (struct sa_transfer_stats){.max_capacity = transfer_capacity(cls) * sa_transfer_domains()};
    for (unsigned n = 0; n < count && sa_class_is_used(cls); n++) {
        struct sa_transfer *t = sa_transfer_shard(n);

        if (!t)
            continue;
        t += sa_first_use_index(cls);
        sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
        ret->objects += t->used;
        ret->sharded += transfer_is_sole(cls) ? 0 : t->used;
        ret->capacity += transfer_is_sole(cls) ? sa_min(transfer_room(t), transfer_sole_max(t, cls))
                                               : transfer_room(t);
        ret->insert_hits += t->insert_hits;
        ret->insert_misses += t->insert_misses;
        ret->insert_partial += t->insert_partial;
        ret->remove_hits += t->remove_hits;
        ret->remove_misses += t->remove_misses;
        ret->remove_partial += t->remove_partial;
        sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    }
    ret->capacity = sa_max(sa_min(ret->capacity, ret->max_capacity), ret->objects);
}
