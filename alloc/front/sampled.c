/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of sampled blocks; see sampled.h. A block belongs to its owner, so nothing here is
 * shared. */
#include "alloc/front/sampled.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/large.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/page_heap.h"

#include <string.h>

/*
 * A process that keeps all memory (sa_limits_keep_all) expects no page fault, and its reserve is
 * ordinary memory. Where the sampled heap has no backed pages left, a sampled block is a large one.
 * Returns whether this block is to be.
 */
static bool sampled_is_large(size_t bytes, size_t align)
{
    return sa_limits_keep_all() && !sa_hardening.on &&
           !sa_page_heap_has_backed(&sa_page_heap_sampled, sa_large_pages(bytes),
                                    align >> SA_PAGE_SHIFT);
}

void *sa_sampled_begin(struct sa_sampling_decision *decision, unsigned cls, void *object,
                       size_t content, size_t size, size_t align)
{
    enum sa_proxy proxy = sa_sampler_proxy(cls, &decision->rate);
    void *p;

    SA_DCHECK(sa_thread.gate_depth && decision->sampled && cls && object);
    SA_DCHECK(content <= sa_size_classes.of[cls].size && size <= sa_size_classes.of[cls].size);
    if (SA_UNLIKELY(sampled_is_large(sa_size_classes.of[cls].size, align))) {
        p = sa_large_alloc_sampled(size, align, sa_size_classes.of[cls].size, decision);
        if (p) {
            memcpy(p, object, content);
            sa_cpu_cache_free(cls, object);
        }
        return p;
    }
    if (proxy == SA_PROXY_LENT && !sa_central_pin(cls, object, true))
        proxy = SA_PROXY_HELD;
    p = sa_sampler_take(decision, cls, object, proxy, size, align);
    if (SA_UNLIKELY(!p)) {
        if (proxy == SA_PROXY_LENT)
            sa_central_pin(cls, object, false);
        return NULL;
    }
    memcpy(p, object, content);
    if (proxy != SA_PROXY_HELD) {
        /* The block counts as in use, for the peak, while other blocks use its object. */
        sa_in_use_add((int64_t)sa_size_classes.of[cls].size);
        sa_cpu_cache_return(cls, object);
    }
    return p;
}

SA_RARE void *sa_sampled_begin_without(struct sa_sampling_decision *decision, unsigned cls,
                                       size_t size, size_t align)
{
    int64_t bytes = (int64_t)sa_size_classes.of[cls].size;
    void *p;

    SA_DCHECK(sa_thread.gate_depth && decision->sampled && cls && size <= (size_t)bytes);
    SA_DCHECK(!sa_sampled_needs_object(cls, decision));
    if (SA_UNLIKELY(sampled_is_large((size_t)bytes, align)))
        return sa_large_alloc_sampled(size, align, (size_t)bytes, decision);
    /* In this order: the record says whether this block raised the high-water mark. */
    sa_in_use_add(bytes);
    sa_cpu_cache_note_use();
    p = sa_sampler_take(decision, cls, NULL, SA_PROXY_NONE, size, align);
    if (SA_LIKELY(p))
        sa_cpu_cache_count_alloc(cls, decision);
    else
        sa_in_use_add(-bytes);
    return p;
}

/* Ends a block that has no object, or whose object went back to a cache when the block began. */
static void sampled_end_returned(unsigned cls)
{
    sa_in_use_add(-(int64_t)sa_size_classes.of[cls].size);
    sa_cpu_cache_count_free(cls);
}

void sa_sampled_end(struct sa_span *span)
{
    unsigned cls;
    void *object;

    SA_DCHECK(sa_thread.gate_depth && span->heap != SA_HEAP_ORDINARY);
    switch (sa_sampler_free(span, &cls, &object)) {
    case SA_PROXY_HELD:
        sa_cpu_cache_free(cls, object);
        break;
    case SA_PROXY_LENT:
        sa_central_pin(cls, object, false);
        sampled_end_returned(cls);
        break;
    case SA_PROXY_NONE:
        sampled_end_returned(cls);
        break;
    }
}
