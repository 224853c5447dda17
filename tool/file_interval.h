/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates and 95 % intervals of sets of samples of a profile file. A file does not say with which
 * probability its blocks were sampled. For most files it follows from the size of the blocks and
 * the period (doc/sampling.md, "The sample"). If the numbers of a sample do not fit with that, the
 * sample and all sets that have it get no interval.
 */
#ifndef SA_TOOL_FILE_INTERVAL_H
#define SA_TOOL_FILE_INTERVAL_H

#include "sampling/estimate/estimate.h"
#include "tool/profile_file.h"

#define SA_FILE_LEVEL 0.95 /* of the intervals */

/* A set of samples of one metric. All zero is the empty set. */
struct sa_file_sums {
    int64_t value; /* the sum of what the file has, by sa_file_add */
    struct sa_sums sums;
    bool unknown; /* a sample does not fit */
};

/* The value and the interval of a set. The ends may be INFINITY. */
struct sa_file_interval {
    bool known; /* else there are only the value and the number of samples, 0 */
    uint64_t samples;
    double low, high;
};

/* Whether the numbers of a metric are those of sampled blocks, or of their bytes. */
bool sa_file_is_sampled(const struct sa_profile_file *file, uint32_t metric);

/* The blocks that a sample of the file stands for. False: it is not known. */
bool sa_file_group(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                   struct sa_group *ret);

/* Adds a sample to a set. */
void sa_file_sums_add(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                      struct sa_file_sums *sums);

/* The same of a sample whose group is known. p 0: it is not. */
void sa_file_sums_add_group(struct sa_file_sums *sums, int64_t value, const struct sa_group *group);

/* What a set of all samples may lack without a sample of its kind. */
struct sa_unseen sa_file_unseen(const struct sa_profile_file *file);

/* The interval of a set; with what no sample tells of, if `unseen` is not NULL. */
struct sa_file_interval sa_file_interval_of(const struct sa_profile_file *file, uint32_t metric,
                                            const struct sa_file_sums *sums,
                                            const struct sa_unseen *unseen);

#endif
