/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the probability of a block to be sampled, in all threads at once. On request, chooses the
 * probability of each size class by the program's use of the class
 * (sampling/estimate/rate_optimizer.h has the formula). Any thread; the lock RATES orders the
 * changes.
 */
#ifndef SA_MAINTAIN_SAMPLE_RATES_H
#define SA_MAINTAIN_SAMPLE_RATES_H

#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stdint.h>

struct sa_sample_rates_stats {
    bool optimised;         /* classes have chosen probabilities */
    uint64_t optimizations; /* choices since the start */
    double variance; /* variance of the estimate of live bytes with default probabilities, divided
                        by that with the chosen ones; above 1 is a gain */
};

/* Sets the sampling interval in bytes (1: every block, 0 or less: sampling is off). Inside the fork
 * gate. */
void sa_sample_rates_set_interval(int64_t bytes) SA_INSIDE_GATE;

/* Sets whether probabilities are chosen by class. Start-up only. */
void sa_sample_rates_optimise(bool on);

/* Chooses anew if that is due. Maintenance calls it, inside the fork gate. */
void sa_sample_rates_tick(uint64_t now_ns) SA_INSIDE_GATE;

void sa_sample_rates_stats(struct sa_sample_rates_stats *ret);

#endif
