/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a sampled block keeps from other use: the free objects on the span of its class
 * (sampling/record/live_samples.c, sample_waste), of a target. */
#ifndef SA_TOOL_SAMPLES_WASTE_H
#define SA_TOOL_SAMPLES_WASTE_H

#include "tool/layout/table.h"

struct sa_waste {
    struct sa_target *target;
    struct sa_plan sample, span;
    uint64_t root, root_bytes; /* of the radix map; bytes of an element */
    uint32_t node;             /* where an element has its node */
    unsigned page_shift, leaf_bits, node_bits, address_bits;
};

/* False: the target does not tell what is needed. */
bool sa_waste_open(struct sa_waste *w, struct sa_target *t, const struct sa_table *table,
                   struct sa_error *e);

/* The free objects for each used one, on the span of the proxy of the sample at an address. cls:
 * its class. */
double sa_waste_of(const struct sa_waste *w, uint64_t sample, unsigned cls);

#endif
