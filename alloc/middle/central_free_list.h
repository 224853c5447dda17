/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The central free list of a size class: the spans that hold its objects. Objects come and go in
 * batches. The fullest spans give first, so that nearly empty spans drain and return to the page
 * heap.
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
    size_t mixed_objects; /* in use or in caches, on mixed spans: beyond those of `spans` */
    size_t emptied_bytes; /* inside of free objects, without memory: central_empty.h */
    uint64_t spans_requested, spans_returned;
    size_t utilization[SA_CENTRAL_BUCKETS]; /* non-cumulative */
};

/*
 * Takes up to n objects; how many. 0 only when out of memory. Makes a new span if there is no free
 * object at all. Makes further spans to complete the batch only for a class of many spans.
 */
size_t sa_central_remove(unsigned cls, void **objs, size_t n);

/* Takes an object with the full alignment of its class, which others on mixed spans need not have
 * (mixed_spans.h). NULL: out of memory. */
void *sa_central_remove_aligned(unsigned cls);

/* Whether spans that are in use have free objects; a hint. */
bool sa_central_has(unsigned cls);

/*
 * Gives objects back. Ends the program with a message if one is not an object of the class, or is
 * free already.
 */
void sa_central_insert(unsigned cls, void *const *objs, size_t n);

/* sa_central_plunder gives back the new spans that no class has used since the last call;
 * sa_central_flush gives back all new spans. */
void sa_central_plunder(void);
void sa_central_flush(void);

/*
 * Pins the span of an object that the caller owns: the span does not go back to the page heap, even
 * if the object is freed. Or removes a pin. False: the span has UINT16_MAX pins.
 */
bool sa_central_pin(unsigned cls, void *object, bool pin);

/*
 * Lengthens a span of one object (sa_class_is_single) that the caller owns. Afterwards it is a span
 * of another class, or a LARGE span of the caller. False: the pages behind it are in use.
 */
bool sa_central_extend(struct sa_span *span, unsigned cls);
bool sa_central_extend_large(struct sa_span *span, size_t pages);

/* Ends the program if an invariant of central_spans.h does not hold: central_validate.c. Debug
 * builds call it at ticks. */
void sa_central_validate(void);

void sa_central_stats(unsigned cls, struct sa_central_stats *ret);

/* Returns the bytes of the spans that the free objects of a class would fill: what would go back if
 * its objects lay as densely as possible. New spans, which have no other objects, do not count. */
size_t sa_central_excess_bytes(unsigned cls, const struct sa_central_stats *stats);

#endif
