/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the records of samples. Records lie in blocks of 2 KiB, which are never released, so
 * that sallocctl reads many at a time. A record that is not in use is in the list of unused ones.
 *
 * The lock SAMPLES guards all of it; live_samples.c holds it.
 */
#ifndef SA_SAMPLING_RECORD_SAMPLE_RECORDS_H
#define SA_SAMPLING_RECORD_SAMPLE_RECORDS_H

#include "sampling/record/recording.h"

/* Whether a record is unused that was used before. */
bool sa_sample_records_unused(void) SA_REQUIRES(SA_RANK_SAMPLES);

/* An unused record, or one that was never used; NULL: a new block is needed. */
struct sa_sample *sa_sample_records_take(void) SA_REQUIRES(SA_RANK_SAMPLES);

/* Makes a record unused. */
void sa_sample_records_drop(struct sa_sample *s) SA_REQUIRES(SA_RANK_SAMPLES);

/* Memory for a block; NULL: there is none. SAMPLES is not held. */
void *sa_sample_records_block(void);

/* Adds a block. */
void sa_sample_records_add(void *block) SA_REQUIRES(SA_RANK_SAMPLES);

/* Records ever used. */
size_t sa_sample_records_created(void);

/* Checks the list of unused records, and returns their number. Aborts if it is wrong. */
size_t sa_sample_records_validate(void) SA_REQUIRES(SA_RANK_SAMPLES);

#endif
