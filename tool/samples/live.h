/* SPDX-License-Identifier: Apache-2.0 */
/* The live samples of a target (sampling/record/live_samples.h), read without its locks. */
#ifndef SA_TOOL_SAMPLES_LIVE_H
#define SA_TOOL_SAMPLES_LIVE_H

#include "sampling/profile/profile.h"
#include "tool/samples/stacks.h"

struct sa_live_copy {
    struct sa_sample_copy *samples; /* newest first; malloc's */
    size_t count, cap;
    uint64_t dropped; /* records that are live, and could not be read whole */
    uint64_t again;   /* times that one was read again */
};

/* Those up to a number in the order of allocation; UINT64_MAX: all. peak: also those that were
 * freed since this peak (`peaks` of the target), at which they were live; negative: not. */
bool sa_live_read(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                  uint64_t up_to, int peak, struct sa_live_copy *ret, struct sa_error *e);

/* All, with what each keeps from other use (waste.h). */
bool sa_live_read_waste(struct sa_target *t, const struct sa_table *table, struct sa_stacks *stacks,
                        struct sa_live_copy *ret, struct sa_error *e);

/* Adds a sample whose stack is at an address of the target. False: no memory. */
bool sa_live_add_copy(struct sa_live_copy *c, struct sa_stacks *stacks, uint64_t stack,
                      const struct sa_sample_copy *copy);

/* Whether numbers are ones that a sample has: estimators divide by them and add them up. */
bool sa_live_is_sound(double p, double interval, double offset, double hits, uint64_t allocated,
                      uint64_t requested, uint64_t align, unsigned kind);

#endif
