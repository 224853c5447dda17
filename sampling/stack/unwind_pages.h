/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the resident memory of unwind tables small: the first SA_UNWIND_PAGES pages of them are
 * read one by one.
 *
 * When a page of a file is touched, the kernel maps the 64 KiB around it. A program with few
 * samples reads three pages of the C library's tables. With their surroundings, these would be more
 * resident memory than its samples. A program with large libraries, such as a compiler, reads
 * hundreds of pages that are far apart.
 *
 * The kernel maps surroundings only within one mapping, and a page with advice of its own (madvise)
 * is a mapping of its own. Each page therefore has such advice while it is touched for the first
 * time. A program that needs more pages is faster with their surroundings. So is a child of fork:
 * it maps the pages that its parent had touched anew, and many live for a few milliseconds.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_PAGES_H
#define SA_SAMPLING_STACK_UNWIND_PAGES_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdint.h>

#define SA_UNWIND_PAGES 512

/* Pages touched so far. Threads that touch pages at the same time may push it a little above
 * SA_UNWIND_PAGES. Atomic, relaxed. */
extern uint32_t sa_unwind_pages_touched SA_HIDDEN;

/* Makes the page of the address resident, without its surroundings, at the first call for it. */
void sa_unwind_page_touch(const void *at);

/* In a child of fork: no page is touched by itself any more. There is one thread. */
void sa_unwind_pages_after_fork(void);

/* Callers call this before they read an unwind table at the address. */
SA_INLINE void sa_unwind_touch(const void *at)
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_unwind_pages_touched) < SA_UNWIND_PAGES))
        sa_unwind_page_touch(at);
}

#endif
