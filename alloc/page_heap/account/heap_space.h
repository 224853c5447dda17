/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a page heap gets its address space: consecutive mappings in a window of 64 GiB
 * (SA_HOME_BYTES), as far as the kernel allows that. The heap's lock guards it.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H
#define SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H

#include "alloc/base/attrs.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if both addresses lie in the same 64 GiB window. */
SA_INLINE bool sa_same_window(uintptr_t a, uintptr_t b)
{
    return a >> SA_HOME_SHIFT == b >> SA_HOME_SHIFT;
}

struct sa_heap_space {
    const char *name;
    bool own_window; /* const: only in the sampled heap's window; elsewhere mappings fail */
    uintptr_t hint;  /* where to ask for the next mapping */
    uintptr_t hole;  /* the lowest address unmapped since, tried before the hint; 0: none */
};

/* Maps bytes at a multiple of align and makes their entries in the radix map. NULL: out of
 * memory. */
void *sa_heap_space_map(struct sa_heap_space *space, size_t bytes, size_t align);

/* Notes that the addresses from start on were unmapped. The next mapping tries them first, so that
 * a heap that maps and unmaps repeatedly does not use up its window. */
void sa_heap_space_unmapped(struct sa_heap_space *space, uintptr_t start);

#endif
