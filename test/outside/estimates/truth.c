/* SPDX-License-Identifier: Apache-2.0 */
/* Truth and estimates; see truth.h. */
#include "test/outside/estimates/truth.h"

#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <math.h>

#define STACKS_MAX 20000
/* Of both, or the distribution is too skewed: 5 deviations have a chance of up to 6 in a
 * million. */
#define SAMPLES_MIN 20

static void add(struct amount *to, const struct truth_block *b, double sign)
{
    double a = (double)b->usable, t = b->interval, p = t > 1 ? -expm1(a * log1p(-1 / t)) : 1;
    double variance[ESTIMATORS] = {0};

    to->value[BLOCKS] += sign;
    to->value[BYTES] += sign * a;
    if (p > 0.99)
        return;
    variance[SALLOC_ESTIMATE_WEIGHTED] = a * a * (1 - p) / p;
    variance[SALLOC_ESTIMATE_OFFSET] = p * t * (t - 1);
    variance[SALLOC_ESTIMATE_POISSON] = a * (t - 1);
    variance[SALLOC_ESTIMATE_FAILED] = variance[SALLOC_ESTIMATE_OFFSET];
    for (int e = 0; e < ESTIMATORS; e++) {
        to->variance[e][BLOCKS] += sign * variance[e] / (a * a);
        to->variance[e][BYTES] += sign * variance[e];
    }
    to->samples += sign * p;
    to->misses += sign * (1 - p);
}

void truth_add(struct truth *truth, struct truth_block *b, unsigned site, void *p, size_t asked,
               double interval)
{
    size_t usable = malloc_usable_size(p);

    /* A guarded block is as long as was asked for, and stands for such as are not. */
    if (usable == asked)
        usable = salloc_get_estimated_allocated_size(asked);
    *b = (struct truth_block){p, interval, usable, site};
    if (interval <= 0)
        return;
    add(&truth->site[site][LIVE], b, 1);
    add(&truth->site[site][EVER], b, 1);
}

void truth_remove(struct truth *truth, const struct truth_block *b)
{
    if (b->interval > 0)
        add(&truth->site[b->site][LIVE], b, -1);
}

/* Different stacks of a profile. */
struct stacks {
    const void *const *pc[STACKS_MAX];
    size_t depth[STACKS_MAX], count;
};

static int collect(const struct salloc_profile_sample *sample, void *arg)
{
    struct stacks *s = arg;

    for (size_t i = 0; i < s->count; i++)
        if (s->pc[i] == sample->stack)
            return 0;
    REQUIRE(s->count < STACKS_MAX);
    s->pc[s->count] = sample->stack;
    s->depth[s->count++] = sample->depth;
    return 0;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

/* Sums of one estimator by site; the last is of everything else. */
static void estimate_sites(const salloc_profile *profile, const struct stacks *stacks,
                           int estimator, double sum[SITES + 1][UNITS])
{
    struct salloc_estimate e;
    double all[UNITS] = {0, 0};

    memset(sum, 0, (SITES + 1) * sizeof(sum[0]));
    for (size_t i = 0; i < stacks->count; i++) {
        unsigned site = stacks->depth[i] ? site_of(stacks->pc[i][0]) : SITES;

        REQUIRE(salloc_profile_estimate(profile, stacks->pc[i], stacks->depth[i],
                                        (enum salloc_estimator)estimator, 0.95, &e) == 0);
        CHECK_SAYS(e.count_low <= e.count && e.count <= e.count_high && e.bytes_low <= e.bytes &&
                       e.bytes <= e.bytes_high,
                   "estimator %d: %g in %g .. %g, %g in %g .. %g", estimator, e.count, e.count_low,
                   e.count_high, e.bytes, e.bytes_low, e.bytes_high);
        sum[site][BLOCKS] += e.count;
        sum[site][BYTES] += e.bytes;
        all[BLOCKS] += e.count;
        all[BYTES] += e.bytes;
    }
    REQUIRE(salloc_profile_estimate(profile, NULL, 0, (enum salloc_estimator)estimator, 0.95, &e) ==
            0);
    CHECK_SAYS(near(e.count, all[BLOCKS]) && near(e.bytes, all[BYTES]),
               "the total is %.3f, %.0f, the sum %.3f, %.0f", e.count, e.bytes, all[BLOCKS],
               all[BYTES]);
}

static void compare(const struct truth *truth, int span, int estimator,
                    const double sum[SITES + 1][UNITS], struct truth_z *ret)
{
    double error[UNITS] = {0, 0}, variance[UNITS] = {0, 0};

    ret->sites[span] = 0;
    for (unsigned site = 0; site < SITES; site++) {
        const struct amount *a = &truth->site[site][span];
        bool certain = a->samples < 1e-9;
        bool many = a->samples >= SAMPLES_MIN && a->misses >= SAMPLES_MIN;

        ret->sites[span] += many;
        for (int unit = 0; unit < UNITS; unit++) {
            double off = sum[site][unit] - a->value[unit], v = a->variance[estimator][unit], z;

            error[unit] += off;
            variance[unit] += certain ? 0 : v;
            if (certain)
                CHECK_SAYS(near(sum[site][unit], a->value[unit]),
                           "site %u, span %d, estimator %d, unit %d: %.3f, is %.3f", site, span,
                           estimator, unit, sum[site][unit], a->value[unit]);
            if (!many)
                continue;
            z = off / sqrt(v);
            if (fabs(z) > fabs(ret->worst[span][estimator][unit]))
                ret->worst[span][estimator][unit] = z;
        }
    }
    for (int unit = 0; unit < UNITS; unit++)
        if (variance[unit] > 0)
            ret->total[span][estimator][unit] = error[unit] / sqrt(variance[unit]);
}

void truth_compare(const struct truth *truth, struct truth_z *ret)
{
    static const enum salloc_profile_type type[SPANS] = {SALLOC_PROFILE_HEAP,
                                                         SALLOC_PROFILE_ALLOCATIONS};
    static struct stacks stacks;
    static double sum[SITES + 1][UNITS];

    memset(ret, 0, sizeof(*ret));
    for (int span = 0; span < SPANS; span++) {
        salloc_profile *profile = salloc_snapshot_profile(type[span]);

        REQUIRE(profile != NULL);
        stacks.count = 0;
        REQUIRE(salloc_profile_iterate(profile, collect, &stacks) == 0);
        for (int e = 0; e < ESTIMATORS; e++) {
            estimate_sites(profile, &stacks, e, sum);
            compare(truth, span, e, (const double(*)[UNITS])sum, ret);
        }
        salloc_profile_free(profile);
    }
}
