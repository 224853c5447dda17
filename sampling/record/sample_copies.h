/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of single samples, for snapshots and recordings. A copy holds a reference
 * to its stack. The caller holds the lock SAMPLES, which guards what is copied.
 */
#ifndef SA_SAMPLING_RECORD_SAMPLE_COPIES_H
#define SA_SAMPLING_RECORD_SAMPLE_COPIES_H

#include "sampling/record/recording.h"

/* A sample of a block in use. */
void sa_sample_copy_live(const struct sa_sample *s, struct sa_sample_copy *ret)
    SA_REQUIRES(SA_RANK_SAMPLES);

/* One that was in use at the peak, and was freed since. */
void sa_sample_copy_gone(const struct sa_sample *s, struct sa_sample_copy *ret)
    SA_REQUIRES(SA_RANK_SAMPLES);

/* Sums of such samples. */
void sa_sample_copy_sums(const struct sa_bucket *bucket, struct sa_sample_copy *ret)
    SA_REQUIRES(SA_RANK_SAMPLES);

#endif
