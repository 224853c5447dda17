/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfer caches; see transfer.h. One lock (TRANSFER) per class and domain guards its struct. The
 * central free list is called without it.
 *
 * Objects are kept in a plain stack: the last ones in are the warmest. low_water is the least
 * number of objects since the last plunder; that many have been of no use.
 *
 * A stack begins short and becomes four times as long when it is full. While short it is in an arena, so that those of all classes
 * share few pages in a small program; what it had before is lost. Then it moves to where its class has room for the capacity,
 * of which it touches what it uses.
 */
#include "alloc/middle/transfer.h"

#include "alloc/base/bits.h"
#include "alloc/base/class_order.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central.h"
#include "alloc/os/lock.h"
#include "alloc/os/percpu.h"
#include "alloc/os/vm.h"
#include "pagemap/arena.h"

#include <string.h>

/*
 * Of each class, unless a batch is more; less of the forty or so from 8 KiB on, of which an object costs the page heap little beside
 * its use. Less makes it slower to pass many blocks from thread to thread at a time, more is in no use where a program's
 * arrays grow through the classes: each has that much left behind.
 */
#define TRANSFER_OBJECTS    8192
#define TRANSFER_BYTES      524288
#define TRANSFER_LONG       8192
#define TRANSFER_BYTES_LONG 262144

#define DOMAINS_MOST 64
#define ROOM_FIRST   32 /* slots */
#define ROOM_GROWS   4  /* times */
#define PACKED_PART  4  /* of a page of the kernel's */

struct transfer {
    struct sa_lock lock;
    uint16_t used, low_water;
    void **slots; /* the word before them says how many; NULL until first needed */
    uint64_t insert_hits, insert_misses, insert_partial;
    uint64_t remove_hits, remove_misses, remove_partial;
} __attribute__((aligned(SA_CACHELINE)));

SA_STATIC_ASSERT(TRANSFER_OBJECTS <= UINT16_MAX, "counts fit");

static struct transfer transfer_first[SA_CLASSES_MAX]; /* by sa_class_place */

/* Written once by sa_transfer_split: domains is published last, with release. */
static struct {
    struct transfer *domain[DOMAINS_MOST];
    uint8_t of_cpu[SA_SLABS];
    unsigned domains; /* atomic; 0 counts as 1 */
} topology;

static size_t transfer_capacity(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t bytes = k->size < TRANSFER_LONG ? TRANSFER_BYTES : TRANSFER_BYTES_LONG;

    return sa_min(TRANSFER_OBJECTS, sa_max(k->batch, bytes / k->size));
}

static struct transfer *transfer_for(int cpu, unsigned cls)
{
    if (SA_LIKELY(sa_load_acquire(&topology.domains) <= 1) || cpu < 0 || cpu >= SA_SLABS)
        return &transfer_first[sa_class_place(cls)];
    return &topology.domain[topology.of_cpu[cpu]][sa_class_place(cls)];
}

static size_t transfer_room(const struct transfer *t)
{
    return t->slots ? (uintptr_t)t->slots[-1] : 0;
}

/* Whether so many slots are in an arena: from a quarter of a page on, a mapping of their own is worth it. */
static bool transfer_is_packed(size_t room)
{
    return (room + 1) * sizeof(void *) <= sa_vm.page_bytes / PACKED_PART;
}

/* An empty place with room for so many, or for the capacity. */
static void **transfer_place(size_t room, size_t capacity)
{
    void **slots =
        transfer_is_packed(room)
            ? sa_arena_alloc((room + 1) * sizeof(*slots), sizeof(*slots))
            : sa_vm_map_reserved(sa_align_up((capacity + 1) * sizeof(*slots), sa_vm.page_bytes),
                                 "salloc:metadata");

    return slots ? slots + 1 : NULL;
}

/* Room for so many, or for as many as there can be, or as there is memory for. */
SA_NOINLINE static void transfer_grow(struct transfer *t, size_t need, size_t capacity)
{
    size_t before = transfer_room(t), mapped = transfer_is_packed(before) ? 0 : before;
    size_t room = before;
    void **slots = t->slots;

    do
        room = sa_min(room ? ROOM_GROWS * room : ROOM_FIRST, capacity);
    while (room < need && room < capacity);
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
    slots[-1] = (void *)room;
    t->slots = slots;
}

size_t sa_transfer_remove(int cpu, unsigned cls, void **objs, size_t n)
{
    struct transfer *t = transfer_for(cpu, cls);
    size_t got;

    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    got = sa_min(t->used, n);
    if (got) {
        sa_store_relaxed(&t->used, (uint16_t)(t->used - got));
        memcpy(objs, t->slots + t->used, got * sizeof(*objs));
        if (t->used < t->low_water)
            t->low_water = t->used;
    }
    if (got == n) {
        t->remove_hits++;
    } else {
        t->remove_misses++;
        t->remove_partial += n != sa_size_classes.of[cls].batch;
    }
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    /* What is there is enough to go on with; only an empty stack is worth another lock. */
    return got ? got : sa_central_remove(cls, objs, n);
}

bool sa_transfer_has(int cpu, unsigned cls)
{
    return sa_class_has_place(cls) && sa_load_relaxed(&transfer_for(cpu, cls)->used) > 0;
}

void sa_transfer_insert(int cpu, unsigned cls, void *const *objs, size_t n)
{
    struct transfer *t = transfer_for(cpu, cls);
    size_t capacity = transfer_capacity(cls), room, fit;

    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    room = transfer_room(t);
    if (SA_UNLIKELY(t->used + n > room) && room < capacity) {
        transfer_grow(t, t->used + n, capacity);
        room = transfer_room(t);
    }
    fit = sa_min(room - t->used, n);
    if (fit) {
        memcpy(t->slots + t->used, objs, fit * sizeof(*objs));
        sa_store_relaxed(&t->used, (uint16_t)(t->used + fit));
    }
    if (fit == n) {
        t->insert_hits++;
    } else {
        t->insert_misses++;
        t->insert_partial += n != sa_size_classes.of[cls].batch;
    }
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    if (fit < n)
        sa_central_insert(cls, objs + fit, n - fit);
}

/* Passes on up to n of the oldest objects. */
static void transfer_drain(struct transfer *t, unsigned cls, size_t n)
{
    void *objs[SA_MOVE_MOST];

    while (n) {
        size_t k;

        sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
        k = sa_min(sa_min(n, SA_MOVE_MOST), t->used);
        if (k) {
            memcpy(objs, t->slots, k * sizeof(*objs));
            memmove(t->slots, t->slots + k, (t->used - k) * sizeof(*objs));
            sa_store_relaxed(&t->used, (uint16_t)(t->used - k));
            if (t->used < t->low_water)
                t->low_water = t->used;
        }
        sa_lock_release(&t->lock, SA_RANK_TRANSFER);
        if (!k)
            return;
        sa_central_insert(cls, objs, k);
        n -= k;
    }
}

static void transfer_each(void (*visit)(struct transfer *, unsigned cls))
{
    unsigned domains = sa_transfer_domains();

    for (unsigned d = 0; d < domains; d++) {
        struct transfer *of = d ? topology.domain[d] : transfer_first;

        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            struct transfer *t;

            if (!sa_class_has_place(cls))
                continue;
            t = &of[sa_class_place(cls)];
            if (sa_load_relaxed(&t->used))
                visit(t, cls);
        }
    }
}

static void transfer_plunder_one(struct transfer *t, unsigned cls)
{
    size_t idle;

    sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
    idle = t->low_water;
    t->low_water = t->used;
    sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    transfer_drain(t, cls, idle);
}

static void transfer_flush_one(struct transfer *t, unsigned cls)
{
    transfer_drain(t, cls, transfer_capacity(cls));
}

void sa_transfer_plunder(void)
{
    transfer_each(transfer_plunder_one);
}

void sa_transfer_flush(void)
{
    transfer_each(transfer_flush_one);
}

void sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret)
{
    unsigned domains = sa_transfer_domains();

    *ret = (struct sa_transfer_stats){0};
    for (unsigned d = 0; d < domains; d++) {
        struct transfer *t = d ? topology.domain[d] : transfer_first;

        ret->max_capacity += transfer_capacity(cls);
        if (!sa_class_has_place(cls))
            continue;
        t += sa_class_place(cls);
        sa_lock_acquire(&t->lock, SA_RANK_TRANSFER);
        ret->objects += t->used;
        ret->capacity += transfer_room(t);
        ret->insert_hits += t->insert_hits;
        ret->insert_misses += t->insert_misses;
        ret->insert_partial += t->insert_partial;
        ret->remove_hits += t->remove_hits;
        ret->remove_misses += t->remove_misses;
        ret->remove_partial += t->remove_partial;
        sa_lock_release(&t->lock, SA_RANK_TRANSFER);
    }
}

int sa_transfer_split(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    if (domains < 2 || domains > DOMAINS_MOST || sa_transfer_domains() != 1)
        return 0;
    for (unsigned d = 1; d < domains; d++) {
        topology.domain[d] =
            sa_arena_alloc(sizeof(struct transfer) * sa_size_classes.count, SA_CACHELINE);
        if (!topology.domain[d])
            return 0;
    }
    topology.domain[0] = transfer_first;
    memcpy(topology.of_cpu, domain_of, sa_min(cpus, SA_SLABS));
    sa_store_release(&topology.domains, domains);
    return 1;
}

unsigned sa_transfer_domains(void)
{
    unsigned domains = sa_load_acquire(&topology.domains);

    return domains ? domains : 1;
}
