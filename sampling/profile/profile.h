/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile in memory: buckets of samples that have all properties in common. struct salloc_profile
 * of the public header is struct sa_profile.
 *
 * sampling/snapshot/profile_snapshot.c makes profiles, also those of recordings
 * (sampling/record/recording.c). From then on a profile does not change, and any thread may read
 * it. The writers and the public functions do. Its memory is mapped and not from the heap. The
 * owner frees it with sa_profile_free.
 */
#ifndef SA_SAMPLING_PROFILE_PROFILE_H
#define SA_SAMPLING_PROFILE_PROFILE_H

#include "include/salloc/profile.h"
#include "sampling/estimate/estimate.h"
#include "sampling/profile/event_ring.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>

/* The properties that all samples of a bucket have in common. Keys are compared as bytes, so
 * padding must be zero. */
struct sa_bucket_key {
    struct sa_stack *stack;             /* of the allocation, with a reference */
    struct sa_stack *free_stack;        /* of the free, with a reference, or NULL */
    double p, interval;                 /* as in struct sa_group */
    size_t allocated, requested, align; /* bytes of each block; align 0: none was requested */
    uint8_t kind;                       /* enum salloc_allocation_kind */
    uint8_t censored;                   /* LIFETIMES: 1: still allocated at the stop */
    /* LIFETIMES: whether the free happened where the allocation did; enum sa_same. */
    int8_t same_cpu, same_vcpu, same_l3, same_numa, same_thread;
    int8_t guarded; /* enum salloc_guarded_status */
    /* The kernel's numbers of the threads that allocated and freed. 0: not separated by thread. */
    uint32_t tid, free_tid;
};

/* A bucket. Its sums are over the samples, not extrapolated. */
struct sa_bucket {
    struct sa_bucket_key key;
    uint64_t samples;
    double offsets, hits; /* as in struct sa_group */
    /* HEAP: bytes of the sampled blocks (sampling/snapshot/residency.h). */
    double resident, swapped, locked, zero;
    double waste; /* free objects for each live one on the span of a sample's proxy */
    double life_sum, life_squares; /* LIFETIMES: nanoseconds, and their squares */
    uint64_t life_min, life_max;   /* LIFETIMES: nanoseconds */
};

/* A copy of a live sample, or the sum of several that are alike (sampling/record/live_samples.h).
 */
struct sa_sample_copy {
    struct sa_bucket_key key;
    uint64_t samples;           /* 1, or the number of samples that are summed up */
    double offset, hits, waste; /* as in struct sa_bucket */
    uintptr_t start;            /* address of the block; 0: freed, or several blocks */
    uintptr_t address;          /* the same, also if the block was freed; 0: several blocks */
    uint32_t tid;               /* the kernel's number of the allocating thread; 0: several */
    uint64_t time_ns;           /* of the allocation, on the clock of alloc/os/clock.h */
    uint64_t number;            /* in the order of allocation, from 1; 0: several blocks */
    size_t bucket;              /* in a profile: index of its bucket; SIZE_MAX: in none */
    size_t resident, swapped, locked, zero; /* in a HEAP profile: bytes, 0 if not known */
};

/* The process of a profile that was made outside of it (tool/), where writers ask the system. */
struct sa_mappings; /* sampling/symbolize/mappings.h */
struct sa_symbol;   /* sampling/symbolize/symbols.h */
struct sa_unloaded; /* sampling/stack/unloaded.h */
struct sa_buffer;
struct sa_profile_origin {
    int pid;                            /* 0: not known */
    const struct sa_unloaded *unloaded; /* names of its objects that were unloaded */
    int (*mappings)(const struct sa_profile_origin *origin, struct sa_mappings *ret);
    void (*thread_name)(const struct sa_profile_origin *origin, uint32_t tid, char *ret,
                        size_t cap);
    /* Names generated code, which is in no object, as sa_symbols_find does that of an object. */
    void (*code_names)(const struct sa_profile_origin *origin, struct sa_symbol *symbols,
                       size_t count, struct sa_buffer *names);
    void *arg;
};

struct sa_profile {
    enum salloc_profile_type type;
    const struct sa_profile_origin *origin; /* NULL: this process */
    int64_t time_ns;         /* since 1970: start of the recording, or the moment of the profile */
    int64_t duration_ns;     /* of the recording */
    uint8_t knows;           /* HEAP: the kinds of residency that are known, SA_KNOWS_... */
    int64_t interval;        /* sampling interval in bytes when the profile was made; 0: off */
    struct sa_unseen unseen; /* of the blocks in the buckets, or of ALLOCATIONS in the totals */
    uint64_t used_bytes;     /* of all memory of the allocator at that time; 0: not known */
    /* HEAP, FRAGMENTATION, PEAK_HEAP: the single samples, without references to stacks: their
     * buckets hold those. */
    const struct sa_sample_copy *singles;
    size_t single_count;
    double waste_max;     /* FRAGMENTATION: most bytes wasted: free on spans; INFINITY: not known */
    uint64_t mixed_saved; /* FRAGMENTATION: the metric mixed_saved_bytes; 0: also if not known */
    int64_t clock_ns;     /* added to the time of a single sample, gives the time since 1970 */
    size_t bucket_count;
    struct sa_bucket *buckets; /* the buckets */
    /* HEAP and ALLOCATIONS since the start: the sums of all that each stack ever allocated. */
    size_t total_count;
    struct sa_total {
        struct sa_stack *stack; /* with a reference */
        struct sa_sums sums;
    } * totals;
    struct sa_event_ring events; /* EVENTS: what happened, with times as in singles */
    uint64_t stacks_dropped;     /* samples whose stack had no room, since the program began */
    uint64_t stacks_evicted;     /* samples whose stack was evicted after their block was freed */
    uint64_t samples_dropped;    /* samples that had no memory, or no bucket */
    struct sa_profile
        *next; /* in the list of those to be freed later (alloc/api/entry/profile_api.c) */
};

/* Returns the samples of a bucket as sa_sums_add takes them. */
static inline struct sa_group sa_bucket_group(const struct sa_bucket *bucket)
{
    return (struct sa_group){.p = bucket->key.p,
                             .interval = bucket->key.interval,
                             .allocated = (double)bucket->key.allocated,
                             .samples = bucket->samples,
                             .offsets = bucket->offsets,
                             .hits = bucket->hits};
}

/* Store the public view of a bucket, and of a total. The view has pointers into the profile. */
void sa_profile_bucket_sample(const struct sa_profile *profile, const struct sa_bucket *bucket,
                              struct salloc_profile_sample *ret);
void sa_profile_total_sample(const struct sa_profile *profile, const struct sa_total *total,
                             struct salloc_profile_sample *ret);

/* Stores the public view of a single sample. False: the sample is in no bucket. */
bool sa_profile_single_sample(const struct sa_profile *profile, const struct sa_sample_copy *single,
                              struct salloc_profile_sample *ret);

/* Stores the public view of event i of an EVENTS profile, from 0. */
void sa_profile_event(const struct sa_profile *profile, size_t i, struct salloc_sample_event *ret);

/*
 * Stores the sums that salloc_profile_estimate is about: those of one stack, or of all (stack
 * NULL). For HEAP these are the blocks in use. False: the profile does not have the stack.
 */
bool sa_profile_sums(const struct sa_profile *profile, const struct sa_stack *stack,
                     struct sa_sums *ret);

/* Gives back the references and the memory. Takes STACKS. */
void sa_profile_free(struct sa_profile *profile);

#endif
