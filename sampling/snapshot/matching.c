/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the samples that a query matches, and estimates a metric from the sums (matching.h).
 * doc/sampling_proofs.md, "Any set of samples", has the formulas. */
#include "sampling/snapshot/matching.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "sampling/estimate/rates.h"
#include "sampling/record/live_samples.h"
#include "sampling/snapshot/residency.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The sums over the samples of the set. */
struct picked {
    struct sa_sums sums;         /* of blocks and bytes */
    struct sa_value_sums values; /* of another metric, from single samples */
    struct sa_life_sums lives;   /* from buckets */
};

/* Returns whether a type of profile has a metric. */
static bool metric_exists(enum salloc_profile_type type, enum salloc_metric metric)
{
    switch (metric) {
    case SALLOC_METRIC_COUNT:
    case SALLOC_METRIC_BYTES:
        return true;
    case SALLOC_METRIC_FRAGMENTATION:
        return type == SALLOC_PROFILE_FRAGMENTATION;
    case SALLOC_METRIC_RESIDENT:
    case SALLOC_METRIC_SWAPPED:
    case SALLOC_METRIC_LOCKED:
    case SALLOC_METRIC_ZERO:
        return type == SALLOC_PROFILE_HEAP;
    case SALLOC_METRIC_LIFETIME:
        return type == SALLOC_PROFILE_LIFETIMES;
    }
    return false;
}

/* Returns the kinds of residency (SA_KNOWS_...) that a metric needs. */
static unsigned metric_needs(enum salloc_metric metric)
{
    switch (metric) {
    case SALLOC_METRIC_RESIDENT:
    case SALLOC_METRIC_SWAPPED:
        return SA_KNOWS_PAGES;
    case SALLOC_METRIC_LOCKED:
        return SA_KNOWS_LOCKED;
    case SALLOC_METRIC_ZERO:
        return SA_KNOWS_ZERO;
    default:
        return 0;
    }
}

/* Returns the value y of a single sample, in bytes. 0 for metrics that are not sums of values. */
static double metric_value(enum salloc_metric metric, const struct sa_sample_copy *single)
{
    switch (metric) {
    case SALLOC_METRIC_FRAGMENTATION:
        return single->waste * (double)single->key.allocated;
    case SALLOC_METRIC_RESIDENT:
        return (double)single->resident;
    case SALLOC_METRIC_SWAPPED:
        return (double)single->swapped;
    case SALLOC_METRIC_LOCKED:
        return (double)single->locked;
    case SALLOC_METRIC_ZERO:
        return (double)single->zero;
    default:
        return 0;
    }
}

/* Returns whether a query is valid. A program built with a later version has a longer query, whose
 * additional fields must be 0. */
static bool query_is_valid(const struct salloc_profile_query *query)
{
    const unsigned char *rest = (const unsigned char *)(query + 1);

    if (query->size < sizeof(*query) || query->size > 4096)
        return false;
    for (size_t i = sizeof(*query); i < query->size; i++)
        if (*rest++)
            return false;
    return query->level > 0 && query->level < 1 &&
           (unsigned)query->estimator <= SALLOC_ESTIMATE_FAILED &&
           (query->estimator == SALLOC_ESTIMATE_WEIGHTED || query->metric == SALLOC_METRIC_COUNT ||
            query->metric == SALLOC_METRIC_BYTES);
}

static bool query_takes(const struct salloc_profile_query *query,
                        const struct salloc_profile_sample *sample)
{
    return !query->match || query->match(sample, query->arg);
}

static void pick_single(struct picked *picked, const struct salloc_profile_query *query,
                        const struct sa_sample_copy *single)
{
    const struct sa_bucket_key *key = &single->key;
    struct sa_group group = {.p = key->p,
                             .interval = key->interval,
                             .allocated = (double)key->allocated,
                             .samples = single->samples,
                             .offsets = single->offset,
                             .hits = single->hits};

    sa_sums_add(&picked->sums, &group);
    sa_value_sums_add(&picked->values, key->p, metric_value(query->metric, single));
}

static void pick_bucket(struct picked *picked, const struct sa_bucket *bucket)
{
    struct sa_group group = sa_bucket_group(bucket);

    sa_sums_add(&picked->sums, &group);
    sa_life_sums_add(&picked->lives, bucket->key.p, bucket->samples, bucket->life_sum,
                     bucket->life_squares);
}

/* Adds up all samples of the set: single samples if the profile has them, otherwise buckets. */
static void pick(const struct sa_profile *profile, const struct salloc_profile_query *query,
                 struct picked *picked)
{
    struct salloc_profile_sample sample;

    for (size_t i = 0; i < profile->single_count; i++)
        if (sa_profile_single_sample(profile, &profile->singles[i], &sample) &&
            query_takes(query, &sample))
            pick_single(picked, query, &profile->singles[i]);
    for (size_t i = 0; !profile->singles && i < profile->bucket_count; i++) {
        sa_profile_bucket_sample(profile, &profile->buckets[i], &sample);
        if (query_takes(query, &sample))
            pick_bucket(picked, &profile->buckets[i]);
    }
    /* The totals of a heap profile are of all blocks ever allocated, not of those in use. */
    for (size_t i = 0; profile->type == SALLOC_PROFILE_ALLOCATIONS && i < profile->total_count;
         i++) {
        sa_profile_total_sample(profile, &profile->totals[i], &sample);
        if (query_takes(query, &sample))
            sa_sums_merge(&picked->sums, &profile->totals[i].sums);
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Returns 1/p of blocks of `bytes` at an interval; 0 if they are certain. INFINITY (sampling was
 * off) stays INFINITY. */
static double block_weight(double interval, double bytes)
{
    double p = sa_rate_probability(interval, bytes);

    return interval > SA_ESTIMATE_UNKNOWN ? interval : p > 0 && p < 1 ? 1 / p : 0;
}

/* Returns the unseen blocks of a set without blocks smaller than `smallest` bytes. 0: the set may
 * have blocks of any size. */
static struct sa_unseen unseen_from(const struct sa_profile *profile, size_t smallest)
{
    struct sa_unseen u = profile->unseen;
    double bytes = (double)smallest, now = block_weight(u.bytes, bytes),
           past = block_weight(u.past_bytes_weight, bytes);

    if (!smallest)
        return u;
    if (now < u.blocks)
        u.blocks = now;
    if (past < u.past_blocks_weight)
        u.past_blocks_weight = past;
    if (u.past_bytes / bytes < u.past_blocks)
        u.past_blocks = u.past_bytes / bytes;
    return u;
}

/* Returns the weight for wasted bytes: the most bytes that one sample may stand for. That is a
 * block alone on its span. */
static struct sa_unseen unseen_waste(const struct sa_profile *profile)
{
    const struct sa_unseen *u = &profile->unseen;
    double interval = larger(u->bytes, u->past_bytes_weight), max = 0;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *c = &sa_size_classes.of[cls];
        double beside = (double)(c->objects - 1) * (double)c->size;

        if (beside > 0)
            max = larger(max, beside * block_weight(interval, (double)c->size));
    }
    return (struct sa_unseen){.bytes = max};
}

static void estimate_blocks(const struct sa_profile *profile,
                            const struct salloc_profile_query *query, const struct picked *picked,
                            struct salloc_interval *ret)
{
    struct sa_unseen unseen = unseen_from(profile, query->smallest_block);
    struct salloc_estimate e;

    sa_estimate(&picked->sums, &unseen, query->estimator, query->level, &e);
    if (query->metric == SALLOC_METRIC_COUNT)
        *ret = (struct salloc_interval){e.samples, e.count, e.count_low, e.count_high};
    else
        *ret = (struct salloc_interval){e.samples, e.bytes, e.bytes_low, e.bytes_high};
}

int sa_profile_estimate_matching(const struct sa_profile *profile,
                                 const struct salloc_profile_query *query,
                                 struct salloc_interval *ret)
{
    struct sa_unseen unseen = profile->unseen;
    struct picked picked;

    if (!query_is_valid(query) || !metric_exists(profile->type, query->metric))
        return -EINVAL;
    if (metric_needs(query->metric) & ~(unsigned)profile->knows)
        return -ENODATA;
    SA_DCHECK(query->level > 0 && query->level < 1);
    memset(&picked, 0, sizeof(picked));
    pick(profile, query, &picked);
    switch (query->metric) {
    case SALLOC_METRIC_COUNT:
    case SALLOC_METRIC_BYTES:
        estimate_blocks(profile, query, &picked, ret);
        break;
    case SALLOC_METRIC_FRAGMENTATION:
        unseen = unseen_waste(profile);
        sa_estimate_value(&picked.values, &unseen, query->level, ret);
        if (ret->high > profile->waste_max)
            ret->high = larger(ret->value, profile->waste_max);
        break;
    case SALLOC_METRIC_LIFETIME:
        sa_estimate_life(&picked.lives, query->level, ret);
        break;
    default: /* the value of a block is at most its bytes */
        sa_estimate_value(&picked.values, &unseen, query->level, ret);
    }
    return 0;
}
