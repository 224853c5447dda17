/* SPDX-License-Identifier: Apache-2.0 */
/* Many spans of the ordinary heap, on the fake system; see heap_spans.h. */
#include "test/support/heap_spans.h"

#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "test/support/cmocka.h"

struct sa_span *spans[SPANS], *live[SPANS];

void spans_begin(void)
{
    program_begin("always [madvise] never\n", 1);
    sa_page_heap_tick(HEAP, program.now_ns);
}

void spans_take(struct sa_span **of, size_t n, size_t pages)
{
    for (size_t i = 0; i < n; i++)
        assert_non_null(of[i] = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY));
}

void spans_give(struct sa_span **of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (of[i])
            sa_page_heap_free(HEAP, of[i], false);
}

void spans_tick(void)
{
    sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
}

size_t spans_backed(void)
{
    struct sa_huge_heap *h = HEAP->huge;
    size_t pages;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    pages = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return pages / PAGES_MIB;
}

size_t spans_released(void)
{
    struct sa_page_heap_stats stats;

    sa_page_heap_stats(HEAP, &stats);
    return stats.released_ever_bytes / MIB;
}
