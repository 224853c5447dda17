/* SPDX-License-Identifier: Apache-2.0 */
/* The soft and the hard limit on the footprint; see limits.h. */
#include "alloc/page_heap/account/limits.h"

#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/page.h"
#include "alloc/os/thread.h"

SA_LAYOUT_USED SA_START_DATA struct sa_limits sa_limits = {.watch = SA_WATCH_FIRST_BYTES >>
                                                                    SA_PAGE_SHIFT};

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_limits", sa_limits, active),
    SA_LAYOUT_STATE("sa_limits", sa_limits, bytes),
    SA_LAYOUT_STATE("sa_limits", sa_limits, hits),
    SA_LAYOUT_STATE("sa_limits", sa_limits, shrinks),
    SA_LAYOUT_STATE("sa_limits", sa_limits, released_bytes),
    SA_LAYOUT_STATE("sa_limits", sa_limits, soft_calls),
};
SA_LAYOUT_ADDRESS(sa_limits);

void sa_limits_set(enum sa_limit_kind kind, size_t bytes)
{
    size_t other = sa_limits_own((enum sa_limit_kind)(SA_LIMITS - 1 - kind));

    sa_store_relaxed(&sa_limits.bytes[kind], bytes);
    sa_store_relaxed(&sa_limits.bytes[SA_LIMITS - 1 - kind], other);
    if (kind == SA_LIMIT_SOFT)
        sa_store_relaxed(&sa_limits.soft_passed, false);
    /* Last, with release order: a thread that reads the bit with acquire order sees the limits. */
    sa_limits_set_active(SA_LIMITS_OWN, bytes != SA_NO_LIMIT || other != SA_NO_LIMIT);
}

size_t sa_limits_own(enum sa_limit_kind kind)
{
    return sa_load_acquire(&sa_limits.active) & SA_LIMITS_OWN
               ? sa_load_relaxed(&sa_limits.bytes[kind])
               : SA_NO_LIMIT;
}

size_t sa_limits_get(enum sa_limit_kind kind)
{
    size_t own = sa_limits_own(kind);

    if (kind == SA_LIMIT_SOFT && own == SA_NO_LIMIT &&
        sa_load_acquire(&sa_limits.active) & SA_LIMITS_GROUP)
        return sa_load_relaxed(&sa_limits.group_bytes);
    return own;
}

void sa_limits_watch_passed(void)
{
    sa_store_relaxed(&sa_limits.watch, SA_WATCH_PASSED);
    sa_store_relaxed(&sa_limits.soft_due, true);
}

/* The hard limit for a request of this thread, with what sa_limits_pass adds to it. */
static size_t hard_for_request(void)
{
    size_t hard = sa_limits_get(SA_LIMIT_HARD), more = (size_t)sa_thread.past_limit << 20;

    return hard > SA_NO_LIMIT - more ? SA_NO_LIMIT : hard + more;
}

size_t sa_limits_surplus(enum sa_limit_kind kind)
{
    size_t limit = sa_limits_get(kind), used = 0;

    if (limit != SA_NO_LIMIT)
        used = kind == SA_LIMIT_HARD ? sa_footprint_gross_bytes() : sa_footprint_bytes();
    return used > limit ? used - limit : 0;
}

void sa_limits_pass(size_t mib)
{
    sa_thread.past_limit = (uint16_t)mib;
}

bool sa_limits_hopeless(size_t bytes)
{
    size_t hard = hard_for_request();

    if (bytes <= hard)
        return false;
    sa_add_relaxed(&sa_limits.refused, 1);
    return true;
}

size_t sa_limits_lacking(size_t bytes)
{
    size_t limit = hard_for_request(), used, room;

    if (limit == SA_NO_LIMIT)
        return 0;
    used = sa_footprint_gross_bytes();
    if (used > limit)
        return used - limit + bytes;
    room = limit - used;
    return bytes > room ? bytes - room : 0;
}

bool sa_limits_have_room(size_t bytes)
{
    return sa_limits_lacking(bytes) == 0;
}

void sa_limits_rearm(size_t used)
{
    size_t soft = sa_limits_get(SA_LIMIT_SOFT);

    if (used < soft - soft / SA_SOFT_LIMIT_FRACTION && sa_load_relaxed(&sa_limits.soft_passed))
        sa_store_relaxed(&sa_limits.soft_passed, false);
}

size_t sa_limits_over(unsigned heap, size_t used_bytes, size_t grown)
{
    size_t soft = sa_limits_get(SA_LIMIT_SOFT), hard = hard_for_request(), used;

    SA_DCHECK(heap < SA_FOOTPRINT_HEAPS && grown <= used_bytes);
    sa_store_seq_cst(&sa_footprint.used[heap], used_bytes);
    used = sa_footprint_gross_bytes();
    if (used > hard && grown) {
        sa_add_relaxed(&sa_limits.refused, 1);
        return used - hard;
    }
    if (soft == SA_NO_LIMIT)
        return 0;
    used -= (size_t)sa_load_relaxed(&sa_footprint.emptied);
    sa_limits_rearm(used - grown);
    if (used > soft && grown && !sa_load_relaxed(&sa_limits.soft_due))
        sa_store_relaxed(&sa_limits.soft_due, true);
    return 0;
}

void sa_limits_stats(enum sa_limit_kind kind, struct sa_limit_stats *ret)
{
    ret->bytes = sa_limits_own(kind);
    ret->hits = sa_load_relaxed(&sa_limits.hits[kind]);
    ret->shrinks = sa_load_relaxed(&sa_limits.shrinks[kind]);
    ret->released_bytes = sa_load_relaxed(&sa_limits.released_bytes[kind]);
}
