/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bitmap of a span's free objects: in the span's record, or beside it for more than 64 objects.
 * The caller holds the lock of the span's class (central_free_list.c). Profiles read the bitmap
 * without the lock.
 */
#ifndef SA_MIDDLE_SPAN_OBJECTS_H
#define SA_MIDDLE_SPAN_OBJECTS_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/canary.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/rng.h"
#include "alloc/base/size_class.h"
#include "alloc/os/lock.h"
#include "pagemap/span.h"

/*
 * Takes up to n free objects off a span, those of the lowest addresses, and writes them before
 * `end`, the highest first: caches are stacks, so a program gets them in the order of addresses.
 */
static inline size_t sa_span_take(struct sa_span *s, size_t size, void **end, size_t n)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    uint64_t *bits = sa_span_bits(s);
    size_t take = sa_min(n, (size_t)(s->objects - s->live)), left = take;

    SA_DCHECK(s->live <= s->objects);
    for (size_t w = 0; left; w++) {
        uint64_t b = bits[w];

        SA_DCHECK(w < sa_span_words(s));
        for (; b && left; b &= b - 1, left--)
            *--end = (void *)(s->start + (w * 64 + sa_lowest_bit(b)) * size);
        sa_store_relaxed(&bits[w], b);
    }
    sa_store_relaxed(&s->live, (uint16_t)(s->live + take));
    return take;
}

/* The same from random places, for the hardened mode. */
SA_COLD __attribute__((unused)) static size_t sa_span_take_scattered(struct sa_span *s, size_t size,
                                                                     void **end, size_t n)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    uint64_t *bits = sa_span_bits(s);
    size_t take = sa_min(n, (size_t)(s->objects - s->live));

    SA_DCHECK(s->live <= s->objects);
    for (size_t i = 0; i < take; i++) {
        size_t at = sa_rng_next(&sa_hardening.rng) % s->objects, w = at / 64;
        uint64_t b = bits[w] & ~0ull << at % 64;

        while (!b) {
            w = w + 1 < sa_span_words(s) ? w + 1 : 0;
            b = bits[w];
        }
        at = sa_lowest_bit(b);
        sa_store_relaxed(&bits[w], bits[w] & ~(1ull << at));
        *--end = (void *)(s->start + (w * 64 + at) * size);
    }
    sa_store_relaxed(&s->live, (uint16_t)(s->live + take));
    return take;
}

enum sa_span_fault { SA_SPAN_RIGHT, SA_SPAN_FOREIGN, SA_SPAN_TWICE };

/*
 * Puts objects back on the span of the first one. Stops at an object of another span or a wrong
 * one; returns how many came before that. A word of the bitmap is written when the next object
 * needs another word: with a store for each object, each would wait for the store before.
 */
static inline size_t sa_span_put(struct sa_span *s, unsigned cls, void *const *objs, size_t n,
                                 enum sa_span_fault *ret_fault) SA_REQUIRES(SA_RANK_CENTRAL)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    uint64_t none = 0, *at = &none, word = 0; /* the word that is written next, and where */
    uint64_t *bits;
    size_t bytes, i;

    if (!s || sa_load_relaxed(&s->cls) != cls || sa_load_relaxed(&s->state) != SA_SPAN_OBJECTS) {
        /* A span that is moving: all its objects were free already. */
        *ret_fault =
            s && sa_load_relaxed(&s->state) == SA_SPAN_MOVING ? SA_SPAN_TWICE : SA_SPAN_FOREIGN;
        return 0;
    }
    bits = sa_span_bits(s);
    bytes = sa_span_bytes(s);
    for (i = 0; i < n; i++) {
        size_t offset = (uintptr_t)objs[i] - s->start;
        long index = sa_class_index(k, offset);

        if (i && offset >= bytes)
            break; /* of another span: never the first, whatever the map says */
        if (SA_UNLIKELY(index < 0)) {
            *ret_fault = SA_SPAN_FOREIGN;
            break;
        }
        if (at != bits + index / 64) {
            sa_store_relaxed(at, word);
            at = bits + index / 64;
            word = *at;
        }
        if (SA_UNLIKELY(word & 1ull << index % 64)) {
            *ret_fault = SA_SPAN_TWICE;
            break;
        }
        word |= 1ull << index % 64;
    }
    SA_DCHECK(i <= s->live);
    sa_store_relaxed(at, word);
    sa_store_relaxed(&s->live, (uint16_t)(s->live - i));
    return i;
}

/* Pins the span of an object of the class, or takes a pin off it. False: it has UINT16_MAX pins, or
 * is not the object's span. A span that has left the class may be written by other threads, hence
 * the atomic loads. */
SA_COLD __attribute__((unused)) static bool sa_span_pin(struct sa_span *s, unsigned cls,
                                                        const void *object, bool pin)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    bool done = !pin || (sa_load_relaxed(&s->state) == SA_SPAN_OBJECTS &&
                         sa_load_relaxed(&s->cls) == cls && s->pins < UINT16_MAX &&
                         (uintptr_t)object - sa_load_relaxed(&s->start) <
                             (size_t)sa_load_relaxed(&s->pages) << SA_PAGE_SHIFT);

    if (done)
        s->pins = (uint16_t)(pin ? s->pins + 1 : s->pins - 1);
    return done;
}

/* Writes canaries to the objects of a new span, in the hardened mode. */
SA_COLD __attribute__((unused)) static void sa_span_mark_fresh(struct sa_span *s, size_t size)
{
    for (size_t i = 0; i < s->objects; i++)
        sa_canary_fresh((void *)(s->start + i * size), size);
}

#endif
