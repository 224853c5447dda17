/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes p = c size sqrt(live / allocations), clamped to min_share p_default .. 1. The expected
 * number of samples grows with c. Bisection finds the c that spends the samples of the defaults.
 */
#include "sampling/estimate/rate_optimizer.h"

#include "alloc/base/fatal.h"
#include "alloc/base/math.h"

/* Returns p / c, before clamping. */
static double weight(const struct sa_rate_optimizer_class *class)
{
    return class->size * sa_sqrt(class->live / class->allocations);
}

static double rate(const struct sa_rate_optimizer_class *class, double c, double min_share)
{
    double p, min = min_share * class->p_default;

    if (!(class->allocations > 0))
        return class->p_default;
    p = c * weight(class);
    return p < min ? min : p > 1 ? 1 : p;
}

static double expected_samples(const struct sa_rate_optimizer_class *classes, size_t count,
                               double c, double min_share)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        if (classes[i].allocations > 0)
            sum += classes[i].allocations * rate(&classes[i], c, min_share);
    return sum;
}

static double variance(const struct sa_rate_optimizer_class *class, double p)
{
    return class->live > 0 && p > 0 ? class->size * class->size * class->live * (1 - p) / p : 0;
}

double sa_rate_optimizer_rates(struct sa_rate_optimizer_class *classes, size_t count,
                               double min_share)
{
    double budget = 0, before = 0, after = 0, low = 0, high = 0;

    SA_DCHECK(min_share > 0 && min_share <= 1);
    for (size_t i = 0; i < count; i++) {
        struct sa_rate_optimizer_class *class = &classes[i];

        class->p = class->p_default;
        if (!(class->allocations > 0))
            continue;
        budget += class->allocations * class->p_default;
        if (class->live > 0 && class->p_default > 0) {
            /* With this c, or a larger one, the class has p = 1. */
            double full = 1 / weight(class);

            high = full > high ? full : high;
        }
    }
    if (!(high > 0) || !(budget > 0))
        return 1;

    if (expected_samples(classes, count, high, min_share) <= budget) {
        /* Every class with live blocks is certain, and samples are left over. */
        low = high;
    } else {
        for (int i = 0; i < 200 && high - low > 1e-14 * high; i++) {
            double c = (low + high) / 2;

            if (expected_samples(classes, count, c, min_share) <= budget)
                low = c;
            else
                high = c;
        }
    }
    for (size_t i = 0; i < count; i++) {
        classes[i].p = rate(&classes[i], low, min_share);
        SA_DCHECK(classes[i].p >= min_share * classes[i].p_default && classes[i].p <= 1);
        before += variance(&classes[i], classes[i].p_default);
        after += variance(&classes[i], classes[i].p);
    }
    if (after > 0)
        return before / after;
    return before > 0 ? __builtin_inf() : 1;
}
