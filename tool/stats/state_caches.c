/* SPDX-License-Identifier: Apache-2.0 */
/* The caches of CPUs and the transfer caches of a target, as records of this program; see state.h.
 * They have counts, and no objects. */
#include "tool/stats/state.h"

#include "alloc/base/thread_safety.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/middle/transfer_shards.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MAX   65536 /* slots of a stack of free objects */
#define HEADER_MAX 64    /* bytes of a class in a slab, */
#define STACK_MAX  256   /* of its stack in a transfer cache, */
#define CLASS_MAX  256   /* and of its shape */
#define TRIES      8

static const struct sa_own_field cache_fields[] = {
    SA_OWN_FIELD(struct cpu_cache, available_bytes), SA_OWN_FIELD(struct cpu_cache, limit_bytes),
    SA_OWN_FIELD(struct cpu_cache, underflows),      SA_OWN_FIELD(struct cpu_cache, overflows),
    SA_OWN_FIELD(struct cpu_cache, reclaims),        SA_OWN_FIELD(struct cpu_cache, allocs),
    SA_OWN_FIELD(struct cpu_cache, frees),
};

static const struct sa_own_field stack_fields[] = {
    SA_OWN_FIELD(struct sa_transfer, insert_hits),
    SA_OWN_FIELD(struct sa_transfer, insert_misses),
    SA_OWN_FIELD(struct sa_transfer, insert_partial),
    SA_OWN_FIELD(struct sa_transfer, remove_hits),
    SA_OWN_FIELD(struct sa_transfer, remove_misses),
    SA_OWN_FIELD(struct sa_transfer, remove_partial),
    SA_OWN_FIELD(struct sa_transfer, slots),
};

#define COUNT(fields) ((unsigned)(sizeof(fields) / sizeof(*(fields))))

/* The objects in a stack, and the two bit fields behind that number. */
SA_STATIC_ASSERT(offsetof(struct sa_transfer, used) == 4 &&
                     offsetof(struct sa_transfer, slots) == 8,
                 "used, low_water and need are one word");

struct caches {
    struct sa_state *s;
    struct sa_plan cache, stack;
    struct sa_field slab, used;
    uint64_t header_bytes, stack_bytes;
    uint32_t state;
};

/* The states of all classes, at one moment or nearly. */
static bool read_states(struct caches *c, uint64_t slab, struct sa_slab *own)
{
    char headers[SA_CLASSES_MAX * HEADER_MAX];
    size_t bytes = sa_size_classes.count * c->header_bytes;

    if (!sa_target_read(c->s->target, slab, headers, bytes))
        return false;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        memcpy(&own->header[cls].state, headers + cls * c->header_bytes + c->state,
               sizeof(own->header[cls].state));
    return true;
}

/* Lowers a sum to what it is now, if that is less: see cpu_count_before. */
static void lower(uint64_t *sum, uint64_t now)
{
    if ((int64_t)(now - *sum) < 0)
        *sum = now;
}

/* Reads counts and states until they belong together, as cpu_count_add does. */
static bool read_cache(struct caches *c, uint64_t address, struct cpu_cache *own)
{
    struct sa_target *t = c->s->target;
    struct cpu_cache again = {.slab = NULL};
    bool same = false;
    uint64_t slab;

    if (!sa_field_read(t, address, c->slab, &slab))
        return false;
    for (int i = 0; i < TRIES && !same; i++) {
        if (!sa_plan_read(t, &c->cache, address, own) || !read_states(c, slab, own->slab) ||
            !sa_plan_read(t, &c->cache, address, &again))
            return false;
        same = memcmp(own->allocs, again.allocs, sizeof(again.allocs)) == 0 &&
               memcmp(own->frees, again.frees, sizeof(again.frees)) == 0;
    }
    for (unsigned cls = 1; cls < SA_CLASSES; cls++) {
        lower(&own->allocs[cls], again.allocs[cls]);
        lower(&own->frees[cls], again.frees[cls]);
    }
    return true;
}

static bool take_cache(struct caches *c, uint64_t address, int cpu)
{
    struct cpu_cache *own = calloc(1, SA_SLAB_BEGIN + sizeof(struct sa_slab));

    if (!own)
        return false;
    own->slab = (struct sa_slab *)((char *)own + SA_SLAB_BEGIN);
    if (read_cache(c, address, own)) {
        sa_cpu_caches[cpu] = own;
    } else {
        c->s->dropped++;
        free(own);
    }
    return true;
}

static bool take_cpus(struct caches *c)
{
    uint64_t table = sa_table_variable(c->s->table, "sa_cpu_caches", c->s->e);
    int count = sa_cpu_cache_count();

    if (c->s->e->code)
        return false;
    for (int cpu = 0; cpu < count; cpu++) {
        uint64_t address = sa_state_word(c->s, table + (uint64_t)cpu * sizeof(uint64_t));

        if (address && !take_cache(c, address, cpu))
            return false;
    }
    return true;
}

/* Gives a stack slots of its own, of which only the number is used: the word before the first. No
 * analysis: this process has one thread. */
static bool give_slots(struct caches *c, struct sa_transfer *own) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint64_t room = own->slots ? sa_state_word(c->s, (uint64_t)(uintptr_t)own->slots - 8) : 0;
    void **slots;

    own->slots = NULL;
    if (!room || room > ROOM_MAX)
        return true;
    slots = calloc(2, sizeof(*slots));
    if (!slots)
        return false;
    slots[0] = (void *)(uintptr_t)room;
    own->slots = slots + 1;
    return true;
}

/* The stacks of a shard: one for each class that is used, in the order of first use. */
static bool take_shard(struct caches *c, uint64_t address, struct sa_transfer *own)
{
    char stacks[SA_CLASSES_MAX * STACK_MAX];
    unsigned count = 0;

    while (count < SA_CLASSES_MAX && sa_first_use[count])
        count++;
    if (!sa_target_read(c->s->target, address, stacks, count * c->stack_bytes)) {
        c->s->dropped++;
        return true;
    }
    for (unsigned i = 0; i < count; i++) {
        const char *theirs = stacks + i * c->stack_bytes;

        sa_plan_apply(&c->stack, theirs, &own[i]);
        memcpy((char *)&own[i] + 4, theirs + c->used.offset, 4);
        if (!give_slots(c, &own[i]))
            return false;
    }
    return true;
}

static bool take_shards(struct caches *c)
{
    uint64_t at = sa_state_place(c->s, "sa_transfer_others", "struct sa_transfer_others", "at");
    uint64_t first = sa_table_variable(c->s->table, "sa_transfer_first", c->s->e);
    unsigned count = sa_transfer_shard_count();

    if (c->s->e->code || !take_shard(c, first, sa_transfer_first))
        return false;
    for (unsigned n = 1; n < count; n++) {
        uint64_t address = sa_state_word(c->s, at + n * sizeof(uint64_t));
        struct sa_transfer *own;

        if (!address)
            continue;
        own = aligned_alloc(SA_CACHELINE, SA_CLASSES_MAX * sizeof(*own));
        if (!own)
            return false;
        memset(own, 0, SA_CLASSES_MAX * sizeof(*own));
        if (!take_shard(c, address, own))
            return false;
        sa_transfer_others.at[n] = own;
    }
    return true;
}

/* Classes of other sizes would give other bytes for the same counts. */
static bool same_classes(struct sa_state *s)
{
    char classes[SA_CLASSES_MAX * CLASS_MAX];
    uint64_t table = sa_table_variable(s->table, "sa_size_classes", s->e), count;
    uint64_t bytes = sa_table_constant(s->table, "struct sa_class", s->e);
    struct sa_field number = sa_table_field(s->table, "struct sa_size_classes", "count", s->e);
    struct sa_field of = sa_table_field(s->table, "struct sa_size_classes", "of", s->e);
    struct sa_field at = sa_table_field(s->table, "struct sa_class", "size", s->e);
    bool same;

    if (s->e->code)
        return false;
    same = bytes <= CLASS_MAX && at.bytes == sizeof(sa_size_classes.of[0].size) &&
           bytes >= at.bytes && at.offset <= bytes - at.bytes &&
           sa_field_read(s->target, table, number, &count) && count == sa_size_classes.count &&
           sa_target_read(s->target, table + of.offset, classes, count * bytes);
    for (unsigned cls = 1; same && cls < sa_size_classes.count; cls++)
        same =
            memcmp(classes + cls * bytes + at.offset, &sa_size_classes.of[cls].size, at.bytes) == 0;
    if (!same)
        sa_error_set(s->e, SA_EXIT_VERSION,
                     "its library has other size classes: use the sallocctl that comes with it");
    return same;
}

bool sa_state_take_caches(struct sa_state *s)
{
    struct caches c = {.s = s};

    c.slab = sa_table_field(s->table, "struct cpu_cache", "slab", s->e);
    c.used = sa_table_field(s->table, "struct sa_transfer", "used", s->e);
    c.state = sa_table_field(s->table, "struct sa_header", "state", s->e).offset;
    c.header_bytes = sa_table_constant(s->table, "struct sa_header", s->e);
    c.stack_bytes = sa_table_constant(s->table, "struct sa_transfer", s->e);
    if (s->e->code ||
        !sa_plan_make(s->table, "struct cpu_cache", cache_fields, COUNT(cache_fields), &c.cache,
                      s->e) ||
        !sa_plan_make(s->table, "struct sa_transfer", stack_fields, COUNT(stack_fields), &c.stack,
                      s->e) ||
        !same_classes(s))
        return false;
    if (c.stack_bytes > STACK_MAX || c.stack.span > c.stack_bytes || c.stack_bytes < 4 ||
        c.used.offset > c.stack_bytes - 4)
        return sa_state_damaged(s, "the size of a transfer cache");
    if (c.header_bytes < sizeof(uint64_t) || c.header_bytes > HEADER_MAX ||
        c.state > c.header_bytes - sizeof(uint64_t))
        return sa_state_damaged(s, "the header of a class");
    if (take_cpus(&c) && take_shards(&c))
        return true;
    sa_error_set(s->e, SA_EXIT_FAILED, "there is no memory for its caches");
    return false;
}
