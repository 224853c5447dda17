/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects at a multiple of an alignment. Objects of a class have the alignment of its size, but on
 * mixed spans no more than SA_MIXED_ALIGN, and caches hold both kinds. No state.
 */
#ifndef SA_FRONT_REALIGN_H
#define SA_FRONT_REALIGN_H

#include "alloc/base/fatal.h"
#include "alloc/base/thread_safety.h"
#include "alloc/middle/mixed_spans.h"

#include <stdint.h>

/* Exchanges an object that the caller has just allocated for one on a span of its class. NULL:
 * there is no memory, and the object was freed. */
void *sa_realign_exchange(unsigned cls, void *object) SA_INSIDE_GATE;

/* Returns an object that is NULL, or is at a multiple of `align` already; if not, another one as
 * above. */
SA_INLINE void *sa_realign(unsigned cls, void *object, size_t align) SA_INSIDE_GATE
{
    if (SA_LIKELY(align <= SA_MIXED_ALIGN || !((uintptr_t)object & (align - 1))))
        return object;
    return sa_realign_exchange(cls, object);
}

/* The slow path of an aligned allocation whose fast path took an object that is not aligned:
 * exchanges it. NULL: as above. */
void *sa_front_realign(unsigned cls, void *object);

#endif
