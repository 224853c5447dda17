/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of objects' unwind tables, read one by one. The kernel maps the 64 KiB around each page
 * of a file that is touched; a program with few samples reads three pages of the C library's
 * tables, and would have more memory resident for them than for its samples, and one with large
 * libraries (a compiler) reads hundreds, far apart. The kernel maps no more than the mapping has,
 * and a page with advice of its own is one: so they get some while they are touched first. A
 * program that needs more pages than these is quicker with those around as well.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_PAGES_H
#define SA_SAMPLING_STACK_UNWIND_PAGES_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdint.h>

#define SA_UNWIND_PAGES 512

/* How many were touched, or a few more; never falls. Atomic, relaxed. */
extern uint32_t sa_unwind_pages_touched SA_HIDDEN;

/* Brings the page in, if it is not yet known to be. */
void sa_unwind_page_touch(const void *at);

/* Before the first read of what lies there. */
SA_INLINE void sa_unwind_touch(const void *at)
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_unwind_pages_touched) < SA_UNWIND_PAGES))
        sa_unwind_page_touch(at);
}

#endif
