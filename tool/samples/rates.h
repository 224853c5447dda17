/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling rates of a target (sampling/estimate/rates.h). */
#ifndef SA_TOOL_SAMPLES_RATES_H
#define SA_TOOL_SAMPLES_RATES_H

#include "sampling/estimate/estimate.h"
#include "tool/layout/table.h"

/* The sampling interval, and what a sample of all blocks that live now may have missed. */
bool sa_rates_read(struct sa_target *t, const struct sa_table *table, int64_t *ret_interval,
                   struct sa_unseen *ret, struct sa_error *e);

#endif
