/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes in the order of their first use. A program uses some thirty of them, anywhere among
 * all: tables that have something for each class lie in this order, and only their beginning is
 * touched.
 *
 * An entry of the order is written once, by whoever takes it, and no entry is skipped; so a class
 * has one place, the same for everybody. What is remembered by class (sa_class_places) only saves
 * the search. No lock: signal handlers, and a child forked at any instruction, find their class or
 * the next entry that is free.
 */
#ifndef SA_BASE_FIRST_USE_INDEX_H
#define SA_BASE_FIRST_USE_INDEX_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stdint.h>

/* The class at each place. 0: this place and all behind it are free. Atomic, relaxed. */
extern uint8_t sa_first_use[SA_CLASSES_MAX] SA_HIDDEN;

/* The place of each class plus 1; 0: not known yet. Atomic, relaxed: all threads that write an
 * entry write the same value. */
extern uint8_t sa_class_places[SA_CLASSES_MAX] SA_HIDDEN;

/* Finds the place of a class, or takes the next one. */
unsigned sa_class_place_find(unsigned cls);

/* The place of a class, 1 <= cls < SA_CLASSES_MAX. Places are below the number of classes. */
SA_INLINE unsigned sa_class_place(unsigned cls)
{
    unsigned place = sa_load_relaxed(&sa_class_places[cls]);

    return SA_LIKELY(place) ? place - 1 : sa_class_place_find(cls);
}

/* Whether a class may have been used. False: this thread can know of no use yet. */
SA_INLINE bool sa_class_has_place(unsigned cls)
{
    return sa_load_relaxed(&sa_class_places[cls]) != 0;
}

#endif
