/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator without its entry points: what malloc and free do when the fast path gives up, and
 * the operations that have no fast path. errno may change; the entry layer restores or sets it.
 *
 * All are safe to call from any thread at any time after sa_front_init, including while another
 * thread forks. None holds a lock on return.
 */
#ifndef SA_FRONT_SLOW_PATH_H
#define SA_FRONT_SLOW_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the front end usable; the layers below are initialised. Sets the limits of the fast
 * path. */
void sa_front_init(size_t cpu_cache_limit);

/* Sets the limits of the fast paths of C++'s operators, too. */
void sa_front_open_cxx(void);

/* A block of size bytes aligned to align (a power of two; SA_MIN_ALIGN or less asks for nothing
 * special), zeroed if asked. NULL when there is no memory or the size is impossible. */
void *sa_front_alloc(size_t size, size_t align, bool zero);

/* Frees a block. Anything else than a block of ours ends the program with a message. align: what
 * the call is told, as some operators delete are; 1: nothing; 0: the block may have been allocated
 * by any function. */
void sa_front_free_aligned(void *p, size_t align);

static inline void sa_front_free(void *p)
{
    sa_front_free_aligned(p, 1);
}

/* Frees a block whose size (and alignment, 0 for none) the caller claims to know. */
void sa_front_free_sized(void *p, size_t size, size_t align);

/* As realloc, for p != NULL and size > 0. */
void *sa_front_realloc(void *p, size_t size);

/* Usable bytes of a block; `what` names the caller in the message if it is none. */
size_t sa_front_size(const void *p, const char *what);

/* The same without a message: 0 if p is not the start of a block (as far as can be told). */
size_t sa_front_size_if_ours(const void *p);

/* What a block of the size would occupy; 0 if it is impossible. */
size_t sa_front_estimate(size_t size);

#endif
