/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing how likely blocks are sampled, in all threads at once; and, if asked for, choosing the
 * probability of each size class by what the program does with it
 * (sampling/estimate/rate_optimizer.h). The lock is RATES.
 */
#ifndef SA_MAINTAIN_SAMPLE_RATES_H
#define SA_MAINTAIN_SAMPLE_RATES_H

#include <stdbool.h>
#include <stdint.h>

struct sa_sample_rates_stats {
    bool optimised;  /* classes have probabilities of their own */
    uint64_t chosen; /* how many times */
    double variance; /* of the estimate of live bytes, default by chosen; 1 or more is a gain */
};

/* Inside the gate. */
void sa_sample_rates_set_interval(int64_t bytes);

/* Whether probabilities are chosen by class; const after start. */
void sa_sample_rates_optimise(bool on);

/* From maintenance: chooses anew if it is time. */
void sa_sample_rates_tick(uint64_t now_ns);

void sa_sample_rates_stats(struct sa_sample_rates_stats *ret);

#endif
