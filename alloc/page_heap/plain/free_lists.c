/* SPDX-License-Identifier: Apache-2.0 */
/* Free spans by length; see free_lists.h. Lists are doubly linked and end in NULL. */
#include "alloc/page_heap/plain/free_lists.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

/* In a list of several lengths, the search looks at this many spans before it goes on to longer
 * ones. */
#define FREE_LIST_TRIES 16

unsigned sa_free_list_index(size_t pages)
{
    unsigned shift;

    if (pages < SA_FREE_LIST_EXACT)
        return (unsigned)pages;
    shift = sa_log2(pages) - 3;
    return SA_FREE_LIST_EXACT + (shift - 4) * 8 + (unsigned)((pages >> shift) - 8);
}

void sa_free_lists_add(struct sa_free_lists *lists, struct sa_span *span)
{
    unsigned i = sa_free_list_index(span->pages);

    SA_DCHECK(span->pages > 0);
    span->prev = NULL;
    span->next = lists->first[i];
    if (span->next)
        span->next->prev = span;
    lists->first[i] = span;
    lists->filled[i / 64] |= 1ull << i % 64;
    sa_count_add(&lists->pages, span->pages);
}

void sa_free_lists_remove(struct sa_free_lists *lists, struct sa_span *span)
{
    unsigned i = sa_free_list_index(span->pages);

    SA_DCHECK(lists->pages >= span->pages);
    SA_DCHECK(span->prev ? span->prev->next == span : lists->first[i] == span);
    for (struct sa_free_walk *w = lists->walks; SA_UNLIKELY(w != NULL); w = w->other)
        if (w->at == span)
            w->at = span->next;
    if (span->next)
        span->next->prev = span->prev;
    if (span->prev)
        span->prev->next = span->next;
    else if (!(lists->first[i] = span->next))
        lists->filled[i / 64] &= ~(1ull << i % 64);
    sa_count_add(&lists->pages, -(size_t)span->pages);
}

static bool free_span_holds(const struct sa_span *span, size_t pages, size_t align)
{
    uintptr_t at = sa_align_up(span->start, align << SA_PAGE_SHIFT);

    return at + (pages << SA_PAGE_SHIFT) <= sa_span_end(span);
}

struct sa_span *sa_free_lists_find(const struct sa_free_lists *lists, size_t pages, size_t align)
{
    unsigned from = sa_free_list_index(pages), word = from / 64;
    uint64_t bits = lists->filled[word] & ~0ull << from % 64;

    for (;;) {
        for (; bits; bits &= bits - 1) {
            unsigned i = word * 64 + sa_lowest_bit(bits);
            struct sa_span *best = NULL;
            int tries = FREE_LIST_TRIES;

            for (struct sa_span *s = lists->first[i]; s && tries; s = s->next, tries--)
                if (free_span_holds(s, pages, align) && (!best || s->pages < best->pages))
                    best = s;
            if (best)
                return best;
        }
        if (++word == SA_FREE_LISTS / 64)
            return NULL;
        bits = lists->filled[word];
    }
}

SA_RARE struct sa_span *sa_free_lists_longest(const struct sa_free_lists *lists)
{
    for (unsigned word = SA_FREE_LISTS / 64; word-- > 0;)
        if (lists->filled[word])
            return lists->first[word * 64 + sa_log2(lists->filled[word])];
    return NULL;
}

/* The first list from i on that is not empty; SA_FREE_LISTS: none. */
static unsigned lists_next(const struct sa_free_lists *lists, unsigned i)
{
    for (; i < SA_FREE_LISTS; i = sa_align_down(i, 64) + 64) {
        uint64_t bits = lists->filled[i / 64] & ~0ull << i % 64;

        if (bits)
            return i / 64 * 64 + sa_lowest_bit(bits);
    }
    return SA_FREE_LISTS;
}

SA_RARE void sa_free_lists_begin(struct sa_free_lists *lists, struct sa_free_walk *w)
{
    w->list = 0;
    w->at = lists->first[0];
    w->other = lists->walks;
    lists->walks = w;
}

SA_RARE struct sa_span *sa_free_lists_step(const struct sa_free_lists *lists,
                                           struct sa_free_walk *w)
{
    struct sa_span *span;

    if (!w->at) {
        w->list = lists_next(lists, w->list + 1);
        if (w->list == SA_FREE_LISTS)
            return NULL;
        w->at = lists->first[w->list];
    }
    span = w->at;
    w->at = span->next;
    return span;
}

SA_RARE void sa_free_lists_end(struct sa_free_lists *lists, struct sa_free_walk *walk)
{
    struct sa_free_walk **w = &lists->walks;

    while (*w != walk) {
        SA_DCHECK(*w);
        w = &(*w)->other;
    }
    *w = walk->other;
}
