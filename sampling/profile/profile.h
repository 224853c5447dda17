/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile: rows of samples that are alike, in memory of its own (mapped, not from the heap). Made
 * by sampling/snapshot/profile_snapshot.c and sampling/record/recording.c, read by the writers and
 * the public functions; constant from then on. struct salloc_profile of the public header is struct
 * sa_profile.
 */
#ifndef SA_SAMPLING_PROFILE_PROFILE_H
#define SA_SAMPLING_PROFILE_PROFILE_H

#include "include/salloc/profile.h"
#include "sampling/estimate/estimate.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>

/* What samples of one row have in common. Compared as bytes: no padding but zeros. */
struct sa_bucket_key {
    struct sa_stack *stack;      /* a reference is held */
    struct sa_stack *free_stack; /* the same, or NULL */
    double p, interval;
    size_t allocated, requested, align;
    uint8_t kind;     /* enum salloc_allocation_kind */
    uint8_t censored; /* lifetimes: still allocated at the stop */
    int8_t same_cpu, same_vcpu, same_l3, same_numa, same_thread; /* enum sa_same */
    int8_t guarded;                                              /* enum salloc_guarded_status */
    uint32_t tid, free_tid; /* the kernel's numbers; 0: rows are not by thread */
};

struct sa_bucket {
    struct sa_bucket_key key;
    uint64_t samples;
    double offsets, hits; /* as in struct sa_group */
    /* HEAP: bytes of the sampled blocks themselves, not extrapolated; see
     * sampling/snapshot/residency.h. */
    double resident, swapped, locked, zero;
    double waste; /* sum over samples of free objects per live one on the proxy's span */
    double life_sum, life_squares; /* nanoseconds */
    uint64_t life_min, life_max;
};

/* A sample, copied for a profile. */
struct sa_sample_copy {
    struct sa_bucket_key key; /* a reference to the stack is held */
    uint64_t samples;         /* 1, or as many as were alike; the next three are their sums */
    double offset, hits, waste;
    uintptr_t start;   /* address of the block; 0: freed */
    uintptr_t address; /* the same, also if it was freed; 0: of several */
    uint32_t tid;      /* the kernel's number of the thread that allocated it; 0: several */
    uint64_t time_ns;
    size_t row;                             /* of a profile: the row it is in; SIZE_MAX: none */
    size_t resident, swapped, locked, zero; /* of a profile: bytes, where known */
};

struct sa_profile {
    enum salloc_profile_type type;
    int64_t time_ns;         /* since 1970: start of a recording, or the moment */
    int64_t duration_ns;     /* of a recording */
    uint8_t knows;           /* of residency: SA_KNOWS_... */
    int64_t interval;        /* the sampling interval when it was made, 0: off */
    struct sa_unseen unseen; /* of what it mainly tells */
    uint64_t used_bytes;     /* all memory that the allocator used when it was made; 0: not known */
    /* HEAP, FRAGMENTATION, PEAK_HEAP: the samples one by one (sampling/record/live_samples.h). */
    const struct sa_sample_copy *singles;
    size_t single_count;
    double waste_most; /* FRAGMENTATION: all free bytes on spans; INFINITY: not known */
    int64_t clock_ns;  /* to be added to their times for those since 1970 */
    size_t row_count;
    struct sa_bucket *rows;
    /* HEAP: what was ever allocated, per stack (key with stack only; sums instead of samples). */
    size_t total_count;
    struct sa_total {
        struct sa_stack *stack; /* a reference is held */
        struct sa_sums sums;
    } * totals;
    uint64_t stacks_dropped;  /* samples whose stack could not be kept, ever */
    uint64_t stacks_evicted;  /* samples whose stack was forgotten after their block was freed */
    uint64_t samples_dropped; /* samples that could not be kept */
    struct sa_profile *next;  /* of those that wait to be freed, see alloc/api/profile_api.c */
};

/* What a row says, for estimates. */
static inline struct sa_group sa_bucket_group(const struct sa_bucket *row)
{
    return (struct sa_group){.p = row->key.p,
                             .interval = row->key.interval,
                             .allocated = (double)row->key.allocated,
                             .samples = row->samples,
                             .offsets = row->offsets,
                             .hits = row->hits};
}

/* The public view of a row, or of a total. */
void sa_profile_row_sample(const struct sa_profile *profile, const struct sa_bucket *row,
                           struct salloc_profile_sample *ret);
void sa_profile_total_sample(const struct sa_profile *profile, const struct sa_total *total,
                             struct salloc_profile_sample *ret);

/* The same of a single sample; false: it is in no row. */
bool sa_profile_single_sample(const struct sa_profile *profile, const struct sa_sample_copy *single,
                              struct salloc_profile_sample *ret);

/* Sums of a stack, or of all (stack NULL), as salloc_profile_estimate means them. False: none
 * such. */
bool sa_profile_sums(const struct sa_profile *profile, const struct sa_stack *stack,
                     struct sa_sums *ret);

/* Releases the references and the memory. */
void sa_profile_free(struct sa_profile *profile);

#endif
