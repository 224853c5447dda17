/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds estimates, and adds them up by stack: sorts buckets and totals by stack, and adds up
 * neighbours (values.h). */
#include "sampling/export/values.h"

#include "alloc/base/fatal.h"
#include "alloc/base/rng.h"
#include "alloc/base/sort.h"
#include "sampling/estimate/rates.h"

#include <errno.h>
#include <string.h>

/* Rounds to a whole number, at most 1e18. Files hold signed numbers of 64 bits, and readers add up
 * a few buckets. */
static uint64_t rounded(double x)
{
    return x >= 1e18 ? (uint64_t)1e18 : x > 0 ? (uint64_t)(x + 0.5) : 0;
}

/*
 * Rounds a number of blocks up or down, so that the result is right on average: a row of one sample
 * with 1/p = 1.3 is 1 block in seven of ten rows and 2 in the others, where the nearest number
 * would always be 1. The chance is a hash of where in the blocks the samples fell. These places
 * carry no information about the number of samples (doc/sampling.md), and belong to the samples, so
 * two readings of the same samples agree.
 */
static uint64_t rounded_blocks(double x, double places, double more)
{
    double whole = x < 1e18 ? (double)(uint64_t)x : 1e18;
    uint64_t bits[2];

    memcpy(&bits[0], &places, sizeof(places));
    memcpy(&bits[1], &more, sizeof(more));
    bits[0] = sa_rng_mix(sa_rng_mix(bits[0] + SA_RNG_STEP) + bits[1]);
    return (uint64_t)whole + ((double)(bits[0] >> 11) * 0x1p-53 < x - whole && x < 1e18);
}

void sa_values_of_bucket(const struct sa_bucket *bucket, struct sa_values *ret)
{
    double weight = 1 / bucket->key.p, bytes = weight * (double)bucket->key.allocated;

    SA_DCHECK(bucket->key.p > 0 && bucket->key.p <= 1);
    ret->count = rounded_blocks((double)bucket->samples * weight, bucket->offsets, bucket->hits);
    ret->bytes = rounded((double)bucket->samples * bytes);
    ret->waste = rounded(bucket->waste * bytes);
    ret->resident = rounded(bucket->resident * weight);
    ret->swapped = rounded(bucket->swapped * weight);
    ret->locked = rounded(bucket->locked * weight);
    ret->zero = rounded(bucket->zero * weight);
}

uint64_t sa_values_unusual_samples(const struct sa_profile *profile, const struct sa_bucket *bucket)
{
    double p = bucket->key.p,
           usual = sa_rate_probability((double)profile->interval, (double)bucket->key.allocated);

    return p > usual * (1 - 1e-9) && p < usual * (1 + 1e-9) ? 0 : bucket->samples;
}

void sa_values_of_total(const struct sa_total *total, struct sa_values *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->count = rounded_blocks(total->sums.count + (double)total->sums.certain,
                                total->sums.offset_bytes, total->sums.hits_bytes);
    ret->bytes = rounded(total->sums.bytes + total->sums.certain_bytes);
}

/* A bucket, or a total, of a stack. */
struct part {
    const struct sa_stack *stack;
    const struct sa_bucket *bucket; /* NULL: this is a total */
    const struct sa_total *total;   /* NULL: this is a bucket */
};

static bool part_before(const void *a, const void *b)
{
    return ((const struct part *)a)->stack < ((const struct part *)b)->stack;
}

/* The order of stacks: most bytes first. The hash makes the order of equal ones the same in each
 * file. */
static bool bytes_before(const void *a, const void *b)
{
    const struct sa_by_stack *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes;
    if (x->alloc_bytes != y->alloc_bytes)
        return x->alloc_bytes > y->alloc_bytes;
    return x->stack->hash < y->stack->hash;
}

static void add_lives(struct sa_lives *to, const struct sa_bucket *bucket, uint64_t blocks)
{
    to->min = to->weight == 0 || bucket->life_min < to->min ? bucket->life_min : to->min;
    to->max = bucket->life_max > to->max ? bucket->life_max : to->max;
    to->blocks += blocks;
    to->weight += (double)bucket->samples / bucket->key.p;
    to->sum += bucket->life_sum / bucket->key.p;
}

/* Adds a bucket or a total to the numbers of a stack, or of all. */
static void add_part(const struct sa_profile *profile, struct sa_by_stack *to,
                     const struct part *part)
{
    struct sa_values values;

    if (part->bucket) {
        struct sa_group group = sa_bucket_group(part->bucket);

        sa_values_of_bucket(part->bucket, &values);
        to->count += values.count;
        if (profile->type == SALLOC_PROFILE_FRAGMENTATION) {
            to->bytes += values.waste;
            to->inuse_bytes += values.bytes;
        } else {
            to->bytes += values.bytes;
        }
        if (profile->type == SALLOC_PROFILE_LIFETIMES)
            add_lives(part->bucket->key.censored ? &to->censored : &to->freed, part->bucket,
                      values.count);
        sa_sums_add(&to->sums, &group);
        return;
    }
    sa_values_of_total(part->total, &values);
    if (profile->type == SALLOC_PROFILE_ALLOCATIONS) {
        to->count += values.count;
        to->bytes += values.bytes;
        sa_sums_merge(&to->sums, &part->total->sums);
    } else {
        to->alloc_count += values.count;
        to->alloc_bytes += values.bytes;
    }
}

/* Stores all buckets and totals, sorted by stack. Returns 0 or -ENOMEM. */
static int collect_parts(const struct sa_profile *profile, struct sa_buffer *ret)
{
    size_t count = profile->bucket_count + profile->total_count;
    struct part *part = sa_buffer_add(ret, count * sizeof(*part));

    if (!part)
        return -ENOMEM;
    for (size_t i = 0; i < profile->bucket_count; i++)
        *part++ = (struct part){profile->buckets[i].key.stack, &profile->buckets[i], NULL};
    for (size_t i = 0; i < profile->total_count; i++)
        *part++ = (struct part){profile->totals[i].stack, NULL, &profile->totals[i]};
    sa_sort(ret->data, count, sizeof(*part), part_before);
    return 0;
}

int sa_values_by_stack(const struct sa_profile *profile, struct sa_buffer *ret,
                       struct sa_by_stack *ret_all)
{
    struct sa_buffer parts = {NULL, 0, 0}, stacks = {NULL, 0, 0};
    struct sa_by_stack all = {NULL}, *last = NULL;
    int failed = collect_parts(profile, &parts);
    const struct part *part = (const struct part *)parts.data;
    size_t count = parts.used / sizeof(*part);

    for (size_t i = 0; !failed && i < count; i++, part++) {
        if (i == 0 || part->stack != part[-1].stack) {
            last = sa_buffer_add(&stacks, sizeof(*last));
            if (!last) {
                failed = -ENOMEM;
                break;
            }
            last->stack = part->stack;
        }
        add_part(profile, last, part);
        add_part(profile, &all, part);
    }
    sa_buffer_free(&parts);
    if (failed) {
        sa_buffer_free(&stacks);
        return failed;
    }
    sa_sort(stacks.data, stacks.used / sizeof(*last), sizeof(*last), bytes_before);
    if (ret_all)
        *ret_all = all;
    *ret = stacks;
    return 0;
}
