/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logarithm, exponential and log-gamma, by power series after a reduction of the argument that
 * loses no precision. log(m) is a series in s = (m-1)/(m+1). exp is a series in the remainder of x
 * / ln 2. log-gamma is a series in x-2 near 2, and Stirling's series from 8 on. Near 1 and 2
 * log-gamma vanishes, and the error must stay small relative to the result. No state.
 */
#include "alloc/base/math.h"

#include <stdint.h>

/* ln 2 in two parts. The first part has so few bits that its product with an exponent is exact. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33

#define INFINITE (__builtin_inf())

static inline uint64_t bits_of(double x)
{
    uint64_t u;

    __builtin_memcpy(&u, &x, sizeof(u));
    return u;
}

static inline double real_of(uint64_t u)
{
    double x;

    __builtin_memcpy(&x, &u, sizeof(x));
    return x;
}

/* 2 atanh(s), for |s| <= 0.1716. The terms that are left out are below 1e-17 of the sum. The sum
 * has pairs of terms instead of one chain, so that the processor computes several at a time. */
static inline double atanh_twice(double s)
{
    double z = s * s, z2 = z * z, z4 = z2 * z2;
    double a = 2.0 / 3 + z * (2.0 / 5), b = 2.0 / 7 + z * (2.0 / 9);
    double c = 2.0 / 11 + z * (2.0 / 13), d = 2.0 / 15 + z * (2.0 / 17);
    double e = 2.0 / 19 + z * (2.0 / 21);
    double sum = (a + z2 * b) + z4 * ((c + z2 * d) + z4 * e);

    return 2 * s + s * (z * sum);
}

double sa_log(double x)
{
    uint64_t u = bits_of(x);
    int64_t shift = 0;

    if (SA_UNLIKELY(u - (1ull << 52) >= (0x7feull << 52))) {
        if (x == 0)
            return -INFINITE;
        if (!(x < 1))
            return x; /* infinity or NaN */
        shift = 54;   /* denormal: scale it up */
        u = bits_of(x * 0x1p54);
    }

    /* m lies between sqrt(1/2) and sqrt(2). */
    int64_t k = (int64_t)(u - 0x3fe6a09e667f3bcdull) >> 52;
    double m = real_of(u - ((uint64_t)k << 52));
    double low = atanh_twice((m - 1) / (m + 1));
    double exponent = (double)(k - shift);

    return exponent * LN2_HI + (low + exponent * LN2_LO);
}

double sa_log1p(double x)
{
    if (x > -1e-17 && x < 1e-17)
        return x; /* the quotient below might be denormal */
    if (x > -0.29 && x < 0.41)
        return atanh_twice(x / (2 + x));
    /* The rounding error of 1+x is relative to 1+x, and this logarithm is not close to 0. */
    return sa_log(1 + x);
}

/* Returns x - k ln 2, whose magnitude is at most ln 2 / 2 plus a rounding error. */
static inline double reduce(double x, int *k)
{
    double n = x * 1.4426950408889634;

    *k = (int)(n + (n < 0 ? -0.5 : 0.5));
    return (x - *k * LN2_HI) - *k * LN2_LO;
}

/* exp(r) - 1, for |r| <= 0.35. The terms that are left out are below 1e-17 of the sum. */
static inline double expm1_small(double r)
{
    double r2 = r * r, r4 = r2 * r2;
    double a = 1.0 / 2 + r * (1.0 / 6), b = 1.0 / 24 + r * (1.0 / 120);
    double c = 1.0 / 720 + r * (1.0 / 5040), d = 1.0 / 40320 + r * (1.0 / 362880);
    double e = 1.0 / 3628800 + r * (1.0 / 39916800);
    double f = 1.0 / 479001600 + r * (1.0 / 6227020800);
    double sum = (a + r2 * b) + r4 * ((c + r2 * d) + r4 * (e + r2 * f));

    return r + r2 * sum;
}

/* 2^k, where that is a normal number. */
static inline double power_of_two(int k)
{
    return real_of((uint64_t)(k + 1023) << 52);
}

SA_RARE double sa_exp(double x)
{
    int k;

    if (x > 709.79)
        return INFINITE;
    if (x < -745.14)
        return 0;

    double r = reduce(x, &k);
    double e = 1 + expm1_small(r);

    /* In two steps, because the ends of the range exceed the exponents of normal numbers. */
    return e * power_of_two(k / 2) * power_of_two(k - k / 2);
}

double sa_expm1(double x)
{
    int k;

    if (x > -0.35 && x < 0.35)
        return expm1_small(x);
    if (x < -40)
        return -1;
    if (x > 40)
        return sa_exp(x);

    double r = reduce(x, &k);
    double scale = power_of_two(k);

    return scale * expm1_small(r) + (scale - 1);
}

/* log Gamma(2 + z), for |z| <= 0.5. The coefficients are (-1)^k (zeta(k) - 1) / k from k = 2. */
SA_RARE static double log_gamma_at_2(double z)
{
    static const double coefficient[] = {
        0.32246703342411321824,    -0.067352301053198095133,   0.020580808427784547879,
        -0.0073855510286739852663, 0.0028905103307415232858,   -0.0011927539117032609771,
        0.00050966952474304242234, -0.00022315475845357937976, 0.000099457512781808533715,
        -0.0000449262367381331417, 0.000020507212775670691553, -9.439488275268395904e-6,
        4.3748667899074878042e-6,  -2.0392157538013662368e-6,  9.5514121304074198329e-7,
        -4.4924691987645660433e-7, 2.1207184805554665869e-7,   -1.0043224823968099609e-7,
        4.7698101693639805658e-8,  -2.271109460894316491e-8,   1.0838659214896954091e-8,
        -5.1834750419700466551e-9, 2.4836745438024783172e-9,   -1.1921401405860912074e-9,
        5.7313672416788620133e-10,
    };
    double sum = 0;

    for (int i = (int)(sizeof(coefficient) / sizeof(coefficient[0])) - 1; i >= 0; i--)
        sum = sum * z + coefficient[i];
    /* 0.4227... is 1 minus Euler's constant. */
    return z * (0.42278433509846713939 + z * sum);
}

SA_RARE double sa_log_gamma(double x)
{
    if (x >= 8) {
        double i = 1 / x, i2 = i * i;
        double rest =
            i * (1.0 / 12 +
                 i2 * (-1.0 / 360 +
                       i2 * (1.0 / 1260 +
                             i2 * (-1.0 / 1680 +
                                   i2 * (1.0 / 1188 +
                                         i2 * (-691.0 / 360360 +
                                               i2 * (1.0 / 156 + i2 * (-3617.0 / 122400))))))));
        double log_x = sa_log(x);

        /* 0.9189... is half of the logarithm of 2 pi. */
        return x * (log_x - 1) + (0.91893853320467274178 - 0.5 * log_x + rest);
    }
    if (x < 0.5) /* Gamma(x) = Gamma(2 + x) / (x (1 + x)) */
        return log_gamma_at_2(x) - sa_log1p(x) - sa_log(x);
    if (x < 1.5) /* x - 1 is exact */
        return log_gamma_at_2(x - 1) - sa_log1p(x - 1);

    double product = 1;

    while (x > 2.5) {
        x -= 1;
        product *= x;
    }
    return log_gamma_at_2(x - 2) + sa_log(product);
}
