/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live samples: a list of their records, the totals of stacks, the peak, and the recordings.
 *
 * The lock SAMPLES guards all of it. Work under the lock is short: no capture of a stack, and no
 * system call except to map memory for a table that grows (of a recording, or of a profile's
 * totals).
 *
 * The peak is the moment at which the program had most bytes in use, as counted by
 * alloc/page_heap/account/peak.h, whether sampled or not. Records are numbered in the order of
 * allocation. Before the list changes, the high-water mark is compared with its last value:
 *
 * - If the mark has risen since the list changed last, the list holds what was live at the peak.
 * The peak moves to the newest number.
 * - If the block that is being added has raised the mark, it was in use at the peak. The peak moves
 * to the number of that block.
 *
 * A record that is freed, but was live at the peak, moves to a list of gone samples, where it stays
 * until the peak moves again. The heap at its peak is therefore the live samples up to that number,
 * and the gone samples. When new samples need records, records of gone samples are added up in
 * buckets, one for all that are equal, and are reused.
 *
 * All functions may be called from any thread, without SAMPLES held.
 */
#ifndef SA_SAMPLING_RECORD_LIVE_SAMPLES_H
#define SA_SAMPLING_RECORD_LIVE_SAMPLES_H

#include "pagemap/span.h"
#include "sampling/profile/profile.h"
#include "sampling/record/recording.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_live_stats {
    size_t samples; /* live samples */
    size_t kept;    /* records and buckets of samples freed since the peak, but live then */
    size_t records; /* ever made: in use or to be reused */
    double bytes, peak_bytes; /* estimated bytes in use now, and at the peak */
    double slack_bytes;       /* the part of `bytes` beyond the requested sizes, estimated */
};

/* Samples copied for a profile. The owner ends it with sa_live_free_copied. */
struct sa_copied {
    struct sa_sample_copy *samples; /* each holds a reference to its stacks */
    size_t count, mapped_bytes;     /* mapped_bytes: of the array */
    int64_t time_ns;                /* of the peak, since 1970 */
};

/* Returns a record to fill in; NULL: no memory. It belongs to the caller until it is added or
 * dropped. */
struct sa_sample *sa_live_new(void);

/* Returns a record that was never added. */
void sa_live_drop(struct sa_sample *sample);

/* Adds a filled record to the live samples, which own it from then on. Its span points to it
 * already. */
void sa_live_add(struct sa_sample *sample);

/* Changes the requested bytes of a live sample whose block stays in place. */
void sa_live_set_requested(struct sa_sample *sample, size_t requested);

/* True if the stacks that free samples are worth capturing: a recording of lifetimes runs. */
bool sa_live_wants_free_stacks(void);

/* Removes a live sample; the record is not the caller's afterwards. free_stack: the stack that
 * frees the block, whose reference passes to this function; NULL: unknown. */
void sa_live_remove(struct sa_sample *sample, struct sa_stack *free_stack);

/* Copies the live samples, or (peak) those live at the peak. False: no memory. */
bool sa_live_copy(bool peak, struct sa_copied *ret);

/* Releases the references to stacks. The rest of a copy needs no lock, and stays valid. */
void sa_live_unref_copied(struct sa_copied *copied);

/* Releases the references and the memory. */
void sa_live_free_copied(struct sa_copied *copied);

/* Calls sa_stack_each with SAMPLES held, so that no totals change meanwhile. */
void sa_live_totals(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                    struct sa_sums *ret_evicted);

void sa_live_stats(struct sa_live_stats *ret);

/* Checks the links and counts of all lists, and that the span of each live sample points back to
 * it, or to nothing while the sample is being freed. Aborts if not. For debug builds and tests. */
void sa_live_samples_validate(void);

/* Starts a recording. Returns its handle; 0: all SA_RECORDINGS slots are in use. */
uint64_t sa_live_start(enum salloc_profile_type type);

/* The same for events. The ring, which is empty, belongs to the recording from then on. */
uint64_t sa_live_start_events(const struct sa_event_ring *ring);

enum sa_stop { SA_STOPPED, SA_STOP_NONE, SA_STOP_NO_MEMORY };

/*
 * Stops a recording, and hands its buckets and its events over to the caller. For a recording of
 * lifetimes, *ret_censored gets the samples that it saw allocated and that are live at that moment.
 * Without such a recording (SA_STOP_NONE) or without memory (SA_STOP_NO_MEMORY), nothing changes.
 */
enum sa_stop sa_live_stop(uint64_t handle, struct sa_recording *ret,
                          struct sa_copied *ret_censored);

#endif
