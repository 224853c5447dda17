/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a page heap gets its address space: mappings one behind the other in a window of 64 GiB, as
 * far as the kernel lets it. The heap's lock guards it.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H
#define SA_PAGE_HEAP_ACCOUNT_HEAP_SPACE_H

#include "alloc/base/attrs.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether two addresses lie in one of those windows. */
SA_INLINE bool sa_same_window(uintptr_t a, uintptr_t b)
{
    return a >> SA_HOME_SHIFT == b >> SA_HOME_SHIFT;
}

struct sa_heap_space {
    const char *name;
    bool own_window; /* const: only in the sampled heap's window; elsewhere mappings fail */
    uintptr_t hint;  /* where to ask for the next mapping */
    uintptr_t hole;  /* not 0: where something was unmapped, to be tried before */
};

/* Maps bytes at a multiple of align and makes their entries in the radix map. NULL: out of
 * memory. */
void *sa_heap_space_map(struct sa_heap_space *space, size_t bytes, size_t align);

/* Notes that addresses were given up, so that a heap that maps and unmaps does not use its window
 * up. */
void sa_heap_space_unmapped(struct sa_heap_space *space, uintptr_t start);

#endif
