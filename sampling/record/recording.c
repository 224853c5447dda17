/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of allocations and lifetimes; see recording.h. SAMPLES guards all state, unless a
 * field says otherwise. */
#include "sampling/record/recording.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/estimate/rates.h"

static struct slot {
    bool runs;
    uint64_t generation; /* part of the handle; grows with each use of the slot */
    struct sa_recording recording;
} slots[SA_RECORDINGS] SA_GUARDED_BY(SA_RANK_SAMPLES);

static uint64_t filled SA_GUARDED_BY(SA_RANK_SAMPLES); /* bit set = slot runs */
static uint32_t want_frees; /* recordings of lifetimes, and hooks; atomic, relaxed */

static bool by_thread; /* buckets for each thread; atomic, relaxed */

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ALL("by_thread", by_thread),
    SA_LAYOUT_VALUE(SA_RECORDINGS),
    SA_LAYOUT_SIZE(struct slot),
    SA_LAYOUT_FIELD(struct slot, runs),
    SA_LAYOUT_FIELD(struct slot, generation),
    SA_LAYOUT_FIELD(struct slot, recording),
    SA_LAYOUT_FIELD(struct sa_recording, type),
    SA_LAYOUT_FIELD(struct sa_recording, start_ns),
    SA_LAYOUT_FIELD(struct sa_recording, start_monotonic_ns),
    SA_LAYOUT_FIELD(struct sa_recording, events),
};
SA_LAYOUT_STATIC_ADDRESS("by_thread", by_thread);
SA_LAYOUT_STATIC_ADDRESS("recordings", slots);

uint32_t sa_sample_thread(void)
{
    static uint32_t numbers; /* atomic */

    if (!sa_thread.number)
        sa_thread.number = sa_add_relaxed(&numbers, 1) + 1;
    return sa_thread.number;
}

uint32_t sa_sample_tid(bool exact)
{
    if (exact || !sa_thread.area.tid)
        sa_thread.area.tid = sa_sys_tid();
    return sa_thread.area.tid;
}

void sa_sample_set_by_thread(bool on)
{
    sa_store_relaxed(&by_thread, on);
}

SA_RARE bool sa_sample_by_thread_get(void)
{
    return sa_load_relaxed(&by_thread);
}

SA_RARE struct sa_bucket_key sa_sample_key(const struct sa_sample *s)
{
    return (struct sa_bucket_key){.stack = s->stack,
                                  .p = s->p,
                                  .interval = s->interval,
                                  .allocated = s->allocated,
                                  .requested = s->requested,
                                  .align = s->align,
                                  .kind = s->kind,
                                  .guarded = s->guarded,
                                  .same_cpu = SA_SAME_NONE,
                                  .same_vcpu = SA_SAME_NONE,
                                  .same_l3 = SA_SAME_NONE,
                                  .same_numa = SA_SAME_NONE,
                                  .same_thread = SA_SAME_NONE,
                                  .tid = sa_load_relaxed(&by_thread) ? s->tid : 0};
}

SA_RARE uint64_t sa_recordings_start(const struct sa_recording *recording)
{
    for (unsigned i = 0; i < SA_RECORDINGS; i++) {
        struct slot *slot = &slots[i];

        if (slot->runs)
            continue;
        slot->runs = true;
        slot->generation++;
        slot->recording = *recording;
        slot->recording.rates = sa_rates_generation();
        filled |= 1ull << i;
        if (recording->type >= SALLOC_PROFILE_LIFETIMES)
            sa_recordings_want(1);
        return slot->generation * SA_RECORDINGS + i;
    }
    return 0;
}

static struct slot *slot_get(uint64_t handle) SA_REQUIRES(SA_RANK_SAMPLES)
{
    struct slot *slot = &slots[handle % SA_RECORDINGS];

    return slot->runs && slot->generation == handle / SA_RECORDINGS ? slot : NULL;
}

SA_RARE struct sa_recording *sa_recordings_get(uint64_t handle)
{
    struct slot *slot = slot_get(handle);

    return slot ? &slot->recording : NULL;
}

SA_RARE void sa_recordings_end(uint64_t handle)
{
    struct slot *slot = slot_get(handle);

    slot->runs = false;
    filled &= ~(1ull << (slot - slots));
    if (slot->recording.type >= SALLOC_PROFILE_LIFETIMES)
        sa_recordings_want(-1);
    slot->recording = (struct sa_recording){0};
}

SA_RARE void sa_recordings_want(int change)
{
    sa_add_relaxed(&want_frees, (uint32_t)change);
}

bool sa_recordings_want_frees(void)
{
    return sa_load_relaxed(&want_frees) != 0;
}

/* Adds a sample to a bucket. */
static void bucket_add(struct sa_bucket *bucket, const struct sa_sample *s)
{
    bucket->samples++;
    bucket->offsets += s->offset;
    bucket->hits += s->hits;
}

SA_RARE void sa_bucket_add_life(struct sa_bucket *bucket, uint64_t ns)
{
    bucket->life_sum += (double)ns;
    bucket->life_squares += (double)ns * (double)ns;
    bucket->life_min = bucket->samples == 1 || ns < bucket->life_min ? ns : bucket->life_min;
    bucket->life_max = ns > bucket->life_max ? ns : bucket->life_max;
}

SA_RARE void sa_event_add_up(struct sa_buckets *buckets, const struct sa_ring_event *event,
                             bool threads)
{
    struct sa_bucket_key key = {.stack = event->stack,
                                .p = event->p,
                                .interval = event->interval,
                                .allocated = event->allocated,
                                .requested = event->requested,
                                .align = event->align,
                                .kind = event->kind,
                                .guarded = event->guarded,
                                .same_cpu = SA_SAME_NONE,
                                .same_vcpu = SA_SAME_NONE,
                                .same_l3 = SA_SAME_NONE,
                                .same_numa = SA_SAME_NONE,
                                .same_thread = SA_SAME_NONE,
                                .tid = threads ? event->tid : 0};
    struct sa_bucket *bucket = event->free_time_ns ? NULL : sa_buckets_find(buckets, &key);

    if (!bucket)
        return;
    bucket->samples++;
    bucket->offsets += event->offset;
    bucket->hits += event->hits;
}

/* Adds an allocation, or with `place`, where it happens, a free. */
SA_RARE static void add_event(struct sa_recording *r, const struct sa_sample *s,
                              struct sa_stack *free_stack, uint64_t free_ns,
                              const struct sa_place *place) SA_REQUIRES(SA_RANK_SAMPLES)
{
    struct sa_ring_event event = {
        .handle = s->number,
        .time_ns = s->time_ns,
        .free_time_ns = free_ns,
        .stack = s->stack,
        .free_stack = free_stack,
        .p = s->p,
        .interval = s->interval,
        .offset = s->offset,
        .hits = s->hits,
        .address = s->address,
        .requested = s->requested,
        .allocated = s->allocated,
        .align = s->align,
        .tid = s->tid,
        .free_tid = place ? sa_sample_tid(false) : 0,
        .cpu = s->place.cpu,
        .free_cpu = place ? place->cpu : -1,
        .kind = s->kind,
        .guarded = s->guarded,
    };

    sa_event_ring_add(&r->events, &event);
}

SA_RARE static SA_NOINLINE void recordings_add(const struct sa_sample *sample)
    SA_REQUIRES(SA_RANK_SAMPLES)
{
    struct sa_bucket_key key = sa_sample_key(sample);

    for (uint64_t left = filled; left; left &= left - 1) {
        struct sa_recording *r = &slots[sa_lowest_bit(left)].recording;
        struct sa_bucket *bucket = NULL;

        if (r->type == SALLOC_PROFILE_EVENTS)
            add_event(r, sample, NULL, 0, NULL);
        else if (r->type == SALLOC_PROFILE_ALLOCATIONS)
            bucket = sa_buckets_find(&r->buckets, &key);
        if (bucket)
            bucket_add(bucket, sample);
    }
}

void sa_recordings_allocated(const struct sa_sample *sample)
{
    if (SA_UNLIKELY(filled))
        recordings_add(sample);
}

SA_RARE void sa_recordings_freed(const struct sa_sample *sample, struct sa_stack *free_stack,
                                 uint64_t now_ns)
{
    struct sa_bucket_key key = sa_sample_key(sample);
    struct sa_place here;

    sa_place_here(&here);
    key.free_stack = free_stack ? free_stack : &sa_stack_unknown;
    key.free_tid = sa_load_relaxed(&by_thread) ? sa_sample_tid(false) : 0;
    key.same_cpu = sa_same(sample->place.cpu, here.cpu);
    key.same_vcpu = sa_same(sample->place.vcpu, here.vcpu);
    key.same_l3 = sa_same(sa_place_l3(sample->place.cpu), sa_place_l3(here.cpu));
    key.same_numa = sa_same(sample->place.node, here.node);
    key.same_thread = sample->thread == sa_sample_thread();
    for (uint64_t left = filled; left; left &= left - 1) {
        struct sa_recording *r = &slots[sa_lowest_bit(left)].recording;
        struct sa_bucket *bucket = NULL;

        if (r->type == SALLOC_PROFILE_EVENTS)
            add_event(r, sample, free_stack, now_ns, &here);
        else if (r->type == SALLOC_PROFILE_LIFETIMES && sample->number > r->since)
            bucket = sa_buckets_find(&r->buckets, &key);
        if (!bucket)
            continue;
        bucket_add(bucket, sample);
        sa_bucket_add_life(bucket, now_ns - sample->time_ns);
    }
}
