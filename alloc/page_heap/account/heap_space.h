/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a page heap gets its address space: consecutive mappings in a window of 64 GiB
 * (SA_HOME_BYTES), as far as the kernel allows that. Mappings of SA_HEAP_SPACE_FAR and more lie
 * behind the windows of the heaps, so that a few of them do not use up the window in which frees
 * take their fast path. The heap's lock guards it.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H
#define SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if both addresses lie in the same 64 GiB window. */
SA_INLINE bool sa_same_window(uintptr_t a, uintptr_t b)
{
    return a >> SA_HOME_SHIFT == b >> SA_HOME_SHIFT;
}

#define SA_HEAP_SPACE_FAR (SA_HOME_BYTES / 32) /* more than a region of the page heap has */

struct sa_heap_space {
    const char *name;
    bool own_window; /* const: only in the sampled heap's window; elsewhere mappings fail */
    uintptr_t hint;  /* where to ask for the next mapping */
    uintptr_t far;   /* the same for those of SA_HEAP_SPACE_FAR and more; 0: no such place */
    uintptr_t hole;  /* the lowest address unmapped since, tried before the hint; 0: none */
};

/* Where the next mapping of so many bytes is asked for, but for holes. */
SA_INLINE uintptr_t *sa_heap_space_next(struct sa_heap_space *space, size_t bytes)
{
    return space->far && bytes >= SA_HEAP_SPACE_FAR ? &space->far : &space->hint;
}

/* Maps bytes at a multiple of align and makes their entries in the radix map. NULL: out of
 * memory. */
void *sa_heap_space_map(struct sa_heap_space *space, size_t bytes, size_t align);

/* Notes that a range was unmapped. The next mapping tries the range first, so that a heap that maps
 * and unmaps repeatedly does not use up its window. */
void sa_heap_space_unmapped(struct sa_heap_space *space, uintptr_t start, size_t bytes);

#endif
