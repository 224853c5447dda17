/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emergency heap serves threads that find the fork gate closed, and children of vfork
 * (fork_gate.h). These may not use the state of the ordinary heap. An atomic addition carves a
 * block from a mapping. Blocks of the ordinary heap that such a thread frees go to a list for
 * later.
 *
 * The emergency heap has no lock. Each change is one atomic access, so that a process that is
 * killed at any instruction leaves the heap usable for others.
 *
 * Blocks have the sizes of the size classes. Freed blocks are used again, from a list for each
 * class. An allocation takes the whole list, keeps one block and puts the rest back, so that no
 * list changes while it is read. Larger blocks have a list for each power of two, and the memory of
 * long ones is released when they are freed. Mappings stay.
 *
 * A lost child (fork_gate.h) has no other heap. The blocks of the ordinary heap that it frees also
 * go to these lists, because no thread of it uses the ordinary heap.
 */
#ifndef SA_FORK_EMERGENCY_HEAP_H
#define SA_FORK_EMERGENCY_HEAP_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocates a zeroed block. align: 0 or a power of two. NULL: out of memory. Any thread may call,
 * in any state of the gate; async-signal-safe. */
void *sa_emergency_heap_alloc(size_t size, size_t align);

/* True if p is a block of the emergency heap. *ret_size then receives its size. */
bool sa_emergency_heap_owns(const void *p, size_t *ret_size);

/* Puts a block of at least `bytes` bytes on its list. In a lost child that may be any block,
 * otherwise it is a block of the emergency heap. */
void sa_emergency_heap_free(void *p, size_t bytes);

/* Puts a freed block of the ordinary heap, of at least the size of a pointer, on the list for
 * later. sa_emergency_heap_take empties that list and returns its blocks, linked by their first
 * word; the caller then owns them. */
void sa_emergency_heap_put_aside(void *p);
void *sa_emergency_heap_take(void);

/* In a child of fork: empties the list for later. Its blocks stay allocated. */
void sa_emergency_heap_after_fork(void);

#endif
