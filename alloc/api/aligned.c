/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned allocation. An alignment that is not a power of two: posix_memalign and aligned_alloc fail
 * with EINVAL; memalign rounds it up, as glibc's does. Any power of two is served while there is
 * address space for it.
 */
#include "alloc/api/entry.h"
#include "alloc/api/init.h"
#include "alloc/base/bits.h"
#include "alloc/base/page.h"
#include "alloc/os/vm.h"

#include <errno.h>

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
    return sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED, SA_CALLER);
}

SA_EXPORT void *aligned_alloc(size_t align, size_t size)
{
    if (!sa_is_pow2(align)) {
        errno = EINVAL;
        return NULL;
    }
    return sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED, SA_CALLER);
}

SA_EXPORT int posix_memalign(void **ret, size_t align, size_t size)
{
    int saved = errno;
    void *p;

    if (!sa_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    p = sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED, SA_CALLER);
    errno = saved;
    if (!p)
        return ENOMEM;
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
