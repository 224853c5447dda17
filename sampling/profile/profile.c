/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the public views and the sums of a profile (profile.h). The functions keep no state,
 * take no lock and allocate nothing. */
#include "sampling/profile/profile.h"

#include "alloc/base/fatal.h"
#include "alloc/base/math.h"

#include <string.h>

/* Stores the addresses and the depth of a stack, or NULL and 0. */
static void set_stack(const struct sa_stack *stack, const void *const **ret, size_t *ret_depth)
{
    *ret = stack ? (const void *const *)stack->pc : NULL;
    *ret_depth = stack ? stack->depth : 0;
}

/* Returns enum sa_same as the public header has it: 1, 0, or -1 for all kinds of unknown. */
static int same_or_not(int same)
{
    return same < 0 ? -1 : same;
}

/* Stores that nothing is known of a free. */
static void set_not_freed(struct salloc_profile_sample *ret)
{
    ret->same_cpu = ret->same_vcpu = ret->same_l3 = ret->same_numa = ret->same_thread = -1;
}

/* Stores lifetimes. All samples of a bucket have one p, so their mean needs no weights. */
static void set_lifetimes(const struct sa_bucket *bucket, struct salloc_profile_sample *ret)
{
    double n = (double)bucket->samples, mean = n > 0 ? bucket->life_sum / n : 0;
    double variance = n > 0 ? bucket->life_squares / n - mean * mean : 0;

    ret->censored = bucket->key.censored;
    ret->same_cpu = same_or_not(bucket->key.same_cpu);
    ret->same_vcpu = same_or_not(bucket->key.same_vcpu);
    ret->same_l3 = same_or_not(bucket->key.same_l3);
    ret->same_numa = same_or_not(bucket->key.same_numa);
    ret->same_thread = same_or_not(bucket->key.same_thread);
    ret->lifetime_mean = mean;
    ret->lifetime_deviation = variance > 0 ? sa_sqrt(variance) : 0;
    ret->lifetime_min = bucket->life_min;
    ret->lifetime_max = bucket->life_max;
}

void sa_profile_bucket_sample(const struct sa_profile *profile, const struct sa_bucket *bucket,
                              struct salloc_profile_sample *ret)
{
    double count = (double)bucket->samples / bucket->key.p;
    double bytes = count * (double)bucket->key.allocated;

    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    set_stack(bucket->key.stack, &ret->stack, &ret->depth);
    ret->kind = (enum salloc_allocation_kind)bucket->key.kind;
    ret->allocated_size = bucket->key.allocated;
    ret->requested_size = bucket->key.requested;
    ret->alignment = bucket->key.align;
    ret->probability = bucket->key.p;
    ret->interval = bucket->key.interval;
    ret->samples = bucket->samples;
    ret->thread = bucket->key.tid;
    ret->guarded_status = (enum salloc_guarded_status)bucket->key.guarded;
    if (profile->type >= SALLOC_PROFILE_ALLOCATIONS) { /* of a recording */
        ret->alloc_count = count;
        ret->alloc_bytes = bytes;
    } else {
        ret->inuse_count = count;
        ret->inuse_bytes = bytes;
    }
    set_not_freed(ret);
    if (profile->type == SALLOC_PROFILE_LIFETIMES) {
        ret->free_thread = bucket->key.free_tid;
        set_stack(bucket->key.free_stack, &ret->free_stack, &ret->free_depth);
        set_lifetimes(bucket, ret);
    }
    if (profile->type == SALLOC_PROFILE_HEAP) {
        ret->resident_bytes = bucket->resident / bucket->key.p;
        ret->swapped_bytes = bucket->swapped / bucket->key.p;
        ret->locked_bytes = bucket->locked / bucket->key.p;
        ret->zero_bytes = bucket->zero / bucket->key.p;
    }
    if (profile->type == SALLOC_PROFILE_FRAGMENTATION)
        ret->fragmentation_bytes = bucket->waste * (double)bucket->key.allocated / bucket->key.p;
}

bool sa_profile_single_sample(const struct sa_profile *profile, const struct sa_sample_copy *single,
                              struct salloc_profile_sample *ret)
{
    struct sa_bucket bucket;

    if (single->bucket == SIZE_MAX)
        return false;
    SA_DCHECK(single->bucket < profile->bucket_count);
    bucket = (struct sa_bucket){.key = profile->buckets[single->bucket].key,
                                .samples = single->samples,
                                .resident = (double)single->resident,
                                .swapped = (double)single->swapped,
                                .locked = (double)single->locked,
                                .zero = (double)single->zero,
                                .waste = single->waste};
    sa_profile_bucket_sample(profile, &bucket, ret);
    ret->address = (const void *)single->address;
    ret->thread = single->tid;
    ret->time_ns = single->time_ns ? (int64_t)single->time_ns + profile->clock_ns : 0;
    return true;
}

void sa_profile_total_sample(const struct sa_profile *profile, const struct sa_total *total,
                             struct salloc_profile_sample *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    set_stack(total->stack, &ret->stack, &ret->depth);
    ret->interval = (double)profile->interval;
    ret->samples = total->sums.samples + total->sums.certain;
    ret->alloc_count = total->sums.count + (double)total->sums.certain;
    ret->alloc_bytes = total->sums.bytes + total->sums.certain_bytes;
    set_not_freed(ret);
}

void sa_profile_event(const struct sa_profile *profile, size_t i, struct salloc_sample_event *ret)
{
    const struct sa_ring_event *e = sa_event_ring_get(&profile->events, i);
    bool freed = e->free_time_ns != 0;

    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    ret->event = freed ? SALLOC_EVENT_FREED : SALLOC_EVENT_ALLOCATED;
    ret->kind = (enum salloc_allocation_kind)e->kind;
    ret->handle = e->handle;
    ret->address = (const void *)e->address;
    ret->requested_size = e->requested;
    ret->allocated_size = e->allocated;
    ret->alignment = e->align;
    ret->weight = 1 / e->p;
    set_stack(e->stack, &ret->stack, &ret->depth);
    set_stack(e->free_stack, &ret->free_stack, &ret->free_depth);
    ret->time_ns = (int64_t)e->time_ns + profile->clock_ns;
    ret->free_time_ns = freed ? (int64_t)e->free_time_ns + profile->clock_ns : 0;
    ret->thread = e->tid;
    ret->free_thread = e->free_tid;
    ret->cpu = e->cpu;
    ret->free_cpu = e->free_cpu;
}

bool sa_profile_sums(const struct sa_profile *profile, const struct sa_stack *stack,
                     struct sa_sums *ret)
{
    bool any = stack == NULL;

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < profile->bucket_count; i++) {
        struct sa_group group = sa_bucket_group(&profile->buckets[i]);

        if (stack && profile->buckets[i].key.stack != stack)
            continue;
        sa_sums_add(ret, &group);
        any = true;
    }
    /* The totals of a heap profile are of all blocks ever allocated, not of those in use. */
    for (size_t i = 0; i < profile->total_count; i++) {
        if (stack && profile->totals[i].stack != stack)
            continue;
        if (profile->type == SALLOC_PROFILE_ALLOCATIONS)
            sa_sums_merge(ret, &profile->totals[i].sums);
        any = true;
    }
    return any;
}
