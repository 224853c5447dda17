/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that were live at the peak of a target's heap (sampling/record/live_samples.h). */
#ifndef SA_TOOL_SAMPLES_PEAK_H
#define SA_TOOL_SAMPLES_PEAK_H

#include "tool/samples/live.h"

/* *ret_time_ns: of the peak, since 1970; 0: it is now. */
bool sa_peak_read(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                  struct sa_live_copy *ret, int64_t *ret_time_ns, struct sa_error *e);

#endif
