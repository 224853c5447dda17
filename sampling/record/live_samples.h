/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live samples: a list of records, the totals of stacks, the peak, the recordings that run.
 *
 * One lock (SAMPLES) guards all of it. Only short work is done with it held: no system call but for
 * the memory of a table that grows (a recording's, a profile's totals), no capture of a stack.
 *
 * The peak is a moment that sampling has no part in: the one at which the program had most in use,
 * as counted by alloc/page_heap/account/peak.h. Each record has a number in the order of
 * allocation. Before the list changes, the high-water mark is looked at: if it has risen since the
 * list changed last, the list is what was live then, and the peak moves to the newest number. If
 * the block that is added has raised the mark, the peak moves to its number: it was in use then. A
 * record that is freed later but was live at the peak is kept in a list of its own until the peak
 * moves again. So the heap at its peak is what is live now up to that number, and that list. Where
 * new samples need the records in it, they take them, and rows are kept instead: one for all that
 * are alike.
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
    size_t samples;           /* live */
    size_t kept;              /* records and rows of those freed, but live at the peak */
    size_t records;           /* ever made: in use and to be used again */
    double bytes, peak_bytes; /* estimates */
    double slack_bytes;       /* estimate of what of bytes the program did not ask for */
};

/* Samples copied for a profile. */
struct sa_copied {
    struct sa_sample_copy *samples;
    size_t count, mapped_bytes;
    int64_t time_ns; /* of the peak, since 1970 */
};

/* A record to fill; NULL: no memory. It belongs to the caller until it is added or dropped. */
struct sa_sample *sa_live_new(void);
void sa_live_drop(struct sa_sample *sample);

/* Enters a filled record. */
void sa_live_add(struct sa_sample *sample);

/* The block stays, but was asked for in another size. */
void sa_live_set_requested(struct sa_sample *sample, size_t requested);

/* Whether somebody wants to know where blocks are freed. */
bool sa_live_wants_free_stacks(void);

/* Takes a record out; free_stack: where it is freed, with a reference that passes to this function,
 * or NULL. */
void sa_live_remove(struct sa_sample *sample, struct sa_stack *free_stack);

/* Copies the live samples, or those live at the peak. False when out of memory. */
bool sa_live_copy(bool peak, struct sa_copied *ret);

/* Releases the references only, after which the rest needs no lock. */
void sa_live_unref_copied(struct sa_copied *copied);

/* Releases the references and the memory. */
void sa_live_free_copied(struct sa_copied *copied);

/* sa_stack_each, at a moment when no totals change. */
void sa_live_totals(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                    struct sa_sums *ret_evicted);

void sa_live_stats(struct sa_live_stats *ret);

/* Starts a recording: a handle, or 0 if all slots are taken. */
uint64_t sa_live_start(enum salloc_profile_type type);

enum sa_stop { SA_STOPPED, SA_STOP_NONE, SA_STOP_NO_MEMORY };

/*
 * Ends a recording and hands over its rows; if it is one of lifetimes, in the same moment copies
 * what it has seen allocated and is live. Nothing is done if there is no such recording or no
 * memory.
 */
enum sa_stop sa_live_stop(uint64_t handle, struct sa_recording *ret,
                          struct sa_copied *ret_censored);

#endif
