/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two profiles as one, for the page of a comparison: the samples of the earlier one, then those of
 * the later one, with the metrics that both have. The numbers are those of `sallocctl diff`
 * (tool/diff/).
 */
#ifndef SA_TOOL_PAGE_FLAME_DIFF_H
#define SA_TOOL_PAGE_FLAME_DIFF_H

#include "tool/diff/diff_rows.h"

struct sa_flame_diff {
    const struct sa_profile_file *before, *after;
    struct sa_profile_file both; /* borrows the texts of these */
    struct sa_diff *metrics;     /* of each type of `both` */
};

/* metric: its index in `both` is stored in *ret_metric. False: *e says why, and there is nothing to
 * free. */
bool sa_flame_diff_make(struct sa_flame_diff *d, const struct sa_profile_file *before,
                        const struct sa_profile_file *after, const char *metric,
                        uint32_t *ret_metric, struct sa_error *e);
void sa_flame_diff_free(struct sa_flame_diff *d);

/* The samples behind a number of `both`: those that the other profile does not have. NULL: they are
 * not known. */
const struct sa_group *sa_flame_diff_group(const struct sa_flame_diff *d, uint32_t metric,
                                           uint32_t sample);

/* The probability with which the blocks of a sample were sampled; 0: it is not known. */
double sa_flame_diff_probability(const struct sa_flame_diff *d, uint32_t sample);

#endif
