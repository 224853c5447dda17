/* SPDX-License-Identifier: Apache-2.0 */
/* When freed blocks go back to mixed spans at once; see mixed_returns.h. */
#include "alloc/middle/mixed_returns.h"

#include "alloc/base/bits.h"
#include "alloc/middle/mixed_internal.h"
#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/peak.h"

/* Growth counts in steps of 1/STEP_FRACTION of what is in use, and at least STEP_MIN. For each byte
 * of it, GROWTH_TIMES bytes may go back. */
#define STEP_FRACTION 16
#define STEP_MIN      (2ul << 20)
#define GROWTH_TIMES  12

/* No more may go back than this, nor than GROWTH_TIMES what is in use: the program may have needed
 * mixed spans in another time. */
#define LEFT_MOST (1ul << 30)

/* After each RENEW_NS, as many bytes may go back as are in use, and at most RENEW_MOST. */
#define RENEW_NS   600000000000ull
#define RENEW_MOST (256ul << 20)

/* A tick takes 1/TICK_FRACTION of what is in use, and at least TICK_MIN, so that it ends also if
 * few blocks can go back. It takes all if none did since the tick before. */
#define TICK_FRACTION 4
#define TICK_MIN      (1ul << 20)

/* Where many threads want the lock, all would wait for it. It ends if more than REFUSED_TIMES *
 * LOCK_BLOCKS blocks could not go back while LOCK_BLOCKS did. */
#define LOCK_BLOCKS   256
#define REFUSED_TIMES 2

bool sa_mixed_returns;

static struct {
    size_t most SA_GUARDED_BY(SA_RANK_MIXED);       /* bytes of mixed spans; grows in steps */
    size_t left SA_GUARDED_BY(SA_RANK_MIXED);       /* bytes that may still go back */
    uint64_t renew_ns SA_GUARDED_BY(SA_RANK_MIXED); /* when they are renewed; 0: not known yet */
    size_t kept SA_GUARDED_BY(SA_RANK_MIXED);       /* what the last tick left */
    unsigned blocks SA_GUARDED_BY(SA_RANK_MIXED);   /* that went back since `refused` was 0 */
    unsigned refused;                               /* that could not; atomic, relaxed */
} returns;

/* Lets so many bytes go back; 0: none. */
static void returns_set(size_t left) SA_REQUIRES(SA_RANK_MIXED)
{
    returns.left = left;
    if (sa_load_relaxed(&sa_mixed_returns) != (left != 0))
        sa_store_relaxed(&sa_mixed_returns, left != 0);
}

void sa_mixed_returns_grown(void)
{
    size_t bytes = sa_mixed_state.stats.bytes, growth = bytes - returns.most;

    if (SA_LIKELY(bytes <= returns.most + sa_max(STEP_MIN, sa_in_use_bytes() / STEP_FRACTION)))
        return;
    returns.most = bytes;
    returns_set(sa_min(LEFT_MOST, returns.left + GROWTH_TIMES * growth));
}

void sa_mixed_returns_refused(void)
{
    sa_add_relaxed(&returns.refused, 1);
}

void sa_mixed_returns_count(size_t bytes)
{
    size_t left = returns.left - sa_min(returns.left, bytes);

    if (++returns.blocks == LOCK_BLOCKS) {
        if (sa_load_relaxed(&returns.refused) > REFUSED_TIMES * LOCK_BLOCKS)
            left = 0;
        returns.blocks = 0;
        sa_store_relaxed(&returns.refused, 0);
    }
    returns_set(left);
}

/* What a tick leaves. */
static size_t returns_left(uint64_t now) SA_REQUIRES(SA_RANK_MIXED)
{
    size_t used = sa_in_use_bytes(), left = sa_min(returns.left, GROWTH_TIMES * used);

    if (now >= sa_load_relaxed(&sa_page_heap_lean_ns) || left == returns.kept)
        left = 0;
    left -= sa_min(left, sa_max(TICK_MIN, used / TICK_FRACTION));
    if (now < returns.renew_ns)
        return left;
    if (returns.renew_ns && now < sa_load_relaxed(&sa_page_heap_lean_ns))
        left = sa_max(left, sa_min(RENEW_MOST, used));
    returns.renew_ns = now + RENEW_NS;
    return left;
}

SA_RARE void sa_mixed_returns_tick(uint64_t now)
{
    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    returns.kept = returns_left(now);
    returns_set(returns.kept);
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
}
