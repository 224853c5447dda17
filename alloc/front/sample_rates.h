/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing how likely blocks are sampled, in all threads at once. The lock is RATES.
 */
#ifndef SA_FRONT_SAMPLE_RATES_H
#define SA_FRONT_SAMPLE_RATES_H

#include <stdbool.h>
#include <stdint.h>

/* Inside the gate. */
void sa_sample_rates_set_interval(int64_t bytes);

#endif
