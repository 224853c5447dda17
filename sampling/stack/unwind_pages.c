/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of unwind tables; see unwind_pages.h. */
#include "sampling/stack/unwind_pages.h"

#include "alloc/os/sys.h"
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

#define SLOTS (2u * SA_UNWIND_PAGES) /* never full */

uint32_t sa_unwind_pages_touched;
/*
 * The low 32 bits of a page's number lie in the first slot from its own on that was free: the table
 * fits on a page. Of pages 16 TiB apart one may be taken for the other; it is then read as any
 * other. Atomic, relaxed: written once, from 0, by the thread that touches the page.
 */
static uint32_t pages[SLOTS];

void sa_unwind_page_touch(const void *at)
{
    uintptr_t page = (uintptr_t)at & -PAGE;
    uint32_t number = (uint32_t)(page / PAGE), found, slot = number % SLOTS;

    while ((found = sa_load_relaxed(&pages[slot])) != 0) {
        if (found == number)
            return;
        slot = (slot + 1) % SLOTS;
    }
    if (!sa_cas_relaxed(&pages[slot], &found, number))
        return; /* another thread was quicker: then it is read as any other */
    sa_add_relaxed(&sa_unwind_pages_touched, 1u);
    /* If the kernel does not want to, the page is read as any other. */
    if (sa_sys_madvise((void *)page, PAGE, MADV_RANDOM) == 0) {
        (void)*(const volatile uint8_t *)at;
        sa_sys_madvise((void *)page, PAGE, MADV_NORMAL);
    }
}

#endif
