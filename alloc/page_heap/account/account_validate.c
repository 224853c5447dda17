/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what the page heaps account for: the footprint, which the limits compare, and the spans by
 * length. Debug builds run it at ticks of a heap, under the heap's lock.
 */
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/size_info.h"

void sa_limits_validate(unsigned heap, size_t used_bytes)
{
    unsigned active = sa_load_acquire(&sa_limits.active);

    SA_CHECK(heap < SA_FOOTPRINT_HEAPS);
    SA_CHECK(sa_load_relaxed(&sa_footprint.used[heap]) == used_bytes);
    SA_CHECK(sa_footprint_gross_bytes() >= used_bytes); /* the other may be less: emptied pages */
    SA_CHECK((active & ~(SA_LIMITS_OWN | SA_LIMITS_GROUP)) == 0);
}

void sa_size_info_validate(const struct sa_size_info *info, size_t spans, size_t pages)
{
    size_t live_spans = 0, live_pages = 0, small = 0;

    for (unsigned i = 0; i < SA_SIZE_BUCKETS; i++) {
        struct sa_size_pages p = sa_size_info_pages(info, i);
        size_t live = info->count[i].allocs - info->count[i].frees;

        SA_CHECK(p.allocated - p.freed >= live * sa_size_info_min(i));
        SA_CHECK(p.allocated - p.freed <= live * sa_size_info_max(i));
        live_spans += live;
        live_pages += p.allocated - p.freed;
        small += i < SA_SIZE_EXACT ? p.allocated - p.freed : 0;
    }
    SA_CHECK(live_spans == spans);
    SA_CHECK(live_pages == pages);
    SA_CHECK(info->small_live_pages == small);
}
