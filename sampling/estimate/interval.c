/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes estimates and their confidence intervals (estimate.h). An estimate is a sum.
 *
 * For the interval, the estimate is split into a known part, the sampled blocks, and an unsampled
 * part. The unsampled part is modelled as a multiple of the failures of a negative binomial
 * distribution with the same mean and variance. For blocks of one size the model is exact: the
 * unsampled blocks have that distribution. doc/sampling_proofs.md has the derivation.
 */
#include "sampling/estimate/estimate.h"

#include "alloc/base/fatal.h"
#include "alloc/base/math.h"
#include "sampling/estimate/negative_binomial.h"

#include <math.h>
#include <stdbool.h>

/* From this many effective samples on, the normal distribution serves: the skewness of the sum is
 * negligible. */
#define MANY_SAMPLES 1e5

/* A sample with a larger weight gives no upper end. */
#define WEIGHT_MAX 1e18

/*
 * Share of the error that the lower end may use while the upper end cannot be wrong. The upper end
 * cannot be wrong while even one sample would put it above the truth. The share is less than 1
 * because the number of samples is discrete. With 7/8, the coverage at 95 % is between 93 and 98.2
 * % for p up to 1/2 and any expectation of at least one sample. doc/sampling.md, "How often they
 * are right", lists the numbers for which no interval can reach that.
 */
#define LOW_SHARE (7.0 / 8)

/* An estimate of blocks or bytes in two parts: the known part, and the estimated mean and variance
 * of the unsampled part. p: mean probability with which the blocks were sampled. */
struct quantity {
    double known, mean, variance, p;
};

/* The negative binomial distribution that models an unsampled part: scale F, where F is the number
 * of failures before success number s, and each success has probability p. log_q: log(1-p). */
struct fit {
    double p, log_q, s, scale;
};

/* The condition function(f) = target on a number of failures f. The function grows with f. */
struct condition {
    double (*function)(const struct fit *fit, double s, double f, double *ret_slope);
    double s, target;
};

/* Returns the f >= 0 that meets the condition, or 0 if f = 0 is too large already. */
static double solve(const struct fit *fit, const struct condition *condition)
{
    double s = condition->s, slope, low = 0, high = -1;
    double f = s * (1 - fit->p) / fit->p;

    if ((s < 4 || fit->p > 0.01) && condition->function(fit, s, 0, &slope) >= condition->target)
        return 0;
    for (int i = 0; i < 200; i++) {
        double error = condition->function(fit, s, f, &slope) - condition->target;

        if (error < 0)
            low = f;
        else
            high = f;

        /* A step of Newton's method if it stays inside the bracket, and bisection otherwise. */
        double next = f - error / slope;

        if (!(next > low && (high < 0 ? next < 4 * f + 4 : next < high)))
            next = high < 0 ? 2 * f + 1 : (low + high) / 2;

        double step = next - f;

        f = next;
        if (step < 1e-8 * (f + 1) && -step < 1e-8 * (f + 1))
            break;
    }
    return f;
}

/* Returns approximately d/df P(F <= f). An error costs steps of solve, but no accuracy. */
static double density(double s, double f, double point)
{
    double slope = point * s / (s + f);

    return slope > 1e-300 ? slope : 1e-300;
}

/*
 * The four functions below return the probability of at least s samples among s + f blocks, P(S >=
 * s) = P(F_s <= f). "if_any": given at least one sample. "middle": P(S = s) counts half (mid-P).
 */
static double at_least_middle(const struct fit *fit, double s, double f, double *ret_slope)
{
    double point = sa_binomial_point(s, s + f, fit->p);

    *ret_slope = density(s, f, point);
    return sa_negative_binomial_at(f, s, fit->p, point) - point / 2;
}

static double at_least_middle_if_any(const struct fit *fit, double s, double f, double *ret_slope)
{
    double any = -sa_expm1((s + f) * fit->log_q);
    double chance = at_least_middle(fit, s, f, ret_slope) / any;

    *ret_slope /= any;
    return chance;
}

static double at_least_if_any(const struct fit *fit, double s, double f, double *ret_slope)
{
    double point = sa_binomial_point(s, s + f, fit->p);
    double any = -sa_expm1((s + f) * fit->log_q);

    *ret_slope = density(s, f, point) / any;
    return sa_negative_binomial_at(f, s, fit->p, point) / any;
}

static double at_least(const struct fit *fit, double s, double f, double *ret_slope)
{
    double point = sa_binomial_point(s, s + f, fit->p);

    *ret_slope = density(s, f, point);
    return sa_negative_binomial_at(f, s, fit->p, point);
}

/*
 * Returns the lower end in blocks (failures and s successes): the smallest number that yields s
 * samples with more than the allowed error. doc/sampling_proofs.md has the three cases.
 */
static double lower_end(const struct fit *fit, double s, double error)
{
    double middle = s + solve(fit, &(struct condition){at_least_middle, s, error / 2});

    if (s > 50)
        return middle; /* the upper end of one sample is lower */

    double max_of_one = 2 + solve(fit, &(struct condition){at_least_if_any, 2, 1 - error / 2});

    if (middle >= max_of_one)
        return middle;

    double min = s + solve(fit, &(struct condition){at_least_middle_if_any, s, LOW_SHARE * error});

    return min < max_of_one ? min : max_of_one;
}

/*
 * Returns the upper end in blocks (failures and s successes): the largest number that yields only s
 * samples with more than the allowed error. That error is all of it while a sample of all `all`
 * blocks, with probability p^all, would not put the lower end above the truth.
 */
static double upper_end(const struct fit *fit, double s, double error)
{
    double all = s + 1 + solve(fit, &(struct condition){at_least_if_any, s + 1, 1 - error / 2});

    if (all * sa_log(fit->p) <= sa_log(error))
        return all;
    return s + 1 + solve(fit, &(struct condition){at_least_if_any, s + 1, 1 - error});
}

/* Returns the negative binomial distribution with this mean and variance. p is clamped to what the
 * arithmetic bears. */
static struct fit fit_to(double mean, double variance, double p)
{
    SA_DCHECK(mean > 0 && variance > 0);
    p = p < 1e-15 ? 1e-15 : p > 1 - 1e-9 ? 1 - 1e-9 : p;
    return (struct fit){.p = p,
                        .log_q = sa_log1p(-p),
                        .s = mean * mean / (variance * (1 - p)),
                        .scale = p * variance / mean};
}

/*
 * Returns the upper end for a set that may contain blocks without a sample of their kind, of which
 * one sample would stand for `weight`. It is the upper end with one more sample, of these blocks.
 * If all samples have that weight, the result is at most the end without the additional sample.
 *
 * The construction is that of Fay and Feuer (Statistics in Medicine 16, 1997) for weighted sums of
 * Poisson counts: the moments of the sum with one more event of the largest weight. For a set
 * without samples the bound is exact.
 */
static double unseen_high(const struct quantity *quantity, double weight, double error)
{
    double mean = quantity->mean + weight - 1, more = weight * (weight - 1);
    double variance = quantity->variance + more, p = quantity->p * quantity->variance;
    struct fit fit;

    if (!(weight > 1))
        return quantity->known;
    if (weight > WEIGHT_MAX)
        return INFINITY;
    fit = fit_to(mean, variance, (p + weight - 1) / variance);
    if (fit.s > MANY_SAMPLES)
        return quantity->known + 1 + mean + sa_normal_quantile(1 - error / 2) * sa_sqrt(variance);
    return quantity->known + 1 +
           fit.scale * solve(&fit, &(struct condition){at_least, fit.s, 1 - error / 2});
}

/* Stores the ends of the interval of a quantity, without unseen blocks. error: 1 - level. */
static void interval(const struct quantity *quantity, enum salloc_estimator estimator, double error,
                     double *ret_low, double *ret_high)
{
    double mean = quantity->mean, variance = quantity->variance;

    *ret_low = *ret_high = quantity->known;
    if (!(mean > 0 && variance > 0))
        return;

    struct fit fit = fit_to(mean, variance, quantity->p);

    if (fit.s > MANY_SAMPLES) {
        double z = sa_normal_quantile(1 - error / 2), deviation = sa_sqrt(variance);

        *ret_low += mean - z * deviation;
        *ret_high += mean + z * deviation;
        return;
    }
    if (estimator == SALLOC_ESTIMATE_FAILED) {
        /* .NET's interval has one sample less and one more, because its window may begin and end
         * between samples. */
        double low = fit.s - 1, high = fit.s + 1;

        if (low > 0.5)
            *ret_low += fit.scale * solve(&fit, &(struct condition){at_least, low, error / 2});
        *ret_high += fit.scale * solve(&fit, &(struct condition){at_least, high, 1 - error / 2});
        return;
    }

    double low = lower_end(&fit, fit.s, error) - fit.s,
           high = upper_end(&fit, fit.s, error) - fit.s;
    double middle = mean / fit.scale;

    /* At levels far below 1/2 both ends can be on one side of the estimate. */
    *ret_low += fit.scale * (low < middle ? low : middle);
    *ret_high += fit.scale * (high > middle ? high : middle);
}

/* Stores the blocks and the bytes of a set as quantities, without certain samples. Requires a
 * sample with p < 1. */
static void split(const struct sa_sums *sums, enum salloc_estimator estimator,
                  struct quantity *ret_count, struct quantity *ret_bytes)
{
    SA_DCHECK(sums->samples > 0);
    if (estimator == SALLOC_ESTIMATE_WEIGHTED) {
        double count = sums->count - (double)sums->samples;

        *ret_count = (struct quantity){(double)sums->samples, count, sums->count_variance,
                                       count / sums->count_variance};
        *ret_bytes =
            (struct quantity){sums->sampled_bytes, sums->bytes - sums->sampled_bytes,
                              sums->bytes_variance, sums->bytes_squares / sums->bytes_variance};
        return;
    }

    double p = sums->failures / sums->failures_variance;
    /* The part of the estimated blocks that stands for failed trials. It is taken to be that of
     * the estimated bytes. */
    double failures = sums->offset_count * sums->failures / sums->offset_bytes;

    if (estimator == SALLOC_ESTIMATE_POISSON) {
        /* Trials succeed `hits` times as often as blocks are sampled; the variances of the sums are
         * for samples. */
        double hits = sums->hits_count / (failures / (1 - p));

        *ret_count = (struct quantity){sums->hits_count * p, sums->hits_count * (1 - p),
                                       sums->offset_count_variance * hits, p};
        *ret_bytes = (struct quantity){sums->hits_bytes * p, sums->hits_bytes * (1 - p),
                                       sums->hits_bytes * (1 - p) / p, p};
        return;
    }
    *ret_count =
        (struct quantity){sums->offset_count - failures, failures, sums->offset_count_variance, p};
    *ret_bytes = (struct quantity){sums->offset_bytes - sums->failures, sums->failures,
                                   sums->failures_variance, p};
}

/*
 * Returns whether one sample of the unseen blocks stands for more than the existing samples do on
 * average. The average weights each sample by the amount that it stands for, so it is variance /
 * mean. The margin of 1e-6 covers rounding.
 */
static bool is_wider(const struct quantity *quantity, double weight)
{
    return weight * quantity->mean > quantity->variance * (1 + 1e-6) || !(quantity->mean > 0);
}

/*
 * Returns the upper end `high`, raised for unseen blocks. If the past was sampled with less
 * probability than the present, two ends are valid, and the result is the lesser: the end with the
 * weight of the past for all blocks, and the end with today's weight plus all that the past can be.
 */
static double allow_for_unseen(const struct quantity *quantity, double high, double weight,
                               double past_weight, double past, double error)
{
    double now = high, ever = high;

    if (is_wider(quantity, weight))
        now = unseen_high(quantity, weight, error);
    now = now > high ? now : high;
    if (past_weight <= weight)
        return now;
    if (is_wider(quantity, past_weight))
        ever = unseen_high(quantity, past_weight, error);
    ever = ever > now ? ever : now;
    return now + past < ever ? now + past : ever;
}

void sa_value_sums_add(struct sa_value_sums *sums, double p, double y)
{
    double missed = (1 - p) / p;

    SA_DCHECK(p > 0 && y >= 0);
    sums->samples++;
    if (p >= 1) {
        sums->certain += y;
        return;
    }
    sums->sampled += y;
    sums->missed += y * missed;
    sums->variance += y * y * missed / p;
    sums->squares += y * y * missed;
}

void sa_estimate_value(const struct sa_value_sums *sums, const struct sa_unseen *unseen,
                       double level, struct salloc_interval *ret)
{
    struct quantity quantity = {sums->sampled, sums->missed, sums->variance, 0};
    double low, high;

    SA_DCHECK(level > 0 && level < 1);
    if (sums->variance > 0)
        quantity.p = sums->squares / sums->variance;
    interval(&quantity, SALLOC_ESTIMATE_WEIGHTED, 1 - level, &low, &high);
    *ret = (struct salloc_interval){.samples = sums->samples,
                                    .value = sums->certain + sums->sampled + sums->missed,
                                    .low = sums->certain + low,
                                    .high = sums->certain +
                                            allow_for_unseen(&quantity, high, unseen->bytes,
                                                             unseen->past_bytes_weight,
                                                             unseen->past_bytes, 1 - level)};
}

void sa_life_sums_add(struct sa_life_sums *sums, double p, uint64_t n, double sum, double squares)
{
    double w = 1 / p, missed = (1 - p) * w * w, count = (double)n;

    SA_DCHECK(p > 0);
    sums->samples += n;
    sums->certain += p >= 1 ? n : 0;
    sums->weights += count * w;
    sums->squares += count * w * w;
    sums->lives += sum * w;
    sums->missed += count * missed;
    sums->missed_lives += sum * missed;
    sums->missed_lives_squares += squares * missed;
}

void sa_estimate_life(const struct sa_life_sums *sums, double level, struct salloc_interval *ret)
{
    double mean = sums->samples ? sums->lives / sums->weights : 0, variance, factor;
    /* Effective number of samples: this many samples of equal weight have the same relative
     * variance (Kish). */
    double effective = sums->samples ? sums->weights * sums->weights / sums->squares : 0;

    SA_DCHECK(level > 0 && level < 1);
    *ret = (struct salloc_interval){sums->samples, mean, 0, INFINITY};
    if (sums->samples && sums->samples == sums->certain) {
        ret->low = ret->high = mean;
        return;
    }
    if (sums->samples < 4 || effective < 2 || !(mean > 0))
        return;
    effective = effective < 4 ? 4 : effective;
    /* The variance of a ratio of two sums: each sample adds its weight times its distance from the
     * mean. */
    variance =
        sums->missed_lives_squares - 2 * mean * sums->missed_lives + mean * mean * sums->missed;
    variance *= effective / (effective - 1) / (sums->weights * sums->weights);
    factor = sa_exp(sa_student_quantile((1 + level) / 2, effective - 1) *
                    sa_sqrt(variance > 0 ? variance : 0) / mean);
    ret->low = mean / factor;
    ret->high = mean * factor;
}

void sa_estimate(const struct sa_sums *sums, const struct sa_unseen *unseen,
                 enum salloc_estimator estimator, double level, struct salloc_estimate *ret)
{
    static const struct sa_unseen nothing;
    double error = 1 - level, certain = (double)sums->certain;

    SA_DCHECK(level > 0 && level < 1);
    *ret = (struct salloc_estimate){.samples = sums->samples + sums->certain,
                                    .count = certain,
                                    .bytes = sums->certain_bytes,
                                    .count_low = certain,
                                    .count_high = certain,
                                    .bytes_low = sums->certain_bytes,
                                    .bytes_high = sums->certain_bytes};

    struct quantity count = {0}, bytes = {0};
    const struct sa_unseen *u = unseen ? unseen : &nothing;
    double low, high;

    if (sums->samples)
        split(sums, estimator, &count, &bytes);
    interval(&count, estimator, error, &low, &high);
    ret->count += count.known + count.mean;
    ret->count_low += low;
    ret->count_high +=
        allow_for_unseen(&count, high, u->blocks, u->past_blocks_weight, u->past_blocks, error);
    interval(&bytes, estimator, error, &low, &high);
    ret->bytes += bytes.known + bytes.mean;
    ret->bytes_low += low;
    ret->bytes_high +=
        allow_for_unseen(&bytes, high, u->bytes, u->past_bytes_weight, u->past_bytes, error);
}

double sa_estimate_unseen(double interval_bytes, double level)
{
    return interval_bytes > 1 ? sa_log((1 - level) / 2) / sa_log1p(-1 / interval_bytes) : 0;
}
