/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group's limit, followed by default (doc/tuning.md). While much is left below the
 * limit, nothing is different. Near the limit there is a soft limit (limits.h, soft_limit.h), which
 * moves with what the group has left.
 *
 * Nothing is read before the footprint has reached SA_WATCH_FIRST_BYTES, so that small programs do
 * not pay; behind a filter (filter.h) nothing is read at all; and where no group has a file that
 * tells a limit, nothing is read again.
 */
#ifndef SA_MAINTAIN_GROUP_LIMIT_H
#define SA_MAINTAIN_GROUP_LIMIT_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For tests: a folder before every path. */
void sa_group_limit_set_root(const char *root);

/* Whether time makes a look due. */
SA_INLINE bool sa_group_limit_is_due(uint64_t now_ns)
{
    return now_ns >= sa_load_relaxed(&sa_limits.look_ns) - 1; /* 0 is never reached */
}

/* Looks at the group if that is due, and moves the soft limit. 5 KiB of stack. */
void sa_group_limit_look(uint64_t now_ns) SA_REQUIRES(SA_RANK_LIMIT);

struct sa_group_limit_stats {
    size_t limit_bytes; /* 0: none is known */
    size_t room_bytes;  /* what the group had left at the last look */
    size_t soft_bytes;  /* the soft limit that follows from it; 0: none, as it is far away */
    uint64_t looks;
};

void sa_group_limit_stats(struct sa_group_limit_stats *ret);

#endif
