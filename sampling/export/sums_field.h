/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums from which the interval of a sample without labels follows, as a field of profile.proto.
 * Its number is one that the format does not use, so other readers skip it. All machines that
 * salloc runs on are little-endian, as the field is.
 */
#ifndef SA_SAMPLING_EXPORT_SUMS_FIELD_H
#define SA_SAMPLING_EXPORT_SUMS_FIELD_H

#include "sampling/estimate/estimate.h"
#include "sampling/export/proto.h"

#include <string.h>

#define SA_SUMS_FIELD 1000 /* its number in a sample */

/* The field's bytes; names as in struct sa_sums. What was missed is the part of an estimate that
 * was not sampled. */
struct sa_sums_field {
    uint64_t samples, certain;
    float certain_bytes, sampled_bytes, missed, missed_bytes;
    float count_variance, bytes_variance, bytes_squares;
} __attribute__((packed));

/* Adds the field to a sample. */
static inline void sa_sums_field_add(struct sa_proto *sample, const struct sa_sums *s)
{
    const struct sa_sums_field field = {.samples = s->samples,
                                        .certain = s->certain,
                                        .certain_bytes = (float)s->certain_bytes,
                                        .sampled_bytes = (float)s->sampled_bytes,
                                        .missed = (float)(s->count - (double)s->samples),
                                        .missed_bytes = (float)(s->bytes - s->sampled_bytes),
                                        .count_variance = (float)s->count_variance,
                                        .bytes_variance = (float)s->bytes_variance,
                                        .bytes_squares = (float)s->bytes_squares};

    /* Without a message of its own, which would be 2 KiB on the stack. */
    sa_proto_varint(sample, SA_SUMS_FIELD << 3 | SA_WIRE_BYTES);
    sa_proto_varint(sample, sizeof(field));
    SA_CHECK(sample->used + sizeof(field) <= sizeof(sample->bytes));
    memcpy(sample->bytes + sample->used, &field, sizeof(field));
    sample->used += sizeof(field);
}

/* Returns whether a number is above 0, and not so large that sums of squares would overflow. */
static inline bool sa_sums_field_fits(float x)
{
    return x > 0 && x < 1e30f;
}

/* Stores the sums of a field in *ret, as far as weighted estimates need them. False: the field is
 * of another format, or makes no sense. */
static inline bool sa_sums_field_read(const void *data, size_t size, struct sa_sums *ret)
{
    struct sa_sums_field f;

    memset(ret, 0, sizeof(*ret));
    if (size != sizeof(f))
        return false;
    memcpy(&f, data, sizeof(f));
    if (f.certain > INT64_MAX || f.samples > INT64_MAX ||
        !(f.certain ? sa_sums_field_fits(f.certain_bytes) : f.certain_bytes == 0))
        return false;
    ret->certain = f.certain;
    ret->certain_bytes = (double)f.certain_bytes;
    if (!f.samples)
        return true;
    *ret = (struct sa_sums){.samples = f.samples,
                            .certain = f.certain,
                            .certain_bytes = (double)f.certain_bytes,
                            .count = (double)f.samples + (double)f.missed,
                            .bytes = (double)f.sampled_bytes + (double)f.missed_bytes,
                            .sampled_bytes = (double)f.sampled_bytes,
                            .count_variance = (double)f.count_variance,
                            .bytes_variance = (double)f.bytes_variance,
                            .bytes_squares = (double)f.bytes_squares};
    return sa_sums_field_fits(f.sampled_bytes) && sa_sums_field_fits(f.missed) &&
           sa_sums_field_fits(f.missed_bytes) && sa_sums_field_fits(f.count_variance) &&
           sa_sums_field_fits(f.bytes_squares) && sa_sums_field_fits(f.bytes_variance) &&
           f.missed < f.count_variance && f.bytes_squares < f.bytes_variance;
}

#endif
