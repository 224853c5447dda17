/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free objects without memory; see central_empty.h. The free objects of a span whose pages go back
 * are taken off it as if they were handed out, so that the system call needs no lock, and inserted
 * again.
 */
#include "alloc/middle/central_empty.h"

#include "alloc/base/bits.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_spans.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "pagemap/pagemap.h"

/* Spans that are emptied at a time. */
#define LOTS 32

SA_START_DATA bool sa_central_empties;

/* A span, its free objects, and its pages that go back: bit i is the kernel's page i of the span.
 */
struct lot {
    struct sa_span *span;
    uint64_t objects, pages;
};

SA_INLINE unsigned page_shift(void)
{
    return (unsigned)sa_lowest_bit(sa_vm.page_bytes);
}

/* Bits first to last of a word. */
SA_INLINE uint64_t bits_between(size_t first, size_t last)
{
    return ~0ull << first & ~0ull >> (63 - last);
}

/* Whether words hold a bit for each object and each page of a span, which the span's record has
 * room for. A span of one object goes back as a whole. */
static bool can_empty(const struct sa_class *k)
{
    size_t pages = ((size_t)k->pages << SA_PAGE_SHIFT) >> page_shift();

    return k->objects > 1 && k->objects <= 64 && pages > 1 && pages <= 64;
}

/* Pages that have a part of one of the objects. */
static uint64_t pages_of(uint64_t objects, size_t size)
{
    uint64_t pages = 0;

    for (uint64_t b = objects; b; b &= b - 1) {
        size_t start = sa_lowest_bit(b) * size;

        pages |= bits_between(start >> page_shift(), (start + size - 1) >> page_shift());
    }
    return pages;
}

/* Pages that have nothing but free objects. */
static uint64_t free_pages(const struct sa_span *s, size_t size)
{
    uint64_t used = ~s->bits & bits_between(0, s->objects - 1u);

    return ~pages_of(used, size) & bits_between(0, (sa_span_bytes(s) >> page_shift()) - 1);
}

/* Takes the free objects of spans in use of which pages can go back, from the fullest span on; of
 * how many spans. */
static size_t take(struct central *c, size_t size, struct lot *lots) SA_REQUIRES(SA_RANK_CENTRAL)
{
    size_t got = 0;

    for (unsigned list = 0; list < NEW_LIST && got < LOTS; list++) {
        struct sa_span *next;

        for (struct sa_span *s = c->lists[list]; s && got < LOTS; s = next) {
            struct lot lot = {s, s->bits, free_pages(s, size) & ~s->emptied};
            unsigned before = central_load(s), count;

            next = s->next; /* the span goes to no list */
            if (!lot.pages || s->pins == UINT16_MAX)
                continue;
            s->pins++; /* it does not become mixed meanwhile (central_mix.c) */
            count = (unsigned)__builtin_popcountll(lot.objects);
            sa_store_relaxed(&s->bits, 0);
            sa_store_relaxed(&s->live, (uint16_t)(s->live + count));
            central_count_free(c, -(size_t)count);
            central_place(c, s, before);
            lots[got++] = lot;
        }
    }
    return got;
}

/* Gives pages back, neighbours together. Keeps in `pages` those that the kernel took; returns
 * false if it refused one. */
static bool release(struct lot *lot)
{
    uint64_t left = lot->pages;

    while (left) {
        size_t first = sa_lowest_bit(left), n = sa_lowest_bit(~(left >> first) | 1ull << 63);
        uint64_t run = bits_between(first, first + n - 1);

        if (!sa_vm_release((void *)(lot->span->start + (first << page_shift())), n << page_shift()))
            break;
        left &= ~run;
    }
    lot->pages &= ~left;
    return !left;
}

/* The pages count as memory no more, and the objects are free again. Returns the bytes. */
static size_t put_back(unsigned cls, struct central *c, const struct lot *lot)
{
    size_t given = (size_t)__builtin_popcountll(lot->pages) << page_shift(), n = 0;
    void *objs[64];

    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    lot->span->emptied |= lot->pages;
    lot->span->pins--;
    c->emptied_bytes += given;
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    sa_footprint_empty((int64_t)given);
    for (uint64_t b = lot->objects; b; b &= b - 1)
        objs[n++] =
            (void *)(lot->span->start + sa_lowest_bit(b) * (size_t)sa_size_classes.of[cls].size);
    sa_central_insert(cls, objs, n);
    return given;
}

static size_t empty_class(unsigned cls, size_t bytes)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    struct lot lots[LOTS];
    bool done = true;
    size_t n, given = 0;

    do {
        sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
        n = take(c, sa_size_classes.of[cls].size, lots);
        sa_lock_release(&c->lock, SA_RANK_CENTRAL);
        for (size_t i = 0; i < n; i++) {
            done &= release(&lots[i]);
            given += put_back(cls, c, &lots[i]);
        }
    } while (n == LOTS && given < bytes && done);
    return given;
}

size_t sa_central_empty(size_t bytes)
{
    size_t given = 0;

    if (sa_hardening.on) /* free objects have content */
        return 0;
    sa_store_relaxed(&sa_central_empties, true);
    for (unsigned cls = sa_size_classes.count; --cls && given < bytes;) {
        if (can_empty(&sa_size_classes.of[cls]) && sa_class_is_used(cls))
            given += empty_class(cls, bytes - given);
    }
    return given;
}

void sa_central_refill(struct central *c, struct sa_span *s, uint64_t taken)
{
    const struct sa_class *k = &sa_size_classes.of[s->cls];
    uint64_t pages;
    size_t bytes;

    if (!can_empty(k) || !s->emptied)
        return;
    pages = s->emptied & (taken == ~0ull ? taken : pages_of(taken, k->size));
    bytes = (size_t)__builtin_popcountll(pages) << page_shift();
    s->emptied &= ~pages;
    c->emptied_bytes -= bytes;
    sa_footprint_empty(-(int64_t)bytes);
    if (sa_limits_surplus(SA_LIMIT_SOFT))
        sa_store_relaxed(&sa_limits.soft_due, true);
}
