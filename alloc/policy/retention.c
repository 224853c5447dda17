/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for free memory; see retention.h. Not part of the library yet: the judge of rules
 * (perf/retention) and unit tests link it. */
#include "alloc/policy/retention.h"

#include "alloc/base/bits.h"

#include <string.h>

uint64_t sa_retention_tau_ns(uint64_t price_ns, uint64_t hold_ns)
{
    return sa_max(price_ns * 1000000000ull / hold_ns, SA_TAU_MIN_NS);
}

void sa_retention_note(struct sa_retention *w, uint64_t now_ns, size_t used)
{
    uint64_t slot = now_ns / (w->tau_ns / SA_RETENTION_SLOTS) + 1;
    uint64_t first = sa_max(w->slot + 1, slot - sa_min(slot, SA_RETENTION_SLOTS - 1));

    /* Before this note, use was the last one noted or less: a slot without a note has none. */
    for (uint64_t i = first; i <= slot; i++)
        w->max[i % SA_RETENTION_SLOTS] = 0;
    w->slot = sa_max(w->slot, slot);
    w->max[w->slot % SA_RETENTION_SLOTS] = sa_max(w->max[w->slot % SA_RETENTION_SLOTS], used);
}

size_t sa_retention_max(const struct sa_retention *w, size_t used)
{
    size_t max = used;

    for (unsigned i = 0; i < SA_RETENTION_SLOTS; i++)
        max = sa_max(max, w->max[i]);
    return max;
}

size_t sa_retention_slack(size_t used)
{
    return SA_SLACK_PAGES + used / SA_SLACK_FRACTION;
}

size_t sa_retention_target(const struct sa_retention *w, size_t used)
{
    return sa_retention_max(w, used) + sa_retention_slack(used);
}

size_t sa_retention_fraction(const struct sa_retention *w, size_t used)
{
    /* By age in slots, in 1/65536: (e^((i + 1) / 16) - e^(i / 16)) / (e - 1). The part of levels
     * that is released when they have that age. */
    static const uint32_t part[SA_RETENTION_SLOTS] = {2460, 2618, 2787, 2967, 3159, 3362,
                                                      3579, 3810, 4056, 4317, 4596, 4892,
                                                      5207, 5543, 5901, 6281};
    size_t max = used;
    uint64_t sum = 0;

    for (unsigned i = 0; i < SA_RETENTION_SLOTS; i++) {
        if (w->slot > i)
            max = sa_max(max, w->max[(w->slot - i) % SA_RETENTION_SLOTS]);
        sum += (uint64_t)(max - used) * part[i];
    }
    return used + (size_t)(sum >> 16) + sa_retention_slack(used);
}

struct sa_retention_due sa_retention_due(const struct sa_retention *whole,
                                         const struct sa_retention *inside,
                                         const struct sa_retention_sums *sums)
{
    size_t slack = sa_retention_slack(sums->used), left = slack - sa_min(slack, sums->inside);
    size_t keep_whole = sa_retention_max(whole, sums->used_whole) - sums->used_whole + left;
    size_t keep_inside = sa_retention_max(inside, sums->used) - sums->used + slack;

    return (struct sa_retention_due){.whole = sums->whole - sa_min(sums->whole, keep_whole),
                                     .inside = sums->inside - sa_min(sums->inside, keep_inside)};
}

size_t sa_retention_once_due(const struct sa_retention_once *o,
                             const struct sa_retention_sums *sums, uint64_t cpu_ns)
{
    size_t keep = sa_retention_slack(sums->used) + SA_ONCE_PAGES;
    size_t backed = sums->whole + sums->inside;

    if (o->refaulted > SA_ONCE_REFAULTS && o->cost_ns > cpu_ns / SA_ONCE_FRACTION)
        return 0;
    return sa_min(backed - sa_min(backed, keep), sums->whole);
}

void sa_retention_once_released(struct sa_retention_once *o, size_t pages)
{
    o->released += pages;
    o->counted = false;
}

void sa_retention_once_refaulted(struct sa_retention_once *o, size_t pages, uint64_t price_ns)
{
    size_t again = sa_min(pages, o->released);

    if (!again)
        return;
    o->released -= again;
    o->cost_ns += again * price_ns;
    o->refaulted += !o->counted;
    o->counted = true;
}
