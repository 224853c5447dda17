/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory while the gate is closed (see fork_gate.h): blocks carved from a mapping by an atomic add,
 * frees put on a list. Rarely used, and not reused: a block's memory goes back with its mapping,
 * which is never. What matters is that it needs no lock.
 *
 * A lost child (fork_gate.h) has nothing else for good. There blocks are of the size classes, and
 * what is freed is used again: for each class a list without a lock. Whoever allocates takes the
 * whole list, keeps one block and puts the rest back, so that no list can change under a reader.
 * Blocks of the ordinary heap that the child frees come to the same lists: in the child nobody else
 * will use them. Blocks above the largest class have lists by the power of two; their pages are
 * given back to the system when they are freed.
 */
#ifndef SA_FORK_EMERGENCY_HEAP_H
#define SA_FORK_EMERGENCY_HEAP_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed; NULL when out of memory. */
void *sa_emergency_heap_alloc(size_t size, size_t align);

/* Whether a block is one of these; then *ret_size is its size. */
bool sa_emergency_heap_owns(const void *p, size_t *ret_size);

/* In a lost child: uses a block again that has at least so many bytes. Otherwise does nothing. */
void sa_emergency_heap_free(void *p, size_t bytes);

/* Puts a block of the ordinary heap aside; sa_emergency_heap_take returns those, once, linked by
 * their first word. */
void sa_emergency_heap_put_aside(void *p);
void *sa_emergency_heap_take(void);

/* In a child of fork: what other threads put aside is theirs no more, and stays allocated. */
void sa_emergency_heap_after_fork(void);

#endif
