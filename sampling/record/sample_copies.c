/* SPDX-License-Identifier: Apache-2.0 */
/* See sample_copies.h. */
#include "sampling/record/sample_copies.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "pagemap/pagemap.h"

/* True if the proxy of a sample, which is lent, is free on its span at this moment. */
static bool proxy_is_free(const struct sa_sample *s, const struct sa_span *span)
{
    long index = sa_class_index(&sa_size_classes.of[s->cls], (uintptr_t)s->proxy - span->start);

    return index >= 0 && sa_load_relaxed(&span->bits) >> index & 1;
}

/* The free objects on the span of the proxy for each used one: the share of the block in the free
 * memory that used objects keep from other use. A lent proxy counts as used. */
static double sample_waste(const struct sa_sample *s)
{
    const struct sa_span *span = s->proxy ? sa_pagemap_span((uintptr_t)s->proxy) : NULL;
    unsigned objects = span ? sa_load_relaxed(&span->objects) : 0,
             used = span ? sa_load_relaxed(&span->live) : 0;

    if (span && s->lent && proxy_is_free(s, span))
        used++;
    used = sa_min(used, objects); /* they were read one after the other */
    return objects > 1 && used ? (double)(objects - used) / used : 0;
}

void sa_sample_copy_gone(const struct sa_sample *s, struct sa_sample_copy *ret)
{
    ret->key = sa_sample_key(s);
    ret->samples = 1;
    ret->offset = s->offset;
    ret->hits = s->hits;
    ret->waste = 0;
    ret->start = 0;
    ret->address = s->address;
    ret->tid = s->tid;
    ret->time_ns = s->time_ns;
    ret->number = s->number;
    sa_stack_ref(s->stack);
}

void sa_sample_copy_live(const struct sa_sample *s, struct sa_sample_copy *ret)
{
    sa_sample_copy_gone(s, ret);
    ret->waste = sample_waste(s);
    ret->start = s->address;
}

void sa_sample_copy_sums(const struct sa_bucket *bucket, struct sa_sample_copy *ret)
{
    *ret = (struct sa_sample_copy){.key = bucket->key,
                                   .samples = bucket->samples,
                                   .offset = bucket->offsets,
                                   .hits = bucket->hits};
    sa_stack_ref(bucket->key.stack);
}
