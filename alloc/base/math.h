/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of real numbers that sampling needs, without libm, which every process would have
 * to load at start. The relative error is below 1e-14. The caller passes no NaN, and no argument
 * outside of the domain. No state.
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
