/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the probabilities and quantiles of negative_binomial.h.
 *
 * A quotient of factorials of numbers up to 1e12 would lose all digits. A point of the binomial
 * distribution is therefore computed from deviances, which are small where the probability is large
 * (C. Loader, "Fast and accurate computation of binomial probabilities", 2000). A sum over points
 * is the point at its end times the continued fraction of the incomplete beta function.
 */
#include "sampling/estimate/negative_binomial.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/math.h"

#include <stdint.h>

#define HALF_LOG_2PI 0.91893853320467274178
#define TWO_PI       6.28318530717958647693

/* Returns the error of Stirling's formula: log n! - ((n + 1/2) log n - n + log(2 pi) / 2). From n =
 * 10 on it is the asymptotic series in 1/n (DLMF 5.11.1). */
static double stirling_error(double n)
{
    double i = 1 / n, i2 = i * i;

    if (n < 10)
        return sa_log_gamma(n + 1) - (n + 0.5) * sa_log(n) + n - HALF_LOG_2PI;
    return i *
           (1.0 / 12 - i2 * (1.0 / 360 -
                             i2 * (1.0 / 1260 -
                                   i2 * (1.0 / 1680 - i2 * (1.0 / 1188 - i2 * (691.0 / 360360))))));
}

/* Returns Loader's deviance x log(x / mean) - d, where d = x - mean. For small d, the series in
 * d / (x + mean) avoids the cancellation. */
static double deviance(double x, double mean, double d)
{
    double v = d / (x + mean), v2 = v * v;

    if (v2 > 0.01)
        return x * sa_log(x / mean) - d;

    double sum = d * v, term = 2 * x * v, before;

    for (int i = 3; i < 40; i += 2) {
        term *= v2;
        before = sum;
        sum += term / i;
        if (sum == before)
            break;
    }
    return sum;
}

double sa_binomial_point(double k, double n, double p)
{
    double rest = n - k, q = 1 - p;

    SA_DCHECK(p > 0 && p < 1);
    if (k <= 0)
        return sa_exp(n * sa_log1p(-p));
    if (rest <= 0)
        return sa_exp(n * sa_log(p));

    /* For small p, q has lost digits of p, so n - mean is more accurate than n q. */
    double mean = n * p, d = k - mean;
    double e = stirling_error(n) - stirling_error(k) - stirling_error(rest) - deviance(k, mean, d) -
               deviance(rest, p < 0.5 ? n - mean : n * q, -d);

    return sa_sqrt(n / (TWO_PI * k * rest)) * sa_exp(e);
}

/*
 * Returns I_x(a, b) B(a, b) / (x^a y^b) with y = 1-x.
 *
 * The continued fraction is DLMF 8.17.22 with two steps in one, as in A. Didonato and A. Morris,
 * "Algorithm 708" (1992). That form contains the difference a y - b x as one term. Single steps
 * would lose six digits where x is within 1e-6 of 1. The modified Lentz method evaluates it; the
 * denominators are positive here.
 */
static double beta_fraction(double x, double y, double a, double b)
{
    double difference = a * y - b * x + 1;
    double c = a * difference / (a + 1), d = 0, h = c;

    for (int m = 1; m < 20000; m++) {
        double k = a + 2.0 * m, square = (k - 1) * (k - 1);
        double over = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / square;
        double under =
            m + m * (b - m) * x / (k - 1) + (a + m) * (difference + m * (1 + y)) / (k + 1);

        d = 1 / (under + over * d);
        c = under + over / c;

        double step = c * d;

        h *= step;
        if (step - 1 < 1e-15 && 1 - step < 1e-15)
            break;
    }
    return 1 / h;
}

double sa_negative_binomial_at(double f, double s, double p, double point)
{
    double q = 1 - p, a = s, b = f + 1;

    SA_DCHECK(f >= 0 && s > 0 && p > 0 && p < 1);
    /* p^a q^b / B(a, b) = a q point. The fraction converges fast on one side of the mean only, so
     * the other side uses I_p(a, b) = 1 - I_q(b, a). */
    if (p * (a + b) <= a)
        return point * a * q * beta_fraction(p, q, a, b);
    return 1 - point * a * q * beta_fraction(q, p, b, a);
}

double sa_negative_binomial(double f, double s, double p)
{
    return sa_negative_binomial_at(f, s, p, sa_binomial_point(s, s + f, p));
}

/* Returns x without its fraction. A double beyond 2^62 has none. */
static double integer_part(double x)
{
    return x < 0x1p62 ? (double)(int64_t)x : x;
}

double sa_negative_binomial_quantile(double probability, double s, double p)
{
    double low = -1, high = s / p + 1;

    SA_DCHECK(probability < 1);
    /* low is -1 or has a probability below the threshold. After this loop, high has not. */
    while (sa_negative_binomial(high, s, p) < probability) {
        low = high;
        high *= 2;
    }
    high = integer_part(high) + 1;
    low = integer_part(low);
    while (high - low > 1) {
        double middle = integer_part((low + high) / 2);

        if (middle <= low || middle >= high)
            break; /* beyond 2^53, neighbouring doubles are more than 1 apart */
        if (sa_negative_binomial(middle, s, p) < probability)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double sa_normal_quantile(double probability)
{
    double tail = probability < 0.5 ? probability : 1 - probability;

    if (tail <= 0)
        return probability < 0.5 ? -40 : 40;

    double low = 0, high = 40;

    /*
     * Bisection on the tail P(> z). Above 1.5 the tail is the density times the continued fraction
     * 1/(z + 1/(z + 2/(z + ...))) (DLMF 7.9.1). Below, 1/2 minus the series of DLMF 7.6.2 converges
     * faster.
     */
    for (int i = 0; i < 48; i++) {
        double z = (low + high) / 2, t = z;
        double beyond;

        if (z > 1.5) {
            for (int k = 60; k > 0; k--)
                t = z + k / t;
            beyond = sa_exp(-z * z / 2 - HALF_LOG_2PI) / t;
        } else {
            double term = z, sum = z;

            for (int k = 1; k < 30; k++)
                sum += (term *= z * z / (2 * k + 1));
            beyond = 0.5 - sum * sa_exp(-z * z / 2 - HALF_LOG_2PI);
        }
        if (beyond > tail)
            low = z;
        else
            high = z;
    }
    return probability < 0.5 ? -low : low;
}

double sa_student_quantile(double probability, double freedom)
{
    double z = sa_normal_quantile(probability), y = z * z, n = freedom;

    SA_DCHECK(freedom >= 3);
    /* The first terms of the Cornish-Fisher expansion in 1/n (Abramowitz and Stegun 26.7.5). */
    return z * (1 + (y + 1) / (4 * n) + ((5 * y + 16) * y + 3) / (96 * n * n) +
                (((3 * y + 19) * y + 17) * y - 15) / (384 * n * n * n) +
                ((((79 * y + 776) * y + 1482) * y - 1920) * y - 945) / (92160 * n * n * n * n));
}
