/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binomial and negative binomial probabilities, whose numbers may be real (an effective number of
 * samples is). Pure functions. Relative error of probabilities below 1e-11 up to 1e6 successes in
 * 1e12 trials.
 */
#ifndef SA_SAMPLING_ESTIMATE_NEGATIVE_BINOMIAL_H
#define SA_SAMPLING_ESTIMATE_NEGATIVE_BINOMIAL_H

/* P(exactly k successes in n trials), 0 <= k <= n, chance p of each, 0 < p < 1. */
double sa_binomial_point(double k, double n, double p);

/* P(at most f failures before success number s), f >= 0, s > 0: the regularised incomplete beta
 * function I_p(s, f+1). */
double sa_negative_binomial(double f, double s, double p);

/* The same when the point P(exactly s successes in s+f trials) is known, as it is the dearer
 * half. */
double sa_negative_binomial_at(double f, double s, double p, double point);

/* The largest number of failures whose probability as above is under `probability`; -1: not even
 * none. */
double sa_negative_binomial_quantile(double probability, double s, double p);

/* z with P(standard normal <= z) = probability, to six digits. */
double sa_normal_quantile(double probability);

/* The same of Student's distribution with so many degrees of freedom, 3 or more; to 0.2 % from 0.01
 * to 0.99. */
double sa_student_quantile(double probability, double freedom);

#endif
