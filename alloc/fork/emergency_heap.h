/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emergency heap serves threads that find the fork gate closed, and children of vfork
 * (fork_gate.h). An atomic addition carves a block from a mapping. Blocks of the ordinary heap that
 * such a thread frees go to a list for later. The emergency heap needs no lock, and a process that
 * is killed at any instruction leaves it usable for others.
 *
 * Blocks have the sizes of the size classes, and freed blocks are used again, from a list without a
 * lock for each class. An allocation takes the whole list, keeps one block and puts the rest back,
 * so no list changes under a reader. Blocks above the largest class have a list for each power of
 * two, and their pages go back to the system when they are freed. Mappings stay.
 *
 * A lost child (fork_gate.h) has no other heap. It also puts the blocks of the ordinary heap that
 * it frees on these lists: no thread of it uses that heap.
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

/* Puts a block of at least that many bytes on its list: a block of the emergency heap, or in a lost
 * child any block. */
void sa_emergency_heap_free(void *p, size_t bytes);

/* Puts a freed block of the ordinary heap on the list for later. sa_emergency_heap_take empties the
 * list and returns its blocks, linked by their first word. */
void sa_emergency_heap_put_aside(void *p);
void *sa_emergency_heap_take(void);

/* In a child of fork: empties the list. Blocks that other threads put there stay allocated. */
void sa_emergency_heap_after_fork(void);

#endif
