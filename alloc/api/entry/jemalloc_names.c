/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's functions with flags: mallocx and its kin, of which tcmalloc has nallocx and sdallocx,
 * too. Programs look for them by weak references, and call what they find.
 *
 * All seven are here or none: a program that is linked with jemalloc and runs with this library
 * preloaded would otherwise free blocks of one allocator in the other. mallctl is not here, so that
 * programs which ask for the whole of jemalloc do not take this library for it.
 *
 * Flags for arenas and thread caches have no effect. A size of 0, which jemalloc does not define,
 * counts as 1. No variables.
 */
#include "alloc/api/entry/entry.h"
#include "alloc/api/init.h"
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/base/hardening.h"
#include "alloc/base/page.h"
#include "alloc/base/size_class.h"
#include "alloc/front/block.h"
#include "alloc/front/large.h"
#include "alloc/front/slow_path.h"

#include <string.h>

#define LG_ALIGN 0x3f /* the binary logarithm of the alignment; 0: none */
#define ZERO     0x40

extern void *mallocx(size_t size, int flags);
extern void *rallocx(void *p, size_t size, int flags);
extern size_t xallocx(void *p, size_t size, size_t extra, int flags);
extern size_t sallocx(const void *p, int flags);
extern void dallocx(void *p, int flags);
extern void sdallocx(void *p, size_t size, int flags);
extern size_t nallocx(size_t size, int flags);

/* libc's declarations of it differ between versions. */
extern size_t malloc_usable_size(void *p);

static size_t align_of(int flags)
{
    return (size_t)1 << (flags & LG_ALIGN);
}

/* With ZERO, all that the program may use is zero, not only what it asks for: a zeroed array that
 * grows in turn is zero throughout. */
static size_t bytes_of(size_t size, int flags)
{
    size_t usable = flags & ZERO ? nallocx(size, flags) : 0;

    return sa_max(sa_max(size, usable), 1);
}

SA_EXPORT void *mallocx(size_t size, int flags)
{
    size_t align = align_of(flags);

    if (align <= SA_MIN_ALIGN && !(flags & ZERO))
        return sa_own_malloc(sa_max(size, 1));
    return sa_entry_alloc(bytes_of(size, flags), align, (flags & ZERO) != 0,
                          align > SA_MIN_ALIGN ? SALLOC_KIND_ALIGNED : SALLOC_KIND_MALLOC,
                          SA_CALLER);
}

/* The bytes beyond those that the block had are zero with ZERO. A block that stays may have been
 * written to as far as its usable size, so that it has no such bytes. */
SA_EXPORT void *rallocx(void *p, size_t size, int flags)
{
    size_t align = align_of(flags), old;
    void *q;

    size = sa_max(size, 1);
    if (align <= SA_MIN_ALIGN && !(flags & ZERO))
        return sa_own_realloc(p, size);
    old = malloc_usable_size(p);
    if (nallocx(size, flags) == old && !((uintptr_t)p & (align - 1)))
        return p;
    q = sa_entry_alloc(bytes_of(size, flags), align, (flags & ZERO) != 0,
                       align > SA_MIN_ALIGN ? SALLOC_KIND_ALIGNED : SALLOC_KIND_MALLOC, SA_CALLER);
    if (!q)
        return NULL;
    memcpy(q, p, sa_min(old, size));
    sa_own_free(p);
    return q;
}

/* A block keeps its size: jemalloc's contract allows that, and callers then move the block. */
SA_EXPORT size_t xallocx(void *p, size_t size __attribute__((unused)),
                         size_t extra __attribute__((unused)), int flags __attribute__((unused)))
{
    return malloc_usable_size(p);
}

SA_EXPORT size_t sallocx(const void *p, int flags __attribute__((unused)))
{
    return malloc_usable_size((void *)p);
}

SA_EXPORT void dallocx(void *p, int flags __attribute__((unused)))
{
    sa_own_free(p);
}

/* The size may be any from the requested one to what nallocx says. Large, sampled and guarded
 * blocks know only the first, so that a size which rounds to the same is right. */
SA_EXPORT void sdallocx(void *p, size_t size, int flags)
{
    size_t align = align_of(flags), usable;

    if (sa_entry_free_aligned(p, sa_max(size, 1), align))
        return;
    usable = sa_front_size_if_ours(p);
    if (!usable || nallocx(size, flags) == nallocx(usable, flags))
        sa_own_free(p);
    else
        sa_entry_free_sized(p, size, align > SA_MIN_ALIGN ? align : 0,
                            align > SA_MIN_ALIGN ? SALLOC_KIND_ALIGNED : SALLOC_KIND_MALLOC);
}

/* In the hardened mode, a program may use exactly what it asked for. */
SA_EXPORT size_t nallocx(size_t size, int flags)
{
    size_t align = align_of(flags);
    unsigned cls;

    sa_init();
    size = sa_max(size, 1);
    if (align >> SA_ADDRESS_BITS)
        return 0;
    if (sa_hardening.canaries)
        return sa_large_estimate(size) ? size : 0;
    cls = sa_block_class(size, align);
    return cls ? sa_size_classes.of[cls].size : sa_large_estimate(size);
}
