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

/* Returns an object that the caller has just allocated if it is at a multiple of `align`, or NULL.
 * If not, exchanges it for one with the full alignment. NULL: there is no memory, and the object
 * was freed. */
void *sa_realign_checked(unsigned cls, void *object, size_t align) SA_INSIDE_GATE;

SA_INLINE void *sa_realign(unsigned cls, void *object, size_t align) SA_INSIDE_GATE
{
    return SA_LIKELY(align <= SA_MIXED_ALIGN) ? object : sa_realign_checked(cls, object, align);
}

/* The slow path of an aligned allocation whose fast path took an object that is not aligned:
 * the same. */
void *sa_front_realign(unsigned cls, void *object, size_t align);

#endif
