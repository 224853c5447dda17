/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow paths: the work of malloc and free when the fast path leaves, and the operations that
 * have no fast path. errno may change; alloc/api restores or sets it.
 *
 * After sa_front_init any thread may call these functions at any time, also while another thread
 * forks. None holds a lock on return.
 */
#ifndef SA_FRONT_SLOW_PATH_H
#define SA_FRONT_SLOW_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates `size` bytes, cleared if `zero`. align: a power of two; values up to SA_MIN_ALIGN have
 * no effect. NULL: there is no memory, or the size is impossible. */
void *sa_front_alloc(size_t size, size_t align, bool zero);

/* Frees a block. A pointer that is no block in use ends the program with a message. align: the
 * alignment that operator delete was told; 1: none; 0: any function may have allocated the block,
 * so that no mismatch is reported. */
void sa_front_free_aligned(void *p, size_t align);

static inline void sa_front_free(void *p)
{
    sa_front_free_aligned(p, 1);
}

/* Frees a block with the size and alignment (0: none) that the caller names. Both are checked as
 * far as the block knows them. */
void sa_front_free_sized(void *p, size_t size, size_t align);

/* Does the work of realloc, for p != NULL and size > 0. */
void *sa_front_realloc(void *p, size_t size);

/* The usable bytes of a block. 0: p is no block; a report begins with `what`, and ends the program
 * if it is hardened. */
size_t sa_front_size(const void *p, const char *what);

/* The usable bytes of any pointer; 0 if p is not the start of a block in use, as far as can be
 * told. */
size_t sa_front_size_if_ours(const void *p);

/* The bytes that a block of this size would occupy. 0: the size is impossible. */
size_t sa_front_estimate(size_t size);

#endif
