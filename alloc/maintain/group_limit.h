/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the memory limit of the process's control group, by default (doc/tuning.md). Far below
 * the limit nothing changes. Near the limit a soft limit applies (limits.h, soft_limit.h), which
 * moves with the memory that the group has left.
 *
 * No file is read before the footprint has reached SA_WATCH_FIRST_BYTES (16 MiB), so that small
 * programs do not pay. Behind a filter of system calls (filter.h) no file is read. If no group has
 * a file with a limit, the search is not repeated.
 */
#ifndef SA_MAINTAIN_GROUP_LIMIT_H
#define SA_MAINTAIN_GROUP_LIMIT_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For tests: sets a folder that comes before every path. */
void sa_group_limit_set_root(const char *root);

/* Whether the time of the next look has come. A time of 0 means never: less 1, it is the largest
 * number. Any thread, without a lock. */
SA_INLINE bool sa_group_limit_is_due(uint64_t now_ns)
{
    return now_ns >= sa_load_relaxed(&sa_limits.look_ns) - 1;
}

/* Reads the group's state if that is due, and moves the soft limit. Takes 5 KiB of stack. */
void sa_group_limit_look(uint64_t now_ns) SA_REQUIRES(SA_RANK_LIMIT);

struct sa_group_limit_stats {
    size_t limit_bytes; /* of the group, at the last look; 0: none is known */
    size_t room_bytes;  /* bytes that the group could still take at the last look */
    size_t soft_bytes;  /* the soft limit that applies because of it; 0: the group's limit is far
                           away */
    uint64_t looks;     /* since the start */
};

/* The state at the last look. Any thread; the numbers may be of two different looks. */
void sa_group_limit_stats(struct sa_group_limit_stats *ret);

#endif
