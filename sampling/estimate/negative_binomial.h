/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes binomial and negative binomial probabilities and the quantiles that intervals need.
 * Numbers of trials and successes may be fractions, because an effective number of samples is one.
 * All functions are pure. The relative error of a probability is below 1e-11 up to 1e6 successes in
 * 1e12 trials.
 */
#ifndef SA_SAMPLING_ESTIMATE_NEGATIVE_BINOMIAL_H
#define SA_SAMPLING_ESTIMATE_NEGATIVE_BINOMIAL_H

/* Returns P(exactly k successes in n trials). Requires 0 <= k <= n and 0 < p < 1, where p is the
 * probability of success of each trial. */
double sa_binomial_point(double k, double n, double p);

/* Returns P(at most f failures before success number s): the regularised incomplete beta function
 * I_p(s, f+1). Requires f >= 0, s > 0 and 0 < p < 1. */
double sa_negative_binomial(double f, double s, double p);

/* As sa_negative_binomial, for a caller that has computed `point` = sa_binomial_point(s, s+f, p)
 * already. The point takes more than half of the time of sa_negative_binomial. */
double sa_negative_binomial_at(double f, double s, double p, double point);

/* Returns the largest whole number f with sa_negative_binomial(f, s, p) < probability. -1: f = 0 is
 * too large already. Requires probability < 1. */
double sa_negative_binomial_quantile(double probability, double s, double p);

/* Returns z with P(standard normal variate <= z) = probability, to six digits. z is between -40 and
 * 40. */
double sa_normal_quantile(double probability);

/* Returns the quantile of Student's distribution. freedom: degrees of freedom, at least 3. The
 * error is at most 0.2 % for probabilities from 0.01 to 0.99. */
double sa_student_quantile(double probability, double freedom);

#endif
