/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches of the model (model.h): a stack for each CPU and class, whose capacity grows with
 * misses of both kinds (cpu_cache_capacity.c), and transfer caches (transfer_cache.c).
 *
 * Left out: the balance between CPUs, and transfer caches of several domains.
 */
#include "perf/fragmentation/model.h"

#include <stdlib.h>
#include <string.h>

/* Of cpu_cache_capacity.c and transfer_cache.h. */
#define APART_BYTES   16384
#define APART_MIN     64
#define STEAL_EVERY   8
#define STEAL_VICTIMS 16
#define MOVE_MAX      448

/* Of transfer_cache.c. */
#define TRANSFER_OBJECTS    8192
#define TRANSFER_BYTES      524288
#define TRANSFER_LONG       8192
#define TRANSFER_BYTES_LONG 262144
#define SHARDED_BYTES       256
#define MUCH_FRACTION       4
#define ENOUGH              4
#define SHORT_FRACTION      8

#define CPUS 64

enum miss { UNDERFLOW = 1, OVERFLOW };
enum need { SHORT, LOST, FULL, IDLE };

struct stack {
    uint32_t *slots;
    uint32_t used, cap, room;
    uint32_t allocs, missed_at, apart; /* allocations; at the last miss; mean between misses */
    uint8_t last_miss, clock;
};

struct transfer {
    uint32_t slots[TRANSFER_OBJECTS];
    uint32_t used, low_water;
    enum need need;
};

static struct cpu {
    struct stack stacks[SA_CLASSES_MAX];
    struct transfer *transfers[SA_CLASSES_MAX];
    double available;
    unsigned hand, unstolen;
    bool is_on, was_used;
} cpus[CPUS];

static unsigned cpus_on;

static const struct sa_class *class_of(unsigned cls)
{
    return &sa_size_classes.of[cls];
}

/* --- Transfer caches --- */

static size_t transfer_capacity(unsigned cls)
{
    const struct sa_class *k = class_of(cls);
    size_t bytes = k->size < TRANSFER_LONG ? TRANSFER_BYTES : TRANSFER_BYTES_LONG;
    size_t objects = (size_t)((double)bytes * params.transfer) / k->size;

    return sa_min(TRANSFER_OBJECTS, sa_max(k->batch, objects));
}

static bool is_sharded(unsigned cls)
{
    return class_of(cls)->size <= SHARDED_BYTES && cpus_on > 1;
}

static struct transfer *transfer_of(unsigned cpu, unsigned cls)
{
    struct transfer **t = &cpus[class_of(cls)->size <= SHARDED_BYTES ? cpu : 0].transfers[cls];

    if (!*t && !(*t = calloc(1, sizeof(**t))))
        abort();
    return *t;
}

/* The number of objects in the stacks of the other CPUs, and the fullest of those. */
static size_t transfer_others(unsigned cpu, unsigned cls, struct transfer **ret_fullest)
{
    size_t all = 0;

    *ret_fullest = NULL;
    if (is_sharded(cls))
        for (unsigned n = 0; n < CPUS; n++) {
            struct transfer *t = n == cpu ? NULL : cpus[n].transfers[cls];

            if (!t || !t->used)
                continue;
            all += t->used;
            if (!*ret_fullest || t->used > (*ret_fullest)->used)
                *ret_fullest = t;
        }
    return all;
}

static size_t transfer_max(unsigned cpu, unsigned cls, const struct transfer *t)
{
    size_t capacity = transfer_capacity(cls);
    struct transfer *fullest;

    if (is_sharded(cls))
        return capacity - sa_min(transfer_others(cpu, cls, &fullest), capacity);
    return t->need >= FULL ? capacity : sa_max(class_of(cls)->batch, capacity / SHORT_FRACTION);
}

/* Passes on up to n of the oldest objects. */
static void transfer_drain(struct transfer *t, unsigned cls, size_t n)
{
    n = sa_min(n, t->used);
    if (!n)
        return;
    central_put(cls, t->slots, n);
    memmove(t->slots, t->slots + n, (t->used - n) * sizeof(t->slots[0]));
    t->used -= (uint32_t)n;
    t->low_water = sa_min(t->low_water, t->used);
}

static void transfer_plunder(void)
{
    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            struct transfer *t = cpus[cpu].transfers[cls];
            size_t idle;

            if (!t)
                continue;
            idle = t->low_water;
            if (t->need >= FULL)
                t->need = t->need == IDLE ? SHORT : IDLE;
            t->low_water = t->used;
            transfer_drain(t, cls, idle);
        }
    central_plunder();
}

static void transfer_put(unsigned cpu, unsigned cls, const uint32_t *units, size_t n)
{
    struct transfer *t = transfer_of(cpu, cls);
    size_t max = transfer_max(cpu, cls, t), fit = sa_min(max > t->used ? max - t->used : 0, n);

    given_bytes -= (int64_t)(n * class_of(cls)->size);
    memcpy(t->slots + t->used, units, fit * sizeof(*units));
    t->used += (uint32_t)fit;
    if (fit == n)
        return;
    if (t->need == SHORT)
        t->need = LOST;
    central_put(cls, units + fit, n - fit);
}

static size_t transfer_take(unsigned cpu, unsigned cls, uint32_t *units, size_t n)
{
    struct transfer *t = transfer_of(cpu, cls), *other = NULL;
    size_t got, all;

    if (!t->used && is_sharded(cls)) {
        all = transfer_others(cpu, cls, &other);
        if (other && all < transfer_capacity(cls) / MUCH_FRACTION &&
            (central_has(cls) || other->used < ENOUGH * n))
            other = NULL;
    }
    t = other ? other : t;
    got = sa_min(t->used, n);
    t->used -= (uint32_t)got;
    memcpy(units, t->slots + t->used, got * sizeof(*units));
    t->low_water = sa_min(t->low_water, t->used);
    if (t->need == IDLE)
        t->need = FULL;
    if (got < n && t->need == LOST)
        t->need = FULL;
    if (!got)
        got = central_take(cls, units, n);
    if (central_shake_is_due())
        transfer_plunder();
    given_bytes += (int64_t)(got * class_of(cls)->size);
    return got;
}

/* --- CPU caches --- */

static struct cpu *cpu_of(unsigned cpu)
{
    struct cpu *c = &cpus[cpu % CPUS];

    if (!c->is_on) {
        c->is_on = true;
        c->available = params.cpu_cache;
        cpus_on++;
    }
    c->was_used = true;
    return c;
}

/* Passes n objects of the top of a stack on. */
static void stack_pass(unsigned cpu, struct stack *s, unsigned cls, size_t n)
{
    while (n) {
        size_t k = sa_min(n, MOVE_MAX);

        s->used -= (uint32_t)k;
        transfer_put(cpu, cls, s->slots + s->used, k);
        n -= k;
    }
}

static void cpu_drain(unsigned cpu)
{
    struct cpu *c = &cpus[cpu];

    for (unsigned cls = 1; c->is_on && cls < sa_size_classes.count; cls++) {
        struct stack *s = &c->stacks[cls];

        stack_pass(cpu, s, cls, s->used);
        c->available += (double)s->cap * class_of(cls)->size;
        s->cap = 0;
    }
}

static size_t budget_take(struct cpu *c, size_t bytes)
{
    size_t take = c->available <= 0 ? 0 : sa_min((size_t)c->available, bytes);

    c->available -= (double)take;
    return take;
}

/* Takes capacity from classes that have not missed since the hand last passed. */
static void cpu_steal(struct cpu *c, unsigned cpu, unsigned for_cls, size_t need)
{
    for (int looked = 0; looked < STEAL_VICTIMS && need; looked++) {
        struct stack *s;
        uint32_t target;
        size_t got;

        c->hand = c->hand + 1 < sa_size_classes.count ? c->hand + 1 : 1;
        s = &c->stacks[c->hand];
        if (c->hand == for_cls || !s->cap)
            continue;
        if (s->clock) {
            s->clock = 0;
            continue;
        }
        target = s->cap > class_of(c->hand)->batch ? s->cap / 2 : 0;
        if (s->used > target)
            stack_pass(cpu, s, c->hand, s->used - target);
        got = (size_t)(s->cap - target) * class_of(c->hand)->size;
        s->cap = target;
        c->available += (double)got;
        need -= sa_min(got, need);
    }
}

static bool misses_often(struct stack *s, unsigned cls, uint32_t since)
{
    s->apart = (s->apart + since) / 2;
    return s->apart < sa_max(sa_max(APART_MIN, APART_BYTES / class_of(cls)->size), s->cap);
}

/* Gives a class more capacity after a miss, if that is worth its memory. */
static void grow(struct cpu *c, unsigned cpu, unsigned cls, enum miss kind)
{
    const struct sa_class *k = class_of(cls);
    struct stack *s = &c->stacks[cls];
    uint32_t since = (s->allocs - s->missed_at) & UINT16_MAX, more;
    bool same = s->last_miss == kind;
    size_t got;

    s->missed_at = s->allocs;
    s->last_miss = (uint8_t)kind;
    s->clock = 1;
    if (s->cap >= k->max || (same && s->cap >= 2u * k->batch))
        return;
    if (!same && !misses_often(s, cls, since) && s->cap >= k->batch)
        return;
    more = (uint32_t)sa_min(sa_max(k->batch, s->cap / 2), k->max - s->cap);
    got = budget_take(c, (size_t)more * k->size);
    if (got < (size_t)more * k->size && (s->cap < k->batch || ++c->unstolen % STEAL_EVERY == 0)) {
        cpu_steal(c, cpu, cls, (size_t)more * k->size - got);
        got += budget_take(c, (size_t)more * k->size - got);
    }
    more = (uint32_t)(got / k->size);
    c->available += (double)(got - (size_t)more * k->size);
    s->cap += more;
    if (s->cap <= s->room)
        return;
    s->room = s->cap;
    s->slots = realloc(s->slots, s->room * sizeof(s->slots[0]));
    if (!s->slots)
        abort();
}

static size_t move_count(const struct sa_class *k, uint32_t cap)
{
    return sa_min(sa_max(k->batch, cap / 2), MOVE_MAX);
}

/* Passes on the objects of all CPUs, if they keep mixed spans from being used. */
static void drain_for_mixed(void)
{
    if (!central_drain_is_due((size_t)(params.cpu_cache * cpus_on)))
        return;
    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        cpu_drain(cpu);
}

uint32_t cache_alloc(unsigned cpu, unsigned cls)
{
    struct cpu *c = cpu_of(cpu);
    struct stack *s = &c->stacks[cls];
    uint32_t units[MOVE_MAX + 1];
    size_t n;

    cpu %= CPUS;
    s->allocs++;
    if (s->used)
        return s->slots[--s->used];
    drain_for_mixed();
    grow(c, cpu, cls, UNDERFLOW);
    n = transfer_take(cpu, cls, units, sa_min(move_count(class_of(cls), s->cap), s->cap + 1));
    n--;
    if (n)
        memcpy(s->slots, units, n * sizeof(units[0]));
    s->used = (uint32_t)n;
    return units[n];
}

unsigned cache_borrow(unsigned cpu, unsigned cls, uint32_t *ret_unit)
{
    struct cpu *c = cpu_of(cpu);
    unsigned of;

    if (c->stacks[cls].used || transfer_of(cpu % CPUS, cls)->used)
        return 0;
    of = central_borrow(cls, ret_unit);
    given_bytes += class_of(of)->size;
    return of;
}

void cache_free(unsigned cpu, unsigned cls, uint32_t unit)
{
    struct cpu *c = cpu_of(cpu);
    struct stack *s = &c->stacks[cls];

    cpu %= CPUS;
    if (class_of(cls)->size > params.returns && mixed_owns(unit) &&
        mixed_returns(class_of(cls)->size)) {
        given_bytes -= class_of(cls)->size;
        central_put(cls, &unit, 1);
        return;
    }
    if (s->used == s->cap) {
        drain_for_mixed();
        grow(c, cpu, cls, OVERFLOW);
    }
    if (!s->cap) {
        transfer_put(cpu, cls, &unit, 1);
        return;
    }
    if (s->used == s->cap)
        stack_pass(cpu, s, cls, sa_min(move_count(class_of(cls), s->cap), s->used));
    s->slots[s->used++] = unit;
}

void cache_tick(void)
{
    static unsigned ticks;

    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        if (cpus[cpu].is_on && !cpus[cpu].was_used)
            cpu_drain(cpu);
        cpus[cpu].was_used = false;
    }
    if (++ticks % 2 == 0)
        transfer_plunder();
}

size_t cache_cpu_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
            bytes += (size_t)cpus[cpu].stacks[cls].used * class_of(cls)->size;
    return bytes;
}

size_t cache_transfer_bytes(void)
{
    size_t bytes = 0;

    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
            if (cpus[cpu].transfers[cls])
                bytes += (size_t)cpus[cpu].transfers[cls]->used * class_of(cls)->size;
    return bytes;
}
