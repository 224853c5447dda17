/* SPDX-License-Identifier: Apache-2.0 */
/* The release rate; see release_rate.h. Few programs use it. */
#include "alloc/maintain/release_rate.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/page_heap/page_heap.h"

/* The longest time for which the rate makes memory due at once. */
#define DUE_MAX_NS 10000000000ull

static struct {
    size_t bytes;      /* atomic, relaxed: of a second */
    uint64_t released; /* atomic, relaxed; written by passes: bytes */
    /* When the rate was last applied, its value then, and the bytes that are due since. Negative:
     * more was released than was due. */
    uint64_t applied_ns SA_GUARDED_BY(SA_RANK_MAINTAIN);
    size_t applied SA_GUARDED_BY(SA_RANK_MAINTAIN);
    double due SA_GUARDED_BY(SA_RANK_MAINTAIN);
} rate;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("release_rate", rate, bytes),
    SA_LAYOUT_STATE("release_rate", rate, released),
};
SA_LAYOUT_STATIC_ADDRESS("release_rate", rate);

/* Releases at least `bytes`, if that much is free, the ordinary heap's first. Returns the bytes
 * released. */
SA_RARE static size_t rate_release(size_t bytes)
{
    size_t given = sa_page_heap_release(&sa_page_heap_ordinary, bytes);

    return given < bytes ? given + sa_page_heap_release(&sa_page_heap_sampled, bytes - given)
                         : given;
}

SA_RARE SA_NOINLINE static void rate_release_due(uint64_t elapsed) SA_REQUIRES(SA_RANK_MAINTAIN)
{
    size_t due, given;

    rate.due += (double)rate.applied * ((double)elapsed * 1e-9);
    if (rate.due < (double)SA_PAGE_BYTES)
        return;
    due = rate.due < (double)PTRDIFF_MAX ? (size_t)rate.due : PTRDIFF_MAX;
    given = rate_release(due);
    rate.due = given < due ? 0 : rate.due - (double)given;
    SA_DCHECK(rate.due < (double)PTRDIFF_MAX || given == due);
    sa_add_relaxed(&rate.released, given);
}

void sa_release_rate_apply(uint64_t now)
{
    size_t bytes = sa_load_relaxed(&rate.bytes);
    uint64_t elapsed = sa_min(now - rate.applied_ns, DUE_MAX_NS);

    rate.applied_ns = now;
    if (SA_UNLIKELY(bytes != rate.applied)) { /* a new rate counts from now on */
        rate.applied = bytes;
        rate.due = 0;
    } else if (SA_UNLIKELY(bytes)) {
        rate_release_due(elapsed);
    }
}

SA_RARE void sa_release_rate_set(size_t bytes)
{
    sa_store_relaxed(&rate.bytes, bytes);
}

SA_RARE size_t sa_release_rate_get(void)
{
    return sa_load_relaxed(&rate.bytes);
}

SA_RARE uint64_t sa_release_rate_bytes(void)
{
    return sa_load_relaxed(&rate.released);
}
