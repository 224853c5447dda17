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

/* True behind the windows of both heaps. */
static bool is_far(const struct sa_heap_space *space, uintptr_t start)
{
    return space->far && start >= SA_HOME_START + 2 * SA_HOME_BYTES;
}

SA_RARE void sa_heap_space_unmapped(struct sa_heap_space *space, uintptr_t start, size_t bytes)
{
    if (is_far(space, start)) {
        if (start + bytes == space->far)
            space->far = start;
        return;
    }
    if (!space->hole || start < space->hole)
        space->hole = start;
}

/* Maps bytes in the hole. NULL if the kernel maps them elsewhere or not at all: the hole is then
 * forgotten. */
SA_RARE static SA_NOINLINE char *space_map_in_hole(struct sa_heap_space *space, size_t bytes,
                                                   size_t align)
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

/* Moves a mapping, which the kernel has placed elsewhere, to one of up to SPACE_HINTS places
 * further on in the window, SPACE_HINT_STEP (1 GiB) apart. */
SA_RARE static SA_NOINLINE char *space_map_further(struct sa_heap_space *space, char *p,
                                                   size_t bytes)
{
    uintptr_t hint = space->hint;

    for (int i = 0; i < SPACE_HINTS && p && !sa_same_window((uintptr_t)p, hint); i++) {
        uintptr_t next = hint + SPACE_HINT_STEP;

        if (bytes >= SPACE_HINT_STEP || !sa_same_window(hint, next + bytes))
            break;
        sa_vm_unmap_space(p, bytes);
        space->hint = hint = next;
        p = sa_vm_map_space((void *)hint, bytes, space->name);
    }
    return p;
}

/* Maps bytes where the last mapping ended. If that place is taken, the kernel picks another one. */
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
    space->hint = hint;
    p = sa_vm_map_space((void *)hint, bytes, space->name);
    if (p && SA_UNLIKELY(!sa_same_window((uintptr_t)p, hint))) {
        p = space_map_further(space, p, bytes);
        hint = space->hint;
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

/* Maps bytes behind the windows of the heaps, where the last such mapping ended. */
SA_RARE static SA_NOINLINE char *space_map_far(struct sa_heap_space *space, size_t bytes,
                                               size_t align)
{
    uintptr_t far = sa_align_up(space->far, align);
    char *p = sa_vm_map_space((void *)far, bytes, space->name);

    if ((uintptr_t)p == far)
        space->far = far + bytes;
    return p;
}

/* Maps more than bytes, and unmaps what does not lie at a multiple of align. */
SA_RARE static SA_NOINLINE char *space_map_aligned(struct sa_heap_space *space, size_t bytes,
                                                   size_t align)
{
    bool far = sa_heap_space_next(space, bytes) == &space->far;
    char *p =
        far ? space_map_far(space, bytes + align, 1) : space_map_at_hint(space, bytes + align, 1);
    char *aligned = (char *)sa_align_up((uintptr_t)p, align);

    if (!p)
        return NULL;
    if (aligned > p)
        sa_vm_unmap_space(p, (size_t)(aligned - p));
    if (aligned + bytes < p + bytes + align)
        sa_vm_unmap_space(aligned + bytes, (size_t)(p + align - aligned));
    return aligned;
}

/* Maps bytes at a multiple of align: behind the windows, in the hole or near the hint. */
static char *space_map(struct sa_heap_space *space, size_t bytes, size_t align)
{
    char *p = NULL;

    if (SA_UNLIKELY(sa_heap_space_next(space, bytes) == &space->far))
        p = space_map_far(space, bytes, align);
    else if (SA_UNLIKELY(space->hole))
        p = space_map_in_hole(space, bytes, align);
    if (!p)
        p = space_map_at_hint(space, bytes, align);
    if (!p || SA_LIKELY(((uintptr_t)p & (align - 1)) == 0))
        return p;
    sa_vm_unmap_space(p, bytes);
    return space_map_aligned(space, bytes, align);
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
