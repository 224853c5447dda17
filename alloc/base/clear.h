/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing blocks in the way that the processor's caches like best. */
#ifndef SA_BASE_CLEAR_H
#define SA_BASE_CLEAR_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <string.h>

/* Writes zero to all of p[0 .. bytes); p. For what was in use not long ago, so that a cache may
 * still hold it: what is neither small nor large takes less time than with memset. */
SA_HIDDEN void *sa_clear_warm(void *p, size_t bytes);

/* The same for blocks of any history from this length on, which may be longer than a first-level
 * cache. */
#define SA_CLEAR_LONG (32ul << 10)
SA_HIDDEN void sa_clear_long(void *p, size_t bytes);

/* By a function that clears all of p[0 .. bytes), called for parts of many KiB, the last one first,
 * or for all. */
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
