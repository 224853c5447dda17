/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of size classes in the order of their first use. A program uses about 30 classes, anywhere
 * in the table of all. Arrays with an element for each class are indexed by place, so that a
 * program touches only the beginning of them.
 *
 * Invariants: an entry of sa_first_use is written once, by the thread that takes it, and no entry
 * is skipped. A class therefore has one place, which is the same for all threads.
 * sa_first_use_indexes caches the place of a class and only saves the search. No lock: a signal
 * handler, and a child that is forked at any instruction, find their class or the next free entry.
 */
#ifndef SA_BASE_FIRST_USE_INDEX_H
#define SA_BASE_FIRST_USE_INDEX_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stdint.h>

/* The class at each place. 0: this place and all later ones are free. Atomic, relaxed: each entry
 * changes once, by compare and swap. */
extern uint8_t sa_first_use[SA_CLASSES_MAX] SA_HIDDEN;

/* The place of each class, plus 1. 0: not known yet. Atomic, relaxed: all threads that write an
 * entry write the same value. */
extern uint8_t sa_first_use_indexes[SA_CLASSES_MAX] SA_HIDDEN;

/* Finds the place of a class, or takes the next free one. */
unsigned sa_first_use_index_find(unsigned cls);

/* The place of a class, for 1 <= cls < SA_CLASSES_MAX. Places are below the number of classes. */
SA_INLINE unsigned sa_first_use_index(unsigned cls)
{
    unsigned place = sa_load_relaxed(&sa_first_use_indexes[cls]);

    return SA_LIKELY(place) ? place - 1 : sa_first_use_index_find(cls);
}

/* True if a class may have been used. False: this thread can know of no use yet. */
SA_INLINE bool sa_class_is_used(unsigned cls)
{
    return sa_load_relaxed(&sa_first_use_indexes[cls]) != 0;
}

#endif
