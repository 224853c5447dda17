/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded allocations: samples between pages that may not be touched. This library guards none, so all counts
 * are zero; reports take them from here.
 */
#ifndef SA_SAMPLING_GUARDED_H
#define SA_SAMPLING_GUARDED_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

struct sa_guarded_stats {
    uint64_t succeeded, failed;     /* allocations that were to be guarded */
    size_t allocated, quarantined;  /* slots now */
    size_t most_allocated, allowed; /* slots at any time, and at most */
};

SA_INLINE void sa_guarded_stats(struct sa_guarded_stats *ret)
{
    *ret = (struct sa_guarded_stats){0};
}

#endif
