/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of the page heap and the kind of each; see page_heap.h. */
#include "alloc/page_heap/page_heap.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap.h"
#include "alloc/page_heap/plain/span_heap.h"

/* Set up at run time, so that they need no file pages. */
SA_LAYOUT_USED struct sa_page_heap sa_page_heap_ordinary, sa_page_heap_sampled;

static struct sa_span_heap sampled;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sampled", sampled, mapped_pages),
    SA_LAYOUT_STATE("sampled", sampled, in_use_pages),
    SA_LAYOUT_STATE("sampled", sampled, moving_pages),
    SA_LAYOUT_STATE("sampled", sampled, empty_pages),
    SA_LAYOUT_STATE("sampled", sampled, now_ns),
    SA_LAYOUT_STATE("sampled", sampled, stats),
    SA_LAYOUT_STATE("sampled", sampled, sizes),
    SA_LAYOUT_STATE("sampled", sampled, backed.pages),
    SA_LAYOUT_STATE("sampled", sampled, released.pages),
};
SA_LAYOUT_STATIC_ADDRESS("sampled", sampled);

void sa_page_heap_init(uint64_t seed)
{
    /* The heap begins at a random hugepage in the first half of the window, so that heap addresses
     * reveal nothing. If the kernel does not provide the requested address, spans lie elsewhere
     * and frees are slower. */
    uintptr_t start = SA_HOME_START + ((seed & 0x3fff) << 21);

    sa_huge_heap_init(&sa_huge_heap_ordinary, SA_HEAP_ORDINARY, "salloc:heap", start,
                      start + 2 * SA_HOME_BYTES);
    sa_page_heap_ordinary.huge = &sa_huge_heap_ordinary;
    sa_span_heap_init(&sampled, SA_HEAP_SAMPLED, "salloc:sampled", start + SA_HOME_BYTES, true);
    sa_page_heap_sampled.plain = &sampled;
}

struct sa_span *sa_page_heap_alloc(struct sa_page_heap *h, size_t pages, size_t align,
                                   enum sa_pages_use use)
{
    return h->huge ? sa_huge_heap_alloc(h->huge, pages, align, use)
                   : sa_span_heap_alloc(h->plain, pages, align);
}

SA_RARE bool sa_page_heap_has_backed(struct sa_page_heap *h, size_t pages, size_t align)
{
    return h->plain && sa_span_heap_has_backed(h->plain, pages, align);
}

void sa_page_heap_free(struct sa_page_heap *h, struct sa_span *s, bool zero)
{
    if (h->huge)
        sa_huge_heap_free(h->huge, s, zero);
    else
        sa_span_heap_free(h->plain, s, zero);
}

void sa_page_heap_emptied(struct sa_page_heap *h, struct sa_span *s)
{
    if (h->huge)
        sa_huge_heap_span_emptied(h->huge, s);
    else
        sa_span_heap_span_emptied(h->plain, s);
}

bool sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    return h->huge ? sa_huge_heap_extend(h->huge, s, pages)
                   : sa_span_heap_extend(h->plain, s, pages);
}

SA_RARE void sa_page_heap_shrink(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    if (h->huge)
        sa_huge_heap_shrink(h->huge, s, pages);
    else
        sa_span_heap_shrink(h->plain, s, pages);
}

SA_RARE struct sa_span *sa_page_heap_split(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    return h->huge ? sa_huge_heap_split(h->huge, s, pages) : NULL;
}

SA_RARE bool sa_page_heap_join(struct sa_page_heap *h, struct sa_span *s, struct sa_span *next)
{
    return h->huge && sa_huge_heap_join(h->huge, s, next);
}

SA_RARE size_t sa_page_heap_release(struct sa_page_heap *h, size_t bytes)
{
    return h->huge ? sa_huge_heap_release(h->huge, bytes) : sa_span_heap_release(h->plain, bytes);
}

SA_RARE void sa_page_heap_gather(struct sa_page_heap *h)
{
    if (h->huge)
        sa_huge_heap_gather(h->huge);
    else
        sa_span_heap_release(h->plain, PTRDIFF_MAX);
}

SA_RARE void sa_page_heap_unmap(struct sa_page_heap *h, size_t bytes)
{
    if (h->huge)
        sa_huge_heap_unmap(h->huge, bytes);
    else
        sa_span_heap_unmap(h->plain, bytes);
}

bool sa_page_heap_tick(struct sa_page_heap *h, uint64_t now_ns)
{
    return h->huge ? sa_huge_heap_tick(h->huge, now_ns) : sa_span_heap_tick(h->plain, now_ns);
}

bool sa_page_heap_step(struct sa_page_heap *h)
{
    return h->huge && sa_huge_heap_step(h->huge);
}

uint64_t sa_page_heap_collapse(struct sa_page_heap *h, uint64_t max_ns)
{
    return h->huge && !sa_limits_keep_all() && sa_huge_heap_collapse_due(h->huge)
               ? sa_huge_heap_collapse(h->huge, max_ns)
               : 0;
}

/* Free spans of a plain heap are in the radix map, where the caller has looked before. */
SA_RARE bool sa_page_heap_is_free(struct sa_page_heap *h, uintptr_t address)
{
    return h->huge && sa_huge_heap_is_free(h->huge, address);
}

SA_RARE void sa_page_heap_prepare(struct sa_page_heap *h)
{
    if (h->huge)
        sa_huge_heap_prepare(h->huge);
}

void sa_page_heap_set_hugepages(struct sa_page_heap *h, enum sa_hugepages choice)
{
    if (h->huge)
        sa_huge_heap_set_hugepages(h->huge, choice);
}

uint64_t sa_page_heap_freed(struct sa_page_heap *h)
{
    return h->huge ? sa_huge_heap_freed(h->huge) : sa_load_relaxed(&h->plain->freed_bytes);
}

SA_RARE void sa_page_heap_stats(struct sa_page_heap *h, struct sa_page_heap_stats *ret)
{
    if (h->huge)
        sa_huge_heap_stats(h->huge, ret);
    else
        sa_span_heap_stats(h->plain, ret);
}

SA_RARE bool sa_page_heap_walk(struct sa_page_heap *h, struct sa_size_info *sizes,
                               struct sa_span_ages *ages)
{
    if (h->plain)
        sa_span_heap_walk(h->plain, sizes, ages);
    return h->plain != NULL;
}

SA_RARE bool sa_page_heap_coverage(struct sa_page_heap *h, struct sa_vm_coverage *ret)
{
    uintptr_t start, end;

    if (!h->huge)
        return false;
    sa_huge_heap_range(h->huge, &start, &end);
    return sa_vm_coverage(start, end, ret);
}

SA_RARE bool sa_page_heap_huge_stats(struct sa_page_heap *h, struct sa_huge_stats *ret)
{
    if (h->huge)
        sa_huge_heap_report(h->huge, ret);
    return h->huge != NULL;
}
