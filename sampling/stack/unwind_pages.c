/* SPDX-License-Identifier: Apache-2.0 */
/* Touches pages of unwind tables one by one, and remembers which were touched (unwind_pages.h). */
#include "sampling/stack/unwind_pages.h"

#include "alloc/base/fatal.h"
#include "alloc/os/sys.h"
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include <sys/mman.h>

#define PAGE ((uintptr_t)4096)

#define SLOTS (2u * SA_UNWIND_PAGES) /* never full: about half of them are used */

SA_START_DATA uint32_t sa_unwind_pages_touched;

/*
 * The touched pages: a hash table with linear probing of the low 32 bits of page numbers. The table
 * fits on a page. Pages 16 TiB apart are taken for each other, and the second is then read without
 * advice. A slot is an atomic, relaxed. The thread that touches the page writes it once, from 0.
 */
static uint32_t pages[SLOTS];

void sa_unwind_page_touch(const void *at)
{
    uintptr_t page = (uintptr_t)at & -PAGE;
    uint32_t number = (uint32_t)(page / PAGE), found, slot = number % SLOTS;

    SA_DCHECK(sa_load_relaxed(&sa_unwind_pages_touched) < SLOTS);
    while ((found = sa_load_relaxed(&pages[slot])) != 0) {
        if (found == number)
            return;
        slot = (slot + 1) % SLOTS;
    }
    if (!sa_cas_relaxed(&pages[slot], &found, number))
        return; /* another thread took the slot: the page is read without advice */
    sa_add_relaxed(&sa_unwind_pages_touched, 1u);
    /* If the kernel refuses the advice, the page is read without. */
    if (sa_sys_madvise((void *)page, PAGE, MADV_RANDOM) == 0) {
        (void)*(const volatile uint8_t *)at;
        sa_sys_madvise((void *)page, PAGE, MADV_NORMAL);
    }
}

SA_FORK void sa_unwind_pages_after_fork(void)
{
    sa_unwind_pages_touched = SA_UNWIND_PAGES;
}

#else

SA_FORK void sa_unwind_pages_after_fork(void)
{
}

#endif
