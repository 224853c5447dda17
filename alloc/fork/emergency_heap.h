/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory while the gate is closed, and for children of vfork (see fork_gate.h): blocks carved from
 * a mapping by an atomic add, frees of other blocks put on a list. What matters is that it needs no
 * lock, and that a process that is killed at any instruction harms nobody.
 *
 * Blocks are of the size classes, and what is freed is used again: for each class there is a list
 * without a lock. Whoever allocates takes the whole list, keeps one block and puts the rest back,
 * so that no list can change under a reader. Blocks above the largest class have lists by the power
 * of two; their pages are given back to the system when they are freed. Mappings stay.
 *
 * A lost child (fork_gate.h) has nothing else for good. Blocks of the ordinary heap that it frees
 * come to the same lists: nobody else in the child will use them.
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

/* Uses a block again that has at least so many bytes: one of these, or in a lost child any. */
void sa_emergency_heap_free(void *p, size_t bytes);

/* Puts a block of the ordinary heap aside; sa_emergency_heap_take returns those, once, linked by
 * their first word. */
void sa_emergency_heap_put_aside(void *p);
void *sa_emergency_heap_take(void);

/* In a child of fork: what other threads put aside is theirs no more, and stays allocated. */
void sa_emergency_heap_after_fork(void);

#endif
