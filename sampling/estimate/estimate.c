/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds samples up to the sums that estimates need (estimate.h). interval.c computes the estimates
 * from the sums. The two are apart because programs add samples far more often than they ask.
 */
#include "sampling/estimate/estimate.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"

void sa_sums_add(struct sa_sums *sums, const struct sa_group *group)
{
    double n = (double)group->samples, a = group->allocated;
    double t = group->interval, w = 1 / group->p, missed = w - 1;

    SA_DCHECK(group->p > 0);
    if (group->p >= 1 || t <= 1) {
        sums->certain += group->samples;
        sums->certain_bytes += n * a;
        return;
    }
    sums->samples += group->samples;
    sums->count += n * w;
    sums->bytes += n * (a * w);
    sums->sampled_bytes += n * a;
    sums->count_variance += n * (missed * w);
    sums->bytes_variance += n * (a * a * missed * w);
    sums->bytes_squares += n * (a * a * missed);
    sums->offset_count += (n * (t + a) - group->offsets) / a;
    sums->offset_bytes += n * (t + a) - group->offsets;
    sums->hits_count += t * group->hits / a;
    sums->hits_bytes += t * group->hits;
    sums->failures += n * (t - 1);
    sums->failures_variance += n * (t * (t - 1));
    sums->offset_count_variance += n * (t * (t - 1) / (a * a));
}

SA_RARE void sa_sums_merge(struct sa_sums *into, const struct sa_sums *from)
{
    into->samples += from->samples;
    into->certain += from->certain;
    into->certain_bytes += from->certain_bytes;
    into->count += from->count;
    into->bytes += from->bytes;
    into->sampled_bytes += from->sampled_bytes;
    into->count_variance += from->count_variance;
    into->bytes_variance += from->bytes_variance;
    into->bytes_squares += from->bytes_squares;
    into->offset_count += from->offset_count;
    into->offset_bytes += from->offset_bytes;
    into->hits_count += from->hits_count;
    into->hits_bytes += from->hits_bytes;
    into->failures += from->failures;
    into->failures_variance += from->failures_variance;
    into->offset_count_variance += from->offset_count_variance;
}
