/* SPDX-License-Identifier: Apache-2.0 */
/* Makes profiles (profile_snapshot.h). Until it is finished, a profile belongs to the thread that
 * makes it, so nothing here needs a lock. */
#include "sampling/snapshot/profile_snapshot.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/clock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "sampling/estimate/rates.h"
#include "sampling/guard/guarded.h"
#include "sampling/record/live_samples.h"
#include "sampling/sampler/sampler.h"
#include "sampling/snapshot/residency.h"

#include <errno.h>
#include <math.h>

#define TOTALS_MIN 1024

/* A profile and its memory, in a mapping of its own. */
struct profile_memory {
    struct sa_profile profile; /* first: sa_profile_free casts */
    struct sa_buckets buckets;
    size_t totals_cap;        /* totals that fit */
    size_t totals_bytes;      /* of their mapping */
    bool totals_short;        /* no memory for all of them */
    struct sa_copied singles; /* the single samples, without references to stacks */
};

/* Returns the bytes of a mapping for so many. */
static size_t map_bytes(size_t bytes)
{
    return sa_align_up(bytes, sa_max(sa_vm.page_bytes, 4096));
}

/* Unmaps the unused end of a mapping, down to one page, and returns the bytes that are left. */
static size_t map_trim(void *p, size_t bytes, size_t used)
{
    size_t left = sa_min(sa_max(map_bytes(used), map_bytes(1)), bytes);

    SA_DCHECK(used <= bytes);
    if (left < bytes)
        sa_vm_unmap((char *)p + left, bytes - left);
    return left;
}

/* Maps an empty profile. NULL: no memory. */
static struct profile_memory *profile_new(enum salloc_profile_type type)
{
    struct profile_memory *m =
        sa_vm_map(NULL, map_bytes(sizeof(struct profile_memory)), "salloc:profile");

    if (m) {
        m->profile.type = type;
        m->profile.time_ns = (int64_t)sa_clock_calendar_ns();
        m->profile.interval = sa_rates_interval();
    }
    return m;
}

/*
 * Stores the unseen blocks of a profile. For blocks that live now, those from before the last
 * change of rates are bounded. For other profiles no bound is known. They use the largest weights
 * of all times, unless the rates have the generation that they had when the recording began.
 */
static void profile_set_unseen(struct sa_profile *profile, uint32_t rates)
{
    struct sa_unseen *u = &profile->unseen;

    sa_rates_unseen(u);
    if (profile->type == SALLOC_PROFILE_HEAP || profile->type == SALLOC_PROFILE_FRAGMENTATION)
        return;
    if (rates != sa_rates_generation()) {
        if (u->bytes < u->past_bytes_weight)
            u->bytes = u->past_bytes_weight;
        if (u->blocks < u->past_blocks_weight)
            u->blocks = u->past_blocks_weight;
    }
    u->past_bytes_weight = u->past_blocks_weight = u->past_bytes = u->past_blocks = 0;
}

/* Trims the memory of a profile, fills in its remaining fields, and returns it. rates: the
 * generation at the start of the recording; 0: since the start of the program. */
static struct sa_profile *profile_finish(struct profile_memory *m, uint32_t rates)
{
    struct sa_stack_stats stacks;
    struct sa_sampler_stats sampler;

    /* A program may hold profiles for long, and memory limits count all mappings. */
    sa_buckets_trim(&m->buckets);
    m->totals_bytes = map_trim(m->profile.totals, m->totals_bytes,
                               m->profile.total_count * sizeof(struct sa_total));
    m->singles.mapped_bytes = map_trim(m->singles.samples, m->singles.mapped_bytes,
                                       m->singles.count * sizeof(*m->singles.samples));
    sa_stack_stats(&stacks);
    sa_sampler_stats(&sampler);
    m->profile.waste_max = INFINITY;
    m->profile.singles = m->singles.samples;
    m->profile.single_count = m->singles.count;
    m->profile.clock_ns = (int64_t)(sa_clock_calendar_ns() - sa_clock_ns());
    m->profile.buckets = m->buckets.buckets;
    m->profile.bucket_count = m->buckets.count;
    m->profile.stacks_dropped = stacks.dropped;
    m->profile.stacks_evicted = stacks.evicted_samples;
    m->profile.samples_dropped = sampler.failed + m->buckets.dropped;
    profile_set_unseen(&m->profile, rates);
    m->profile.used_bytes = sa_footprint_bytes();
    return &m->profile;
}

void sa_profile_free(struct sa_profile *profile)
{
    struct profile_memory *m = (struct profile_memory *)profile;

    sa_buckets_free(&m->buckets);
    sa_live_free_copied(&m->singles);
    for (size_t i = 0; i < profile->total_count; i++)
        sa_stack_unref(profile->totals[i].stack);
    sa_event_ring_close(&profile->events);
    if (m->totals_cap)
        sa_vm_unmap(profile->totals, m->totals_bytes);
    sa_vm_unmap(m, map_bytes(sizeof(*m)));
}

/* Sorts copied samples into buckets. */
static void profile_add_copied(struct profile_memory *m, const struct sa_copied *copied)
{
    for (size_t i = 0; i < copied->count; i++) {
        struct sa_sample_copy *s = &copied->samples[i];
        struct sa_bucket *bucket = sa_buckets_find(&m->buckets, &s->key);

        if (!bucket) {
            s->bucket = SIZE_MAX;
            continue;
        }
        s->bucket = (size_t)(bucket - m->buckets.buckets);
        bucket->samples += s->samples;
        bucket->offsets += s->offset;
        bucket->hits += s->hits;
        bucket->waste += s->waste;
    }
}

/* Finds out the residency of a sampled block. False: not known. */
static bool sample_residency(const struct sa_residency *pages, const struct sa_sample_copy *s,
                             struct sa_resident *ret)
{
    if (s->key.guarded == SALLOC_GUARDED_GUARDED)
        return sa_residency_of_filled(pages, s->start, s->key.allocated, s->key.requested,
                                      SA_GUARDED_FILL, ret);
    return sa_residency_of(pages, s->start, s->key.allocated, ret);
}

void sa_snapshot_measure(struct sa_profile *profile)
{
    struct profile_memory *m = (struct profile_memory *)profile;
    struct sa_residency pages;
    struct sa_resident resident;

    if (profile->type != SALLOC_PROFILE_HEAP)
        return;
    SA_DCHECK(!profile->knows);
    sa_residency_open(&pages, m->singles.count);
    profile->knows = pages.knows;
    for (size_t i = 0; i < m->singles.count; i++) {
        struct sa_sample_copy *s = &m->singles.samples[i];

        if (s->start && s->bucket != SIZE_MAX && sample_residency(&pages, s, &resident)) {
            s->resident = resident.resident;
            s->swapped = resident.swapped;
            s->locked = resident.locked;
            s->zero = resident.zero;
            m->buckets.buckets[s->bucket].resident += (double)resident.resident;
            m->buckets.buckets[s->bucket].swapped += (double)resident.swapped;
            m->buckets.buckets[s->bucket].locked += (double)resident.locked;
            m->buckets.buckets[s->bucket].zero += (double)resident.zero;
        }
    }
    sa_residency_close(&pages);
}

/* Doubles the room for totals. False: no memory. */
static bool totals_grow(struct profile_memory *m)
{
    size_t cap = m->totals_cap ? 2 * m->totals_cap : TOTALS_MIN;
    size_t bytes = map_bytes(cap * sizeof(struct sa_total));
    struct sa_total *more = sa_vm_map(NULL, bytes, "salloc:profile");

    if (!more)
        return false;
    for (size_t i = 0; i < m->profile.total_count; i++)
        more[i] = m->profile.totals[i];
    if (m->totals_cap)
        sa_vm_unmap(m->profile.totals, m->totals_bytes);
    m->profile.totals = more;
    m->totals_cap = cap;
    m->totals_bytes = bytes;
    return true;
}

/* Adds the totals of a stack. sa_stack_each calls it, under SAMPLES and STACKS. */
static void totals_visit(struct sa_stack *stack, void *arg)
{
    struct profile_memory *m = arg;

    SA_DCHECK_HELD(SA_RANK_SAMPLES);
    SA_DCHECK_HELD(SA_RANK_STACKS);
    if (m->totals_short)
        return;
    if (m->profile.total_count == m->totals_cap && !totals_grow(m)) {
        m->totals_short = true;
        return;
    }
    sa_stack_ref_locked(stack);
    m->profile.totals[m->profile.total_count++] = (struct sa_total){stack, stack->totals};
}

/* Adds the totals of all stacks. Those of evicted stacks belong to the unknown stack. False: no
 * memory. */
static bool profile_add_totals(struct profile_memory *m)
{
    struct sa_sums evicted = {0};

    sa_live_totals(totals_visit, m, &evicted);
    if (!m->totals_short && (evicted.samples || evicted.certain) &&
        (m->profile.total_count < m->totals_cap || totals_grow(m))) {
        sa_stack_ref(&sa_stack_unknown);
        m->profile.totals[m->profile.total_count++] = (struct sa_total){&sa_stack_unknown, evicted};
    }
    return !m->totals_short;
}

struct sa_profile *sa_snapshot_profile(enum salloc_profile_type type, int *ret_error)
{
    bool live = type != SALLOC_PROFILE_ALLOCATIONS;
    struct sa_copied copied = {0};
    struct profile_memory *m;

    *ret_error = EINVAL;
    if (type != SALLOC_PROFILE_HEAP && type != SALLOC_PROFILE_FRAGMENTATION &&
        type != SALLOC_PROFILE_PEAK_HEAP && type != SALLOC_PROFILE_ALLOCATIONS)
        return NULL;
    *ret_error = ENOMEM;
    m = profile_new(type);
    if (!m)
        return NULL;
    if ((live && !sa_live_copy(type == SALLOC_PROFILE_PEAK_HEAP, &copied)) ||
        ((type == SALLOC_PROFILE_HEAP || !live) && !profile_add_totals(m))) {
        sa_live_free_copied(&copied);
        sa_profile_free(&m->profile);
        return NULL;
    }
    if (type == SALLOC_PROFILE_PEAK_HEAP && copied.time_ns)
        m->profile.time_ns = copied.time_ns;
    profile_add_copied(m, &copied);
    sa_live_unref_copied(&copied);
    m->singles = copied;
    if (m->buckets.dropped && m->buckets.count < SA_BUCKETS_MAX) { /* no memory for all buckets */
        sa_profile_free(&m->profile);
        return NULL;
    }
    return profile_finish(m, 0);
}

/* Adds the blocks that were still allocated when a recording of lifetimes ended. */
static void profile_add_censored(struct profile_memory *m, const struct sa_copied *copied)
{
    uint64_t now = sa_clock_ns();

    for (size_t i = 0; i < copied->count; i++) {
        const struct sa_sample_copy *s = &copied->samples[i];
        struct sa_bucket_key key = s->key;
        struct sa_bucket *bucket;

        key.censored = 1;
        bucket = sa_buckets_find(&m->buckets, &key);
        if (!bucket)
            continue;
        bucket->samples++;
        bucket->offsets += s->offset;
        bucket->hits += s->hits;
        sa_bucket_add_life(bucket, now - s->time_ns);
    }
}

/* Adds the allocations among events to buckets, for the formats that add up. */
static void profile_add_events(struct profile_memory *m, const struct sa_event_ring *ring)
{
    m->profile.events = *ring;
    sa_event_ring_trim(&m->profile.events);
    for (size_t i = 0; i < sa_event_ring_count(ring); i++)
        sa_event_add_up(&m->buckets, sa_event_ring_get(&m->profile.events, i),
                        sa_sample_by_thread_get());
}

struct sa_profile *sa_snapshot_stop(uint64_t handle, int *ret_error)
{
    struct profile_memory *m = profile_new(SALLOC_PROFILE_ALLOCATIONS);
    struct sa_recording recording;
    struct sa_copied copied = {0};
    enum sa_stop stop = SA_STOP_NO_MEMORY;

    if (m)
        stop = sa_live_stop(handle, &recording, &copied);
    *ret_error = stop == SA_STOP_NONE ? EINVAL : ENOMEM;
    if (stop != SA_STOPPED) {
        if (m)
            sa_profile_free(&m->profile);
        return NULL;
    }
    m->profile.type = recording.type;
    m->profile.time_ns = recording.start_ns;
    m->profile.duration_ns = (int64_t)(sa_clock_ns() - recording.start_monotonic_ns);
    m->buckets = recording.buckets;
    if (recording.type == SALLOC_PROFILE_EVENTS)
        profile_add_events(m, &recording.events);
    profile_add_censored(m, &copied);
    sa_live_free_copied(&copied);
    return profile_finish(m, recording.rates);
}
