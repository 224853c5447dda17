/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of unwind tables; see unwind_pages.h. */
#include "sampling/unwind_pages.h"

#include "alloc/os/sys.h"
#include "sampling/unwind.h"

#ifdef SA_UNWIND_OWN

#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

uint32_t sa_unwind_pages_touched;
/* Atomic, relaxed; 0: one that counts, but is not written yet. */
static uintptr_t pages[SA_UNWIND_PAGES];

void sa_unwind_page_touch(const void *at)
{
    uint32_t n = sa_load_relaxed(&sa_unwind_pages_touched);
    uintptr_t page = (uintptr_t)at & -PAGE;

    for (uint32_t i = 0; i < n; i++)
        if (sa_load_relaxed(&pages[i]) == page)
            return;
    if (n >= SA_UNWIND_PAGES) /* others were quicker, as below */
        return;
    if (!sa_cas_relaxed(&sa_unwind_pages_touched, &n, n + 1))
        return;
    sa_store_relaxed(&pages[n], page);
    /* If the kernel does not want to, the page is read as any other. */
    if (sa_sys_madvise((void *)page, PAGE, MADV_RANDOM) == 0) {
        (void)*(const volatile uint8_t *)at;
        sa_sys_madvise((void *)page, PAGE, MADV_NORMAL);
    }
}

#endif
