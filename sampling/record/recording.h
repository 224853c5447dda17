/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample's record, and the recordings that run: tables of what was allocated, or of how long it
 * lived, between a start and a stop. All under SAMPLES, which the caller
 * (sampling/record/live_samples.c) holds.
 *
 * A handle names a slot and its generation, so that one that was stopped is recognised for ever.
 */
#ifndef SA_SAMPLING_RECORD_RECORDING_H
#define SA_SAMPLING_RECORD_RECORDING_H

#include "pagemap/span.h"
#include "sampling/profile/profile.h"
#include "sampling/profile/profile_buckets.h"
#include "sampling/record/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_RECORDINGS 64

/* One sample. Const while it is live, but for the links, `requested` and `slack`. */
struct sa_sample {
    struct sa_sample *next, *prev; /* SAMPLES: live, freed since the peak, or unused */
    struct sa_span *span;          /* the block's */
    void *proxy;                   /* see enum sa_proxy; NULL: none */
    struct sa_stack *stack;        /* a reference is held */
    double p, interval, offset, hits;
    double slack; /* SAMPLES: what it adds to the estimate of bytes not asked for */
    size_t allocated, align;
    size_t requested; /* SAMPLES: as the allocation, or the last realloc in place, said */
    uintptr_t address;
    uint64_t number;  /* in the order of allocation, from 1 */
    uint64_t time_ns; /* to the kernel's tick, but exact if it may be reported: of what is kept, or
                         recorded */
    uint32_t thread;  /* sa_sample_thread */
    struct sa_place place; /* only if a recording of lifetimes ran */
    uint32_t tid;          /* the kernel's number of the thread */
    uint8_t cls, kind;
    int8_t guarded; /* enum salloc_guarded_status */
    bool chosen;    /* to be guarded: sampling/guard/guard_policy.h */
    bool keep;      /* its pages, when it is freed */
    bool lent;      /* the proxy */
};

struct sa_recording {
    enum salloc_profile_type type; /* ALLOCATIONS or LIFETIMES */
    uint64_t since;                /* number of the last sample before it */
    int64_t start_ns;              /* since 1970 */
    uint64_t start_monotonic_ns;
    uint32_t rates; /* sa_rates_generation at the start */
    struct sa_buckets rows;
};

/* A number of the calling thread that no other thread ever has, as its address may when it has
 * ended. */
uint32_t sa_sample_thread(void);

/*
 * The kernel's number of the calling thread. That of a sample before, unless it is to be exact: the
 * two differ in a child made by the bare system call, without fork's handlers.
 */
uint32_t sa_sample_tid(bool exact);

/* Whether samples of different threads are rows of their own in profiles, from now on. */
void sa_sample_set_by_thread(bool on);
bool sa_sample_by_thread_get(void);

/* The key that a sample has in a profile. */
struct sa_bucket_key sa_sample_key(const struct sa_sample *sample);

/* A handle, or 0 if all slots are taken. */
uint64_t sa_recordings_start(const struct sa_recording *recording);

/* The recording of a handle, or NULL. */
struct sa_recording *sa_recordings_get(uint64_t handle);
void sa_recordings_end(uint64_t handle);

/* Whether a recording of lifetimes runs. */
bool sa_recordings_want_frees(void);

/* What happens to samples. free_stack may be NULL: not known. */
void sa_recordings_allocated(const struct sa_sample *sample);
void sa_recordings_freed(const struct sa_sample *sample, struct sa_stack *free_stack,
                         uint64_t now_ns);

/* A lifetime in a row. */
void sa_bucket_add_life(struct sa_bucket *row, uint64_t ns);

#endif
