/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How likely a block is sampled: the interval T, and from it the inclusion probability of each size
 * class, p = 1-(1-1/T)^a for allocated size a. Above SA_RATE_CERTAIN it is 1, so that big blocks
 * are exact.
 *
 * Changes are rare, reads are not: the table is kept four times. A change fills the next copy and
 * then publishes its generation; a reader takes the copy of the generation it saw and looks
 * afterwards whether its copy can have been overwritten. The writer holds RATES.
 *
 * The generation also stands in every armed countdown (alloc/os/percpu.h): a success that is found
 * in one has the probability of that generation. The reason is in alloc/cpu_cache/cpu_cache.c.
 */
#ifndef SA_SAMPLING_ESTIMATE_RATES_H
#define SA_SAMPLING_ESTIMATE_RATES_H

#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_RATE_CERTAIN 0.99
#define SA_RATE_COPIES  4

struct sa_rate {
    double p;        /* 0: never, 1: always */
    double interval; /* T of which p follows; for a class with a rate of its own, the T that gives
                        it */
    double log_fail; /* log(1-p); of no meaning if p is 0 or 1 */
    uint32_t generation;
};

/* Before the first allocation. interval: bytes, 0 or less for none. */
void sa_rates_init(int64_t interval);

struct sa_rate sa_rate_of_class(unsigned cls);

/*
 * The same of a generation, of which the lower bits are given: those of the mask. False: the table
 * has been overwritten since, which takes SA_RATE_COPIES - 1 changes.
 */
bool sa_rate_of_class_then(unsigned cls, uint32_t generation, uint32_t mask, struct sa_rate *ret);

/* One trial of a block without a class; *ret is its rate if it is won. rng: atomic. */
bool sa_rate_try_size(size_t bytes, uint64_t *rng, struct sa_rate *ret);

int64_t sa_rates_interval(void);
uint32_t sa_rates_generation(void);

/* What a sample of all blocks that live now may have missed (sampling/estimate/estimate.h). */
struct sa_unseen;
void sa_rates_unseen(struct sa_unseen *ret);

/* Under RATES. Countdowns that were drawn before must be voided afterwards (sa_cpu_cache_rearm). */
void sa_rates_set_interval(int64_t interval);

/* The same: gives classes probabilities of their own, p[1 .. SA_CLASSES_MAX - 1]. */
void sa_rates_set_classes(const double *p);

/*
 * The same, when the countdowns were voided: blocks that were allocated before the last change have
 * at most so many bytes. Until then nothing is known of how many they are.
 */
void sa_rates_bound_past(double bytes);

/* Probability of a block of the size under an interval. */
double sa_rate_probability(double interval, double bytes);

#endif
