/* SPDX-License-Identifier: Apache-2.0 */
/* The interval of a change; see change.h. */
#include "tool/diff/change.h"

#include "alloc/base/math.h"

#include <math.h>
#include <stddef.h>

/* From this mean probability on, the sample misses so few blocks that their number is coarse: the
 * ends then move by one block (doc/sampling_proofs.md, "Differences"). */
#define COARSE 0.5

/* An estimate and its interval. */
struct range {
    double value, low, high;
};

static struct range range_of(const struct sa_change *c, const struct sa_sums *sums, double error)
{
    bool empty = !sums->samples && !sums->certain;
    struct sa_unseen unseen = {.bytes = c->weight, .blocks = c->weight};
    struct salloc_estimate e;

    sa_estimate(sums,
                c->total ? c->total
                : empty  ? &unseen
                         : NULL,
                SALLOC_ESTIMATE_WEIGHTED, 1 - error, &e);
    return c->blocks ? (struct range){e.count, e.count_low, e.count_high}
                     : (struct range){e.bytes, e.bytes_low, e.bytes_high};
}

/* The mean block of samples that are likely to be taken; 0: they are not. */
static double coarse_block(const struct sa_change *c)
{
    struct sa_sums both = c->gone;
    double missed, p;

    sa_sums_merge(&both, &c->come);
    missed = both.count - (double)both.samples;
    p = !both.samples ? 0
        : c->blocks   ? missed / both.count_variance
                      : both.bytes_squares / both.bytes_variance;
    if (!(p > COARSE))
        return 0;
    return c->blocks ? 1 : both.sampled_bytes / (double)both.samples;
}

/* Of the distances of two ends from their estimates. */
static double distance(double a, double b)
{
    return isinf(a) || isinf(b) ? INFINITY : sa_sqrt(a * a + b * b);
}

void sa_change_interval(const struct sa_change *c, double error, double *ret_low, double *ret_high)
{
    struct range gone = c->none_gone ? (struct range){0, 0, 0} : range_of(c, &c->gone, error);
    struct range come = range_of(c, &c->come, error);
    double value = come.value - gone.value, more = coarse_block(c);

    *ret_low = value - distance(come.value - come.low, gone.high - gone.value) - more;
    *ret_high = value + distance(come.high - come.value, gone.value - gone.low) + more;
}

double sa_change_least_error(const struct sa_change *c)
{
    double samples = (double)(c->gone.samples + c->come.samples);

    if (c->gone.certain != c->come.certain || c->gone.certain_bytes != c->come.certain_bytes)
        return 0;
    return sa_exp((1 - samples) * sa_log(2));
}

bool sa_change_is_small(const struct sa_change *c)
{
    const struct sa_sums *gone = &c->gone, *come = &c->come;
    double change = c->blocks
                        ? come->count + (double)come->certain - gone->count - (double)gone->certain
                        : come->bytes + come->certain_bytes - gone->bytes - gone->certain_bytes;
    double variance = c->blocks ? come->count_variance + gone->count_variance
                                : come->bytes_variance + gone->bytes_variance;

    return change * change <= 2 * variance;
}
