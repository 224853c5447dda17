/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span: a run of pages with one use. The record is the unit that the page heap hands out, the
 * central free list fills with objects of one class, and the radix map points at.
 *
 * Records come from the arena and are reused as spans only. A stale pointer of the map thus always
 * points at some span; start and pages tell whether it is the right one.
 *
 * The page heap writes a record under its lock while the span is free, and when it changes hands.
 * While the span is in use, its owner writes it: the central free list under its lock, or the
 * large-block code of the thread that allocates or frees the block. The owner of the only object of
 * a span owns the span while the object grows.
 */
#ifndef SA_PAGEMAP_SPAN_H
#define SA_PAGEMAP_SPAN_H

#include "alloc/base/attrs.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sa_span_state {
    SA_SPAN_UNUSED,      /* record on a free list */
    SA_SPAN_BACKED,      /* free; its pages may be backed and contain data */
    SA_SPAN_RELEASED,    /* free; its pages are unbacked and read as zero */
    SA_SPAN_MOVING,      /* changing hands or being released; belongs to the thread that does it */
    SA_SPAN_OBJECTS,     /* in use: objects of a class */
    SA_SPAN_MIXED,       /* in use: objects of several classes: alloc/middle/mixed_spans.h */
    SA_SPAN_LARGE,       /* in use: one block */
    SA_SPAN_GUARDED,     /* a slot for guarded blocks, in use or not: sampling/guard/guarded.h */
    SA_SPAN_QUARANTINED, /* a freed, inaccessible sample: sampling/guard/sample_quarantine.h */
};

struct sa_sample; /* sampling/record/recording.h */
struct sa_mixed;  /* alloc/middle/mixed_spans.c */

/* A value of `list`: the span is in use, but its pages are unbacked, and the page heap does not
 * count them as used. */
#define SA_SPAN_EMPTIED 0xff

struct sa_span {
    uintptr_t start; /* address; multiple of SA_PAGE_BYTES */
    uint32_t pages;
    uint8_t state; /* enum sa_span_state; atomic where the free path reads it */
    uint8_t cls;   /* size class of an OBJECTS span, else 0 */
    uint8_t list;  /* OBJECTS: the list of the central free list; else SA_SPAN_EMPTIED or other */
    uint8_t heap;  /* number of the page heap instance that owns the record; never changes */
    struct sa_span *next; /* in the list that the state implies */
    union {
        struct sa_span *prev;   /* the same */
        struct sa_mixed *mixed; /* MIXED: the record */
    };
    union {
        size_t requested;       /* LARGE: requested bytes, checked by sized frees */
        uint64_t *more_bits;    /* OBJECTS with more than 64 objects: the bitmap */
        uint64_t emptied;       /* OBJECTS, up to 64: see alloc/middle/central_empty.h */
        uint64_t idle_since_ns; /* free: since when */
        struct sa_span
            *aside; /* QUARANTINED: the next span that could not be made accessible again */
    };
    union {
        uint64_t bits;            /* OBJECTS with up to 64 objects: bit set = object is free */
        struct sa_sample *sample; /* LARGE: the record of a sampled block, or NULL; atomic */
    };
    uint16_t objects; /* OBJECTS: objects of the span; MIXED: atomic, its length for profiles;
                         LARGE: the page heap's own use */
    uint16_t live;  /* OBJECTS: objects that are not free on this span (in caches or in use); MIXED:
                       the same in the measure of `objects`; atomic: profiles read it */
    uint8_t zeroed; /* written by the page heap: the pages read as zero at the hand-out */
    uint8_t moved; /* LARGE: written by the owner: the mapping was changed and cannot merge with its
                      neighbours. It is mapped afresh when the span is freed */
    union {
        struct {
            uint8_t origin; /* LARGE, GUARDED: alloc/base/origin.h */
            uint8_t guard; /* LARGE of the ordinary heap: number of inaccessible pages at its end */
        };
        uint16_t pins; /* OBJECTS: live samples that keep the span, see sa_central_pin */
    };
};

SA_STATIC_ASSERT(sizeof(struct sa_span) <= SA_CACHELINE,
                 "span records are counted in the metadata");

SA_INLINE size_t sa_span_bytes(const struct sa_span *s)
{
    return (size_t)s->pages << SA_PAGE_SHIFT;
}

SA_INLINE uintptr_t sa_span_end(const struct sa_span *s)
{
    return s->start + sa_span_bytes(s);
}

/* Returns the bytes of a large block that the program may use: those before its inaccessible
 * pages. */
SA_INLINE size_t sa_span_usable_bytes(const struct sa_span *span)
{
    return sa_span_bytes(span) - ((size_t)span->guard << SA_PAGE_SHIFT);
}

/* The bitmap of an OBJECTS span, and its words. */
SA_INLINE uint64_t *sa_span_bits(struct sa_span *s)
{
    return s->objects <= 64 ? &s->bits : s->more_bits;
}

SA_INLINE size_t sa_span_words(const struct sa_span *s)
{
    return ((size_t)s->objects + 63) / 64;
}

#endif
