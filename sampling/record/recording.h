/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a sample, and the recordings that run. A recording is a table of the samples that
 * were allocated, or of how long they lived, between a start and a stop. The lock SAMPLES guards
 * the recordings; the caller (sampling/record/live_samples.c) holds it.
 *
 * A handle names a slot and its generation. The handle of a stopped recording therefore stays
 * invalid.
 */
#ifndef SA_SAMPLING_RECORD_RECORDING_H
#define SA_SAMPLING_RECORD_RECORDING_H

#include "alloc/os/lock.h"
#include "pagemap/span.h"
#include "sampling/profile/profile.h"
#include "sampling/profile/profile_buckets.h"
#include "sampling/record/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_RECORDINGS 64

/* Which list a record is in. sallocctl goes by it, which reads records without SAMPLES. */
enum sa_sample_state { SA_SAMPLE_UNUSED, SA_SAMPLE_LIVE, SA_SAMPLE_GONE };

/* The record of a sample. While the sample is live, only the links, `requested` and `slack` change.
 */
struct sa_sample {
    struct sa_sample *next, *prev; /* SAMPLES: in the list of live, gone or unused records */
    struct sa_span *span;          /* of the block */
    void *proxy;                   /* see enum sa_proxy; NULL: none */
    struct sa_stack *stack;        /* that allocated the block; the record holds a reference */
    double p, interval, offset, hits;
    double slack; /* SAMPLES: its part of the estimated bytes beyond the requested sizes */
    size_t allocated, align;
    size_t requested; /* SAMPLES: by the allocation, or by the last realloc in place */
    uintptr_t address;
    uint64_t number;  /* in the order of allocation, from 1; 0: it is being filled */
    uint64_t time_ns; /* of the allocation: exact if the sample may be quarantined or is recorded,
                       * else to the kernel's tick */
    uint32_t thread;  /* sa_sample_thread */
    struct sa_place place; /* only if a recording of lifetimes ran */
    uint32_t tid;          /* the kernel's number of the thread */
    uint8_t cls, kind;
    uint8_t state;   /* SAMPLES: enum sa_sample_state; set to LIVE last, and from LIVE first */
    uint8_t peak;    /* SAMPLES: of a gone sample, the peak at which it was live (live_samples.c) */
    int8_t guarded;  /* enum salloc_guarded_status */
    bool selected;   /* the guard policy wanted it guarded: sampling/guard/guard_policy.h */
    bool quarantine; /* its pages enter the sample quarantine when it is freed */
    bool lent;       /* the proxy is lent */
};

struct sa_recording {
    enum salloc_profile_type type; /* ALLOCATIONS, LIFETIMES or EVENTS */
    uint64_t since;                /* number of the last sample before the start */
    int64_t start_ns;              /* since 1970 */
    uint64_t start_monotonic_ns;
    uint32_t rates; /* sa_rates_generation at the start */
    struct sa_buckets buckets;
    struct sa_event_ring events; /* EVENTS */
};

/* A number of the calling thread. Unlike the address of its variables, no other thread of the
 * process ever has the same. */
uint32_t sa_sample_thread(void);

/*
 * The kernel's number of the calling thread. exact: asks the kernel. Otherwise the number from an
 * earlier sample is returned, which is wrong in a child made by the bare system call, without
 * fork's handlers.
 */
uint32_t sa_sample_tid(bool exact);

/* Sets and reads whether profiles have separate buckets for the samples of each thread. */
void sa_sample_set_by_thread(bool on);
bool sa_sample_by_thread_get(void);

/* The key of a sample in a profile. SAMPLES is held, or the sample is not live. */
struct sa_bucket_key sa_sample_key(const struct sa_sample *sample);

/* The functions below require SAMPLES, except sa_recordings_want, sa_recordings_want_frees and
 * sa_bucket_add_life. */

/* Starts a recording, of which *recording is copied. Returns its handle; 0: all slots are in use.
 */
uint64_t sa_recordings_start(const struct sa_recording *recording) SA_REQUIRES(SA_RANK_SAMPLES);

/* The recording of a handle; NULL: it does not run. */
struct sa_recording *sa_recordings_get(uint64_t handle) SA_REQUIRES(SA_RANK_SAMPLES);

/* Frees the slot of a handle, which must be one of a running recording. */
void sa_recordings_end(uint64_t handle) SA_REQUIRES(SA_RANK_SAMPLES);

/* Counts those who want exact times, places and the stacks of frees: recordings of lifetimes, and
 * hooks (sampling/record/sample_hooks.h). change: 1 or -1. */
void sa_recordings_want(int change);

/* True if one of them exists. A hint without the lock. */
bool sa_recordings_want_frees(void);

/* Enter a sample into the recordings when it is allocated, and when it is freed. free_stack: NULL:
 * unknown. now_ns: the time of the free. */
void sa_recordings_allocated(const struct sa_sample *sample) SA_REQUIRES(SA_RANK_SAMPLES);
void sa_recordings_freed(const struct sa_sample *sample, struct sa_stack *free_stack,
                         uint64_t now_ns) SA_REQUIRES(SA_RANK_SAMPLES);

/* Adds a lifetime to a bucket, whose sample was counted before. */
void sa_bucket_add_life(struct sa_bucket *bucket, uint64_t ns);

/* Adds an allocation of an event trace to its bucket, with the key that a sample of a recording
 * has; a free is none. */
void sa_event_add_up(struct sa_buckets *buckets, const struct sa_ring_event *event, bool threads);

#endif
