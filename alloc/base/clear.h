/* SPDX-License-Identifier: Apache-2.0 */
/* Clears blocks with the method that is fastest for their length and for what the processor's
 * caches hold. See clear.c and clear_long.c for the methods and their state. */
#ifndef SA_BASE_CLEAR_H
#define SA_BASE_CLEAR_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <string.h>

/* Clears a block that was freed recently, so that a cache may still hold it. Returns p. Faster than
 * memset for blocks of 2 to 64 KiB. */
SA_HIDDEN void *sa_clear_warm(void *p, size_t bytes);

/* Clears a block of at least SA_CLEAR_LONG bytes, which may exceed a first-level cache. */
#define SA_CLEAR_LONG (32ul << 10)
SA_HIDDEN void sa_clear_long(void *p, size_t bytes);

/* Clears a block by calls of `clear`: one call for the whole block, or one for each part of 16 KiB,
 * the last part first. Successive calls for the same address alternate between the two. */
typedef void sa_clear_part(void *p, size_t bytes);
SA_HIDDEN void sa_clear_in_turns(void *p, size_t bytes, sa_clear_part *clear);

/* Clears a block of which nothing is known. */
SA_INLINE void sa_clear(void *p, size_t bytes)
{
    if (bytes >= SA_CLEAR_LONG)
        sa_clear_long(p, bytes);
    else
        memset(p, 0, bytes);
}

#endif
