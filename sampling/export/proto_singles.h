/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single samples of a HEAP or PEAK_HEAP profile in profile.proto. A reader of two files of one
 * process learns from them which samples are in both.
 *
 * Each sample has three varints: the index of its sample message, its number, and the millisecond
 * of its allocation. Number and millisecond are zigzag-coded differences from the sample before, as
 * most of these have 1 byte. The list is one or several fields of packed varints, to be read as
 * one.
 */
#ifndef SA_SAMPLING_EXPORT_PROTO_SINGLES_H
#define SA_SAMPLING_EXPORT_PROTO_SINGLES_H

#include "sampling/export/sink.h"
#include "sampling/profile/profile.h"

/* The field of the outermost message. It is salloc's own: readers skip fields they do not know. */
#define SA_PROTO_SINGLES 1000

/* Puts the field into the sink. The sample message of a bucket has the index of the bucket. Certain
 * samples are left out, because their blocks are counted exactly. */
void sa_proto_put_singles(const struct sa_profile *profile, struct sa_sink *out);

#endif
