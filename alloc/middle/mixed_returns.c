/* SPDX-License-Identifier: Apache-2.0 */
/* When freed blocks go back to mixed spans at once; see mixed_returns.h. */
#include "alloc/middle/mixed_returns.h"

#include "alloc/base/bits.h"
#include "alloc/hot/hot.h"
#include "alloc/page_heap/account/peak.h"

/* A rise counts if it is 1/GROWTH_FRACTION of what is in use, and this much. */
#define GROWTH_FRACTION 16
#define GROWTH_MIN      (2ul << 20)

/* After a rise, this many times what is in use may go back. */
#define RETURN_TIMES 4

bool sa_mixed_returns;

static struct {
    size_t mark SA_GUARDED_BY(SA_RANK_MIXED); /* above this, a rise counts */
    size_t left SA_GUARDED_BY(SA_RANK_MIXED); /* bytes that may still go back */
} returns;

static size_t returns_in_use(void)
{
    return (size_t)sa_max(sa_load_relaxed(&sa_in_use.bytes), 0);
}

static size_t returns_growth(void)
{
    return sa_max(GROWTH_MIN, returns_in_use() / GROWTH_FRACTION);
}

/* Start-up opens the limit of delete without this lock, so the limit is written each time. */
void sa_mixed_returns_rise(size_t used)
{
    if (used <= returns.mark)
        return;
    returns.mark = used + returns_growth();
    returns.left = RETURN_TIMES * returns_in_use();
    sa_store_relaxed(&sa_mixed_returns, true);
    sa_store_relaxed(&sa_hot.cxx_sized_mid_limit, 0);
}

void sa_mixed_returns_fall(size_t used)
{
    if (returns.mark > used + GROWTH_MIN)
        returns.mark = sa_min(returns.mark, used + returns_growth());
}

void sa_mixed_returns_count(size_t bytes)
{
    returns.left -= sa_min(returns.left, bytes);
    if (!returns.left)
        sa_mixed_returns_end();
}

void sa_mixed_returns_end(void)
{
    sa_store_relaxed(&sa_mixed_returns, false);
    sa_store_relaxed(&sa_hot.cxx_sized_mid_limit, sa_load_relaxed(&sa_hot.cxx_mid_limit));
}
