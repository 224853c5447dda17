/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-place realloc: a block of 64 KiB or more grows in place if the pages behind it are free.
 * Otherwise a buffer that a program appends to would be copied from class to class, and each copy
 * would leave a block in a cache. No state.
 */
#ifndef SA_FRONT_REALLOC_IN_PLACE_H
#define SA_FRONT_REALLOC_IN_PLACE_H

#include "alloc/base/thread_safety.h"
#include "alloc/front/block.h"

/* Lengthens the block p to `size` bytes, which is more than it has; its content stays. Returns p,
 * or the sampled block that takes its place. NULL: the block is unchanged, and the caller moves it.
 * Called inside the gate. */
void *sa_realloc_in_place(const struct sa_block *b, void *p, size_t size) SA_INSIDE_GATE;

#endif
