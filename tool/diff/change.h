/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interval of a change between two moments. Blocks that live at both of them cancel exactly,
 * sampled or not, so a change is what has come less what has gone. Both are sets of different
 * blocks, and their samples are independent (doc/sampling_proofs.md, "Differences"). Pure
 * arithmetic.
 */
#ifndef SA_TOOL_DIFF_CHANGE_H
#define SA_TOOL_DIFF_CHANGE_H

#include "sampling/estimate/estimate.h"

#include <stdbool.h>

/* Samples of one of the two moments only, and what both sets may hold without a sample. */
struct sa_change {
    struct sa_sums gone, come;
    bool blocks;                   /* the change is one of blocks, not of bytes */
    bool none_gone;                /* nothing can have gone, with a sample or without */
    const struct sa_unseen *total; /* what all of a heap may hold; NULL: a part of one, ... */
    double weight;                 /* ... and a block that a set without samples may have */
};

/*
 * Stores the ends of the interval of the change. error: 1 - level. The ends may be infinite. The
 * interval begins and ends at the change itself if all its blocks are certain.
 */
void sa_change_interval(const struct sa_change *c, double error, double *ret_low, double *ret_high);

/* The least error at which the samples of a change, so many as they are, can tell it from none at
 * all: that of samples which are all on one side. 0: at any. */
double sa_change_least_error(const struct sa_change *c);

/* Whether a change is within 1.4 deviations of its estimate, and so within the interval of any
 * error up to 5 %. This takes less time than the interval. */
bool sa_change_is_small(const struct sa_change *c);

#endif
