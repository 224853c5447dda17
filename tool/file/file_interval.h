/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates and 95 % intervals of sets of samples of a profile file. With which probability its
 * blocks were sampled follows from their size and the period (doc/sampling.md, "The sample"), or
 * from the number of samples, which a file has where the period is not the one of the sample. If
 * the numbers of a sample do not fit with that, the sample and all sets that have it get no
 * interval.
 */
#ifndef SA_TOOL_FILE_FILE_INTERVAL_H
#define SA_TOOL_FILE_FILE_INTERVAL_H

#include "sampling/estimate/estimate.h"
#include "tool/file/profile_file.h"

#define SA_FILE_LEVEL 0.95 /* of the intervals */

#define SA_FILE_SAMPLES "samples" /* the label with a number of samples */

/* What a metric's numbers are. */
enum sa_file_kind {
    SA_FILE_OTHER,  /* no interval is known */
    SA_FILE_BYTES,  /* bytes of sampled blocks */
    SA_FILE_BLOCKS, /* their number */
    SA_FILE_EVER,   /* bytes or blocks ever allocated; the sample may have their sums itself */
    SA_FILE_PART,   /* a part of the bytes of blocks in use, as those that are resident */
};

enum sa_file_kind sa_file_kind(const struct sa_profile_file *file, uint32_t metric);

/* A set of samples of one metric. All zero is the empty set. */
struct sa_file_sums {
    int64_t value;              /* the sum of what the file has, by sa_file_add */
    struct sa_sums sums;        /* of blocks and bytes */
    struct sa_value_sums parts; /* of parts */
    bool unknown;               /* a sample does not fit */
};

/* The value and the interval of a set. The ends may be INFINITY. */
struct sa_file_interval {
    bool known; /* else there are only the value and the number of samples, 0 */
    uint64_t samples;
    double low, high;
};

/* Whether the numbers of a metric are those of sampled blocks, or of their bytes. */
bool sa_file_is_sampled(const struct sa_profile_file *file, uint32_t metric);

/* The sampled blocks of a sample of the file. False: they are not known. */
bool sa_file_group(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                   struct sa_group *ret);

/* Adds a sample to a set. */
void sa_file_sums_add(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                      struct sa_file_sums *sums);

/* The same of a sample whose group is known. p 0: it is not. Not for SA_FILE_EVER. */
void sa_file_sums_add_group(struct sa_file_sums *sums, enum sa_file_kind kind, int64_t value,
                            const struct sa_group *group);

/* What a set of all samples may lack without a sample of its kind. */
struct sa_unseen sa_file_unseen(const struct sa_profile_file *file);

/* The interval of a set; with what no sample tells of, if `unseen` is not NULL. */
struct sa_file_interval sa_file_interval_of(const struct sa_profile_file *file, uint32_t metric,
                                            const struct sa_file_sums *sums,
                                            const struct sa_unseen *unseen);

#endif
