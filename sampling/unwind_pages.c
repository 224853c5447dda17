/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of unwind tables; see unwind_pages.h. */
#include "sampling/unwind_pages.h"

#include "alloc/os/sys.h"
#include "sampling/unwind.h"

#ifdef SA_UNWIND_OWN

#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

#define SLOTS (2u * SA_UNWIND_PAGES) /* never full */

uint32_t sa_unwind_pages_touched;
/* A page lies in the first slot from its own on that was free. Atomic, relaxed: written once, from 0, by who touches the page. */
static uintptr_t pages[SLOTS];

void sa_unwind_page_touch(const void *at)
{
    uintptr_t page = (uintptr_t)at & -PAGE, found;
    uint32_t slot = (uint32_t)(page / PAGE) % SLOTS;

    while ((found = sa_load_relaxed(&pages[slot])) != 0) {
        if (found == page)
            return;
        slot = (slot + 1) % SLOTS;
    }
    if (!sa_cas_relaxed(&pages[slot], &found,
                        page)) /* somebody was quicker: then it is read as any other */
        return;
    sa_add_relaxed(&sa_unwind_pages_touched, 1u);
    /* If the kernel does not want to, the page is read as any other. */
    if (sa_sys_madvise((void *)page, PAGE, MADV_RANDOM) == 0) {
        (void)*(const volatile uint8_t *)at;
        sa_sys_madvise((void *)page, PAGE, MADV_NORMAL);
    }
}

#endif
