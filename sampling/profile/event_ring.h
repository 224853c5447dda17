/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of events: the last samples that were taken, and the last frees of sampled blocks, in
 * order. A recording of events fills it (sampling/record/recording.c), and a profile of type EVENTS
 * takes it over. A new event replaces the oldest one when the ring is full.
 *
 * Writers hold SAMPLES, so there is one at a time, and the numbers of events are their order.
 * Readers in the process hold SAMPLES, too, or read the ring of a profile, which does not change.
 *
 * Readers outside of the process (sallocctl, doc/events.md) read the ring of a running recording
 * without a lock. Event number n lies in records[n % cap]. `begun` counts the events whose writing
 * has begun, `written` those that are complete. The writer stores begun = n + 1, passes a release
 * fence, writes the record, and then stores written = n + 1 with release order. A reader reads
 * `written`, copies records, and reads `begun` afterwards, each with acquire order (a system call
 * for each is stronger). Of the copied events it keeps those with
 *
 *     begun - cap <= n < written.
 *
 * These are intact. n < written: the writer had completed the record before the reader copied it.
 * begun - cap <= n: the next event in the same place is n + cap, whose writing had not begun when
 * the reader had copied the record. If the reader had seen a byte of that event, the release fence
 * would make begun = n + cap + 1 visible to the load that follows, and the condition false.
 *
 * A record holds a reference to each of its stacks. A stack that was copied before the check is
 * therefore that of the event, too: it cannot be evicted while the record is in the ring.
 */
#ifndef SA_SAMPLING_PROFILE_EVENT_RING_H
#define SA_SAMPLING_PROFILE_EVENT_RING_H

#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event. Sizes are in bytes, times are those of alloc/os/clock.h. */
struct sa_ring_event {
    uint64_t handle;             /* number of the sample, from 1 */
    uint64_t time_ns;            /* of the allocation */
    uint64_t free_time_ns;       /* of the free; 0: this is the allocation */
    struct sa_stack *stack;      /* of the allocation, with a reference */
    struct sa_stack *free_stack; /* of the free, with a reference; NULL: none, or not known */
    double p, interval;          /* as in struct sa_sample, as are the next two */
    double offset, hits;
    uintptr_t address;
    size_t requested, allocated, align;
    uint32_t tid, free_tid;
    int16_t cpu, free_cpu; /* -1: not known */
    uint8_t kind;          /* enum salloc_allocation_kind */
    int8_t guarded;        /* enum salloc_guarded_status */
};

/* All zero: no ring. */
struct sa_event_ring {
    struct sa_ring_event *records; /* a mapping */
    size_t cap;                    /* records that fit */
    size_t bytes;                  /* of the mapping */
    uint64_t begun, written;       /* see above; atomic, written by the writer alone */
};

#define SA_EVENT_RING_MAX ((size_t)1 << 34) /* most bytes of a ring */

/* Maps a ring of about this many bytes, of one page at least. False: no memory. */
bool sa_event_ring_open(struct sa_event_ring *ring, size_t bytes);

/* Adds an event, and references to its stacks. The caller holds references, and SAMPLES. Takes
 * STACKS. */
void sa_event_ring_add(struct sa_event_ring *ring, const struct sa_ring_event *event);

/* Gives back memory behind the last event. Nothing is added from then on. */
void sa_event_ring_trim(struct sa_event_ring *ring);

/* Gives back the references and the memory, and leaves no ring. Takes STACKS. */
void sa_event_ring_close(struct sa_event_ring *ring);

/* The number of events in the ring, and of those that were replaced. */
static inline size_t sa_event_ring_count(const struct sa_event_ring *ring)
{
    return ring->written < ring->cap ? (size_t)ring->written : ring->cap;
}

static inline uint64_t sa_event_ring_lost(const struct sa_event_ring *ring)
{
    return ring->written - sa_event_ring_count(ring);
}

/* Event i, from 0: the oldest. Requires i < sa_event_ring_count. */
static inline const struct sa_ring_event *sa_event_ring_get(const struct sa_event_ring *ring,
                                                            size_t i)
{
    return &ring->records[(sa_event_ring_lost(ring) + i) % ring->cap];
}

#endif
