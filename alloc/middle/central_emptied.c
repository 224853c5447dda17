/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of free objects that hold no memory; see central_emptied.h. */
#include "alloc/middle/central_emptied.h"

#include "alloc/base/size_class.h"
#include "alloc/middle/central_spans.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"

SA_START_DATA bool sa_central_empties;

bool sa_span_can_empty(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t pages = ((size_t)k->pages << SA_PAGE_SHIFT) >> sa_kernel_page_shift();

    return k->objects > 1 && k->objects <= 64 && pages > 1 && pages <= 64;
}

uint64_t sa_pages_of(uint64_t objects, size_t size)
{
    uint64_t pages = 0;

    for (uint64_t b = objects; b; b &= b - 1) {
        size_t start = sa_lowest_bit(b) * size;

        pages |= sa_bits_between(start >> sa_kernel_page_shift(),
                                 (start + size - 1) >> sa_kernel_page_shift());
    }
    return pages;
}

bool sa_span_is_emptied(const struct sa_span *s)
{
    return sa_span_can_empty(s->cls) && s->emptied;
}

void sa_central_forget_emptied(struct central *c, struct sa_span *s, uint64_t taken)
{
    const struct sa_class *k = &sa_size_classes.of[s->cls];
    uint64_t pages = s->emptied & (taken == ~0ull ? taken : sa_pages_of(taken, k->size));
    size_t bytes = (size_t)__builtin_popcountll(pages) << sa_kernel_page_shift();

    s->emptied &= ~pages;
    c->emptied_bytes -= bytes;
    sa_footprint_empty(-(int64_t)bytes);
}

void sa_central_refill(struct central *c, struct sa_span *s, uint64_t taken)
{
    if (!sa_span_is_emptied(s))
        return;
    sa_central_forget_emptied(c, s, taken);
    if (sa_limits_surplus(SA_LIMIT_SOFT))
        sa_store_relaxed(&sa_limits.soft_due, true);
}
