/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The central free list of a class: the spans that hold its objects. Objects come and go in
 * batches; a span gives from the fullest first, so that nearly empty ones drain and return to the
 * page heap.
 */
#ifndef SA_MIDDLE_CENTRAL_FREE_LIST_H
#define SA_MIDDLE_CENTRAL_FREE_LIST_H

#include "pagemap/span.h"

#include <stddef.h>
#include <stdint.h>

#define SA_CENTRAL_BUCKETS 17 /* spans by live objects: < 1, < 2, < 4, ... < 65536 */

struct sa_central_stats {
    size_t free_objects; /* on spans */
    size_t spans;        /* in existence */
    size_t pages;
    size_t emptied_bytes; /* inside of free objects, without memory: central_empty.h */
    uint64_t spans_requested, spans_returned;
    size_t utilization[SA_CENTRAL_BUCKETS]; /* non-cumulative */
};

/*
 * Takes up to n objects; how many. 0 only when out of memory. For the first there may be a new
 * span; what else is not there is worth new ones only for a class of many spans, before somebody
 * wants it.
 */
size_t sa_central_remove(unsigned cls, void **objs, size_t n);

/* Whether spans that are in use have free objects; a hint. */
bool sa_central_has(unsigned cls);

/*
 * Gives objects back. One that is not an object of the class, or is on its span already, ends the
 * program with a message.
 */
void sa_central_insert(unsigned cls, void *const *objs, size_t n);

/* Gives new spans back that no object was taken from since the last call; or all that there are
 * now. */
void sa_central_plunder(void);
void sa_central_flush(void);

/*
 * Keeps the span of an object that the caller has from going back to the page heap, whatever
 * becomes of the object; or lets go of it. False: it has as many pins as there may be.
 */
bool sa_central_pin(unsigned cls, void *object, bool pin);

/*
 * Lengthens the span of an object that has it to itself (sa_class_alone) and is the caller's, so
 * that it is one of another class; or LARGE, and the caller's. False: what is behind it is in use.
 */
bool sa_central_extend(struct sa_span *span, unsigned cls);
bool sa_central_extend_large(struct sa_span *span, size_t pages);

/* Debug builds: ends the program if an invariant of central_spans.h does not hold. */
#ifdef SA_DEBUG
void sa_central_validate(void);
#else
#define sa_central_validate() ((void)0)
#endif

void sa_central_stats(unsigned cls, struct sa_central_stats *ret);

#endif
