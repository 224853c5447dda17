/* SPDX-License-Identifier: Apache-2.0 */
/* Clears blocks, by the method that is quickest for their length and for what caches hold. */
#ifndef SA_BASE_CLEAR_H
#define SA_BASE_CLEAR_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <string.h>

/* Clears a block that was in use not long ago, so that a cache may still hold it; returns p. Blocks
 * of 2 to 64 KiB take less time than with memset. */
SA_HIDDEN void *sa_clear_warm(void *p, size_t bytes);

/* Clears a block of at least SA_CLEAR_LONG bytes, which may be longer than a first-level cache. */
#define SA_CLEAR_LONG (32ul << 10)
SA_HIDDEN void sa_clear_long(void *p, size_t bytes);

/* Clears a block with calls of a function: one call for all of it, or one for each part of 16 KiB,
 * the last part first. */
typedef void sa_clear_part(void *p, size_t bytes);
SA_HIDDEN void sa_clear_in_turns(void *p, size_t bytes, sa_clear_part *clear);

SA_INLINE void sa_clear(void *p, size_t bytes)
{
    if (bytes >= SA_CLEAR_LONG)
        sa_clear_long(p, bytes);
    else
        memset(p, 0, bytes);
}

#endif
