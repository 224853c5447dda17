/* SPDX-License-Identifier: Apache-2.0 */
/* The address space of a page heap; see heap_space.h. */
#include "alloc/page_heap/account/heap_space.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/heap_types.h"
#include "pagemap/pagemap.h"

#define SPACE_HINTS     8
#define SPACE_HINT_STEP (1ul << 30)

void sa_heap_space_unmapped(struct sa_heap_space *space, uintptr_t start)
{
    if (!space->hole || start < space->hole)
        space->hole = start;
}

/* Maps bytes in the hole. NULL if the kernel maps them elsewhere or not at all: the hole is then
 * forgotten. */
static char *space_map_in_hole(struct sa_heap_space *space, size_t bytes, size_t align)
{
    uintptr_t hole = sa_align_up(space->hole, align);
    char *p = sa_vm_map_space((void *)hole, bytes, space->name);

    if ((uintptr_t)p == hole) {
        space->hole = hole + bytes;
        space->hint = sa_max(space->hint, space->hole);
        return p;
    }
    if (p)
        sa_vm_unmap_space(p, bytes);
    space->hole = 0;
    return NULL;
}

/*
 * Maps bytes where the last mapping ended. If that place is taken, the kernel picks another one.
 * The function then tries up to SPACE_HINTS places further on in the window, SPACE_HINT_STEP (1
 * GiB) apart.
 */
static char *space_map_at_hint(struct sa_heap_space *space, size_t bytes, size_t align)
{
    uintptr_t hint = sa_align_up(space->hint, align);
    char *p;

    if (space->own_window && !sa_page_heap_sampled_address(hint + bytes - 1))
        space->hint = hint = SA_HOME_START + SA_HOME_BYTES; /* start over: the heap may have
                                                             * unmapped pages there */
    else if (!sa_same_window(hint, hint + bytes - 1) && bytes <= SA_HOME_BYTES / 2)
        hint = sa_align_up(hint, SA_HOME_BYTES); /* a new window instead of a mapping across the
                                                  * boundary */
    p = sa_vm_map_space((void *)hint, bytes, space->name);
    for (int i = 0; i < SPACE_HINTS && p && !sa_same_window((uintptr_t)p, hint); i++) {
        uintptr_t next = hint + SPACE_HINT_STEP;

        if (bytes >= SPACE_HINT_STEP || !sa_same_window(hint, next + bytes))
            break;
        sa_vm_unmap_space(p, bytes);
        space->hint = hint = next;
        p = sa_vm_map_space((void *)hint, bytes, space->name);
    }
    if (p && space->own_window && !sa_page_heap_sampled_address((uintptr_t)p)) {
        sa_vm_unmap_space(p, bytes); /* outside the window an address would not identify a
                                      * sampled block */
        return NULL;
    }
    if (p && sa_same_window((uintptr_t)p, hint) && (uintptr_t)p + bytes > space->hint)
        space->hint = (uintptr_t)p + bytes;
    return p;
}

/* Maps bytes at a multiple of align, in the hole or near the hint. Unmaps the slack that the
 * alignment needed. */
static char *space_map(struct sa_heap_space *space, size_t bytes, size_t align)
{
    char *p = space->hole ? space_map_in_hole(space, bytes, align) : NULL, *aligned;

    if (p)
        return p;
    p = space_map_at_hint(space, bytes, align);
    if (!p || ((uintptr_t)p & (align - 1)) == 0)
        return p;
    sa_vm_unmap_space(p, bytes);
    p = space_map_at_hint(space, bytes + align, 1);
    if (!p)
        return NULL;
    aligned = (char *)sa_align_up((uintptr_t)p, align);
    if (aligned > p)
        sa_vm_unmap_space(p, (size_t)(aligned - p));
    if (aligned + bytes < p + bytes + align)
        sa_vm_unmap_space(aligned + bytes, (size_t)(p + align - aligned));
    return aligned;
}

void *sa_heap_space_map(struct sa_heap_space *space, size_t bytes, size_t align)
{
    char *p = space_map(space, bytes, align);

    SA_DCHECK(align > 0 && (align & (align - 1)) == 0);
    SA_DCHECK(((uintptr_t)p & (align - 1)) == 0);
    if (p && !sa_pagemap_grow((uintptr_t)p, bytes)) {
        sa_vm_unmap_space(p, bytes);
        return NULL;
    }
    return p;
}
