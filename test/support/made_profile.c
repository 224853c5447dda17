/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made by hand; see made_profile.h. */
#include "test/support/made_profile.h"

#include "sampling/snapshot/residency.h"

#include <math.h>
#include <search.h>
#include <string.h>

#define T     524288.0
#define DEPTH 3

/* Local functions, so that only .symtab has their names. Long enough for an address in the
 * middle. */
#define FUNCTION(name)                                                                             \
    static __attribute__((noinline, used)) int name(volatile int *p)                               \
    {                                                                                              \
        for (int i = 0; i < 100; i++)                                                              \
            *p += i ^ *p;                                                                          \
        return *p;                                                                                 \
    }

FUNCTION(made_leaf)
FUNCTION(made_middle)
FUNCTION(made_root)

static struct sa_stack *stack_at(unsigned which)
{
    static _Alignas(
        16) char bytes[MADE_STACKS][sizeof(struct sa_stack) + DEPTH * sizeof(uintptr_t)];

    return (struct sa_stack *)bytes[which];
}

static void set_stack(unsigned which, unsigned depth, uintptr_t a, uintptr_t b, uintptr_t c)
{
    struct sa_stack *stack = stack_at(which);

    stack->depth = depth;
    stack->hash = which;
    stack->pc[0] = a + 8; /* a return address is behind the call */
    stack->pc[1] = b + 8;
    stack->pc[2] = c + 8;
}

const struct sa_stack *made_stack(unsigned which)
{
    uintptr_t leaf = (uintptr_t)made_leaf, middle = (uintptr_t)made_middle;
    uintptr_t root = (uintptr_t)made_root;

    set_stack(MADE_LEAF, 3, leaf, middle, root);
    set_stack(MADE_MIDDLE, 2, middle, root, 0);
    set_stack(MADE_LIBC, 2, (uintptr_t)lfind, root, 0);
    set_stack(MADE_NOWHERE, 2, 0x10, root, 0);
    set_stack(MADE_UNKNOWN, 0, 0, 0, 0);
    return stack_at(which);
}

static struct sa_bucket bucket(unsigned stack, size_t allocated, size_t requested, uint64_t samples)
{
    struct sa_bucket r;

    memset(&r, 0, sizeof(r));
    r.key.stack = (struct sa_stack *)made_stack(stack);
    r.key.allocated = allocated;
    r.key.requested = requested;
    r.key.p = allocated >= 5 * T ? 1 : -expm1((double)allocated * log1p(-1 / T));
    r.key.interval = r.key.p == 1 ? 1 : T;
    r.key.same_cpu = r.key.same_vcpu = r.key.same_l3 = r.key.same_numa = r.key.same_thread = -1;
    r.samples = samples;
    r.offsets = (double)(samples * allocated) / 2;
    r.hits = (double)samples;
    return r;
}

#define ROWS 8

static size_t make_buckets(struct sa_bucket *buckets)
{
    buckets[0] = bucket(MADE_LEAF, 64, 50, 3);
    buckets[1] = bucket(MADE_LEAF, 8, 1, 1);
    buckets[2] = bucket(MADE_LEAF, 8, 8, 7);
    buckets[3] = bucket(MADE_MIDDLE, 4096, 4096, 2);
    buckets[3].key.align = 4096;
    buckets[3].key.kind = SALLOC_KIND_ALIGNED;
    buckets[4] = bucket(MADE_LIBC, 8 << 20, (8 << 20) - 1, 5);
    buckets[4].key.kind = SALLOC_KIND_NEW;
    buckets[5] = bucket(MADE_NOWHERE, 524288, 524288, 1);
    buckets[6] = bucket(MADE_UNKNOWN, 16, 16, 1);
    buckets[7] = bucket(MADE_MIDDLE, 16, 9, 11);
    buckets[0].key.guarded = SALLOC_GUARDED_GUARDED;
    buckets[1].key.guarded = SALLOC_GUARDED_RATE_LIMITED;
    buckets[2].key.guarded = SALLOC_GUARDED_FILTERED;
    buckets[3].key.guarded = SALLOC_GUARDED_MPROTECT_FAILED;
    buckets[4].key.guarded = SALLOC_GUARDED_LARGER_THAN_ONE_PAGE;
    buckets[5].key.guarded = SALLOC_GUARDED_NO_AVAILABLE_SLOTS;
    buckets[6].key.guarded = SALLOC_GUARDED_DISABLED;
    return ROWS;
}

static void set_ends(struct sa_bucket *buckets)
{
    for (size_t i = 0; i < ROWS; i++) {
        double n = (double)buckets[i].samples;

        buckets[i].life_sum = n * 1e6;
        buckets[i].life_squares = n * (1e12 + (n > 1 ? 4e10 : 0)); /* deviation 200 us */
        buckets[i].life_min = n > 1 ? 800000 : 1000000;
        buckets[i].life_max = n > 1 ? 1200000 : 1000000;
        buckets[i].key.censored = i == 3;
        if (!buckets[i].key.censored) {
            buckets[i].key.free_stack = i == 5 ? NULL : (struct sa_stack *)made_stack(MADE_LIBC);
            buckets[i].key.same_cpu = i % 2;
            buckets[i].key.same_vcpu = -2; /* not known */
            buckets[i].key.same_l3 = i % 4 < 2;
            buckets[i].key.same_numa = i < 4;
            buckets[i].key.same_thread = 1;
        }
    }
}

static void make_totals(struct sa_profile *profile, struct sa_total *totals)
{
    profile->totals = totals;
    profile->total_count = 2;
    for (size_t i = 0; i < 2; i++) {
        struct sa_bucket more = bucket(MADE_LEAF + (unsigned)i, 64, 64, 40 + i);
        struct sa_group group = sa_bucket_group(&more);

        memset(&totals[i], 0, sizeof(totals[i]));
        totals[i].stack = more.key.stack;
        sa_sums_add(&totals[i].sums, &group);
    }
}

const struct sa_profile *made_profile(enum salloc_profile_type type)
{
    static struct {
        struct sa_profile profile;
        struct sa_bucket buckets[ROWS];
        struct sa_total totals[2];
    } made[SALLOC_PROFILE_LIFETIMES + 1];
    struct sa_profile *profile = &made[type].profile;

    profile->type = type;
    profile->time_ns = 1709210096123456789; /* 2024-02-29 12:34:56 */
    profile->interval = (int64_t)T;
    profile->unseen = (struct sa_unseen){.bytes = T, .blocks = T / 8};
    profile->buckets = made[type].buckets;
    profile->bucket_count = make_buckets(profile->buckets);
    profile->stacks_dropped = 1;
    profile->samples_dropped = 2;
    if (type == SALLOC_PROFILE_HEAP) {
        make_totals(profile, made[type].totals);
        profile->buckets[4].resident = 5e6;
        profile->buckets[4].swapped = 4096;
        profile->buckets[4].locked = 3e6;
        profile->buckets[4].zero = 2e6;
        profile->buckets[3].resident = 4096; /* of 8192, in two samples */
        profile->knows = SA_KNOWS_PAGES | SA_KNOWS_LOCKED | SA_KNOWS_ZERO;
    }
    if (type == SALLOC_PROFILE_FRAGMENTATION)
        for (size_t i = 0; i < ROWS; i++)
            profile->buckets[i].waste =
                i == 4 ? 0 : 0.25 * (double)profile->buckets[i].samples * (double)i;
    if (type == SALLOC_PROFILE_LIFETIMES)
        set_ends(profile->buckets);
    if (type == SALLOC_PROFILE_LIFETIMES || type == SALLOC_PROFILE_ALLOCATIONS)
        profile->duration_ns = 1500000000;
    return profile;
}

const struct sa_profile *made_profile_empty(enum salloc_profile_type type)
{
    static struct sa_profile profile;

    profile.type = type;
    profile.unseen = (struct sa_unseen){.bytes = INFINITY, .blocks = INFINITY};
    return &profile;
}
