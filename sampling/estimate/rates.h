/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rates: how likely a block is sampled. A rate follows from the sampling interval T
 * and the allocated size a: p = 1-(1-1/T)^a. A p above SA_RATE_CERTAIN becomes 1, so that large
 * blocks are counted exactly.
 *
 * Readers take no lock. The table has SA_RATE_COPIES copies, because reads are frequent and changes
 * are rare. A change fills the next copy and then publishes its generation. A reader reads the copy
 * of the current generation, and then checks that no change can have overwritten that copy
 * meanwhile. Writers hold RATES.
 *
 * Every drawn length carries the generation of its rate (alloc/os/percpu.h). A sample at the end of
 * a countdown has the probability of that generation. alloc/cpu_cache/cpu_cache.c has the reason.
 */
#ifndef SA_SAMPLING_ESTIMATE_RATES_H
#define SA_SAMPLING_ESTIMATE_RATES_H

#include "alloc/base/page.h"
#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_RATE_CERTAIN 0.99 /* probability above which a block is always sampled */
#define SA_RATE_COPIES  4    /* copies of the table; a reader's copy outlives 2 changes */

/* The rate of blocks of one size. */
struct sa_rate {
    double p;            /* 0: never sampled, 1: always */
    double interval;     /* T in bytes, from which p follows. 1 if p is 0 or 1 */
    double log_fail;     /* log(1-p). Not used if p is 0 or 1 */
    uint32_t generation; /* of the table that has this rate */
};

/* Fills the first table. Called once, before the first allocation. interval: in bytes; 0 or less:
 * sampling is off. */
void sa_rates_init(int64_t interval);

/* Returns the current rate of the size class. Any thread, no lock. */
struct sa_rate sa_rate_of_class(unsigned cls);

/*
 * Stores the rate that the class had in an earlier generation in *ret. Only the bits of the
 * generation that are in `mask` are given. Returns false if a change has overwritten the table of
 * that generation. SA_RATE_COPIES - 1 changes are enough for that. Any thread, no lock.
 */
bool sa_rate_of_class_at(unsigned cls, uint32_t generation, uint32_t mask, struct sa_rate *ret);

/* Makes the sampling decision for a block without a class. True: the block is sampled, and *ret is
 * its rate. Any thread may use the state rng at the same time: it changes atomically. */
bool sa_rate_decide_size(size_t bytes, uint64_t *rng, struct sa_rate *ret);

/* Returns the sampling interval in bytes. 0: sampling is off; 1: every block is sampled. */
int64_t sa_rates_interval(void);

/* Returns the generation of the current table. */
uint32_t sa_rates_generation(void);

/* Stores the weights of the blocks that live now and may have no sample of their kind in *ret
 * (sampling/estimate/estimate.h). */
struct sa_unseen;
void sa_rates_unseen(struct sa_unseen *ret);

/* Sets the interval in bytes; 0 or less: sampling is off. Requires RATES. The caller invalidates
 * the countdowns drawn before (sa_cpu_cache_rearm). */
void sa_rates_set_interval(int64_t interval) SA_REQUIRES(SA_RANK_RATES);

/* Gives classes probabilities of their own, p[1 .. SA_CLASSES_MAX - 1]. Requires RATES. The caller
 * invalidates the countdowns, as for sa_rates_set_interval. */
void sa_rates_set_classes(const double *p) SA_REQUIRES(SA_RANK_RATES);

/*
 * Says how many bytes the blocks have at most that were allocated before the last change. Requires
 * RATES. The caller has invalidated all countdowns. Until this call the bound is INFINITY.
 */
void sa_rates_bound_past(double bytes) SA_REQUIRES(SA_RANK_RATES);

/* Returns the probability that a block of this many bytes is sampled. interval: in bytes; 0 or
 * less: sampling is off. */
double sa_rate_probability(double interval, double bytes);

#endif
