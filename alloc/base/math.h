/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few functions of real numbers that sampling needs, so that the library does not need libm,
 * which every process would pay for at start. Relative error below 1e-14 unless said otherwise; NaN
 * and arguments outside of the domain are the caller's fault.
 */
#ifndef SA_BASE_MATH_H
#define SA_BASE_MATH_H

#include "alloc/base/attrs.h"

double sa_log(double x);   /* x > 0 */
double sa_log1p(double x); /* x > -1 */
double sa_exp(double x);
double sa_expm1(double x);
double sa_log_gamma(double x); /* x > 0 */

SA_INLINE double sa_sqrt(double x)
{
    return __builtin_sqrt(x);
}

#endif
