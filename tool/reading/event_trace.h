/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event trace of a target (doc/events.md), copied from its ring while it runs, without a stop
 * and without its help. Events that the ring replaced before they were copied are counted.
 */
#ifndef SA_TOOL_READING_EVENT_TRACE_H
#define SA_TOOL_READING_EVENT_TRACE_H

#include "tool/reading/reading.h"

struct sa_event_trace {
    struct sa_reading *r;
    struct sa_event_ring own;          /* what was copied */
    struct sa_outside_profile profile; /* with the sampling rates at the beginning */
    uint64_t lost;                     /* events that were not */
    const volatile int *stop;          /* not 0: no more is copied; NULL: there is none */
    int64_t end_ns; /* nor after this time of the monotonic clock; 0: there is none */
    bool ended;     /* the program has stopped the trace, or has ended */
    /* Of the target. */
    struct sa_plan ring, record;
    uint64_t slot;   /* address of the recording's place */
    uint64_t token;  /* which recording it is */
    uint64_t next;   /* number of the event that comes next */
    uint64_t stride; /* bytes of a record */
    uint64_t cap;    /* records of its ring */
    struct sa_field runs, generation;
    uint64_t events;              /* offset of the ring in a place */
    int64_t start_ns, clock_ns;   /* since 1970; added to the time of an event, gives that */
    void *bytes;                  /* of records, as they are in the target */
    struct sa_ring_event *copies; /* the same, as ours */
};

/*
 * Finds the trace that a target records. With `all`, what is in the ring already belongs to the
 * copy, else only what comes from now on. `bytes`: memory for the copy, which keeps the last
 * events.
 */
bool sa_event_trace_open(struct sa_event_trace *trace, struct sa_reading *r, bool all, size_t bytes,
                         struct sa_error *e);

/* Copies what is new. Returns how many events that were, with those that were lost. */
uint64_t sa_event_trace_copy(struct sa_event_trace *trace, struct sa_error *e);

/* Copies during so many seconds, or until *stop, which a signal may set. */
void sa_event_trace_follow(struct sa_event_trace *trace, double seconds, const volatile int *stop,
                           struct sa_error *e);

/* Makes a profile of the copy, which is part of it from then on. */
void sa_event_trace_profile(struct sa_event_trace *trace, struct sa_outside_profile *ret);

void sa_event_trace_close(struct sa_event_trace *trace);

#endif
