/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation with an alignment: memalign, aligned_alloc, posix_memalign, valloc, pvalloc.
 *
 * An alignment that is not a power of two: posix_memalign returns EINVAL, aligned_alloc fails with
 * EINVAL, and memalign rounds the alignment up, as glibc's does. A power of two fails only where no
 * address space of that alignment is free. This file has no variables.
 *
 * The objects of a class have the alignment of its size, except on mixed spans
 * (alloc/middle/mixed_spans.h). So the fast path looks at the object that it took.
 */
#include "alloc/api/entry/entry.h"
#include "alloc/api/init.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/page.h"
#include "alloc/front/fast_path.h"
#include "alloc/front/realign.h"
#include "alloc/os/vm.h"

#include <errno.h>

/* Returns the smallest class whose objects hold `size` bytes at a multiple of `align`, as a header
 * offset. 0: the slow path must decide. limit: the mid_limit of the caller (sa_hot). */
SA_INLINE size_t aligned_class(size_t size, size_t align, size_t limit)
{
    size_t need, cls;

    if (SA_UNLIKELY(size >= limit || align > SA_PAGE_BYTES))
        return 0;
    need = sa_align_up(sa_max(size, 1), align);
    if (SA_UNLIKELY(need >= limit))
        return 0;
    cls = sa_fast_size_class(&sa_hot, need);
    SA_DCHECK(sa_is_pow2(align) && cls);
    while (sa_fast_class_bytes(cls) & (align - 1))
        cls += sizeof(struct sa_header);
    SA_DCHECK(sa_fast_class_bytes(cls) >= size);
    return cls;
}

/* Exchanges an object that is not aligned; NULL: the slow path must decide. */
SA_COLD static SA_NOINLINE void *realign(size_t cls, void *p, size_t align)
{
    int error = errno;

    p = sa_front_realign((unsigned)(cls / SA_CLASS_OFFSET(1)), p, align);
    errno = error;
    return p;
}

/* A function, not inline, as is the next: each copy of a sequence costs two relocations when the
 * library is loaded. */
void *sa_entry_alloc_aligned(size_t size, size_t align, size_t limit)
{
    size_t cls;
    void *p;

    cls = aligned_class(size, align, limit);
    if (SA_UNLIKELY(!cls))
        return NULL;
    SA_PERCPU_POP(&sa_hot, cls, p, leave, restart);
    if (SA_UNLIKELY((uintptr_t)p & (align - 1)))
        return realign(cls, p, align);
    return p;
restart: /* the slow path begins again */
leave:
    SA_PERCPU_LABEL;
    return NULL;
}

bool sa_entry_free_aligned(void *p, size_t size, size_t align)
{
    size_t cls = sa_fast_class_of(&sa_hot, p);

    return cls && sa_is_pow2(align) && cls == aligned_class(size, align, sa_hot.mid_limit) &&
           sa_entry_free_fast(p);
}

/* align: a power of two. Sets errno only when memory runs out. */
SA_INLINE void *alloc_aligned(size_t size, size_t align, const void *caller)
{
    void *p = sa_entry_alloc_aligned(size, align, sa_hot.mid_limit);

    return SA_LIKELY(p != NULL) ? p : sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED, caller);
}

SA_EXPORT void *memalign(size_t align, size_t size)
{
    if (align > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    if (align < SA_MIN_ALIGN)
        align = SA_MIN_ALIGN;
    if (!sa_is_pow2(align))
        align = 2ul << sa_log2(align);
    return alloc_aligned(size, align, SA_CALLER);
}

SA_EXPORT void *aligned_alloc(size_t align, size_t size)
{
    if (!sa_is_pow2(align)) {
        errno = EINVAL;
        return NULL;
    }
    return alloc_aligned(size, align, SA_CALLER);
}

SA_EXPORT int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p;

    if (!sa_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    p = alloc_aligned(size, align, SA_CALLER);
    if (SA_UNLIKELY(!p))
        return ENOMEM; /* sa_entry_alloc has set errno too, as glibc does: callers look there */
    *ret = p;
    return 0;
}

SA_EXPORT void *valloc(size_t size)
{
    sa_init();
    return sa_entry_alloc(size, sa_vm.page_bytes, 0, SALLOC_KIND_ALIGNED, SA_CALLER);
}

SA_EXPORT void *pvalloc(size_t size)
{
    sa_init();
    if (size > SIZE_MAX - sa_vm.page_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    return sa_entry_alloc(sa_align_up(sa_max(size, 1), sa_vm.page_bytes), sa_vm.page_bytes, 0,
                          SALLOC_KIND_ALIGNED, SA_CALLER);
}

extern __typeof__(memalign) sa_own_memalign SA_OWN_NAME_OF(memalign);
extern __typeof__(valloc) sa_own_valloc SA_OWN_NAME_OF(valloc);
extern __typeof__(pvalloc) sa_own_pvalloc SA_OWN_NAME_OF(pvalloc);
extern __typeof__(posix_memalign) sa_own_posix_memalign SA_OWN_NAME_OF(posix_memalign);
