/* SPDX-License-Identifier: Apache-2.0 */
/* The peak of used memory; see peak.h. */
#include "alloc/page_heap/account/peak.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/base/page.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"

SA_LAYOUT_USED struct sa_peak sa_peak;
SA_LAYOUT_USED SA_START_DATA struct sa_in_use sa_in_use;

/* When the caches of several CPUs are counted again. Atomic, relaxed; an update may be lost. */
static struct {
    uint64_t until_ns; /* of the coarse clock */
    int64_t bytes;     /* sa_in_use.bytes from which no count waits */
} in_use_pause;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_peak", sa_peak, estimate_bytes),
    SA_LAYOUT_STATE("sa_peak", sa_peak, at_peak),
};
SA_LAYOUT_ADDRESS(sa_peak);

/* Rings the bell, unless another thread does. */
static SA_RARE void in_use_ring(int64_t alarm)
{
    uint32_t *bell;

    if (!sa_cas_acquire(&sa_in_use.alarm, &alarm, 0))
        return;
    bell = sa_load_relaxed(&sa_in_use.bell);
    sa_add_seq_cst(bell, 1);
    sa_sys_futex_wake(bell, 1);
}

SA_RARE void sa_in_use_watch(size_t more, uint32_t *bell)
{
    int64_t alarm;

    sa_store_relaxed(&sa_in_use.bell, bell);
    if (__builtin_add_overflow(sa_load_relaxed(&sa_in_use.peak), (int64_t)more, &alarm))
        alarm = INT64_MAX;
    sa_store_release(&sa_in_use.alarm, alarm);
}

SA_RARE bool sa_in_use_has_grown(void)
{
    return !sa_load_acquire(&sa_in_use.alarm);
}

void sa_in_use_note(int64_t bytes, int caches)
{
    int64_t peak = sa_load_relaxed(&sa_in_use.peak), part, more, high, alarm;

    while (bytes > peak)
        if (sa_cas_relaxed(&sa_in_use.peak, &peak, bytes)) {
            sa_thread.caller_kind |= SA_CALLER_RAISED;
            peak = bytes;
        }
    alarm = sa_load_relaxed(&sa_in_use.alarm);
    if (SA_UNLIKELY(alarm && peak >= alarm))
        in_use_ring(alarm);
    part = peak / SA_IN_USE_FRACTION;
    more = (int64_t)sa_max((size_t)part, SA_IN_USE_MIN * (size_t)caches);
    sa_store_relaxed(&sa_in_use.next, sa_load_relaxed(&sa_in_use.given) + more);
    high = sa_load_relaxed(&sa_in_use.bytes) +
           sa_max(part, SA_IN_USE_MIN * sa_max(caches / SA_IN_USE_GROWN, 1));
    if (high > sa_load_relaxed(&sa_in_use.high))
        sa_store_relaxed(&sa_in_use.high, high);
    if (caches <= SA_IN_USE_FREE)
        return;
    sa_store_relaxed(&in_use_pause.bytes, sa_load_relaxed(&sa_in_use.bytes) + more);
    sa_store_relaxed(&in_use_pause.until_ns,
                     sa_clock_coarse_ns() + SA_IN_USE_PAUSE * (uint64_t)caches);
    sa_store_relaxed(&sa_in_use.waiting, 1);
}

SA_RARE bool sa_in_use_is_to_wait(void)
{
    uint64_t until = sa_load_relaxed(&in_use_pause.until_ns);
    int64_t bytes = sa_load_relaxed(&sa_in_use.bytes);

    if (bytes >= sa_load_relaxed(&in_use_pause.bytes) || bytes >= sa_load_relaxed(&sa_in_use.high))
        return false;
    /* A child in another time namespace may have a clock that is far behind. */
    return until - sa_clock_coarse_ns() - 1 < SA_IN_USE_PAUSE_MAX;
}

SA_COLD void sa_in_use_restart(void)
{
    sa_store_relaxed(&sa_in_use.peak, 0);
    sa_store_relaxed(&sa_in_use.next, 0);
    sa_store_relaxed(&sa_in_use.high, 0);
    sa_store_relaxed(&sa_in_use.waiting, 0);
}

void sa_peak_note(unsigned heap, size_t used_bytes, size_t more_bytes)
{
    uint64_t used, estimate, peak;

    sa_footprint_note(heap, used_bytes);
    used = sa_footprint_bytes() >> SA_PAGE_SHIFT;
    if (SA_UNLIKELY(used >= sa_load_relaxed(&sa_limits.watch) - 1)) /* watch = 0 wraps around and
                                                                     * is never reached */
        sa_limits_watch_passed();
    peak = sa_load_relaxed(&sa_peak.at_peak);
    if (used <= peak >> 32)
        return;
    /* Without a sample the estimate is unknown and stays 0. */
    estimate = sa_load_relaxed(&sa_peak.estimate_bytes);
    if (estimate)
        estimate = sa_min((estimate + more_bytes) >> SA_PAGE_SHIFT, UINT32_MAX);
    while (used > peak >> 32 &&
           !sa_cas_relaxed(&sa_peak.at_peak, &peak, sa_min(used, UINT32_MAX) << 32 | estimate))
        ;
}

SA_RARE void sa_peak_stats(struct sa_peak_stats *ret)
{
    uint64_t peak = sa_load_relaxed(&sa_peak.at_peak);

    ret->used_bytes = (peak >> 32) << SA_PAGE_SHIFT;
    ret->estimate_bytes = (peak & UINT32_MAX) << SA_PAGE_SHIFT;
}
