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
#include "alloc/middle/central_emptied.h"
#include "alloc/middle/central_spans.h"
#include "alloc/os/scratch.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "pagemap/pagemap.h"

/* Spans that are emptied at a time. */
#define LOTS 32

/* A span, its free objects, and its pages that go back: bit i is the kernel's page i of the span.
 */
struct lot {
    struct sa_span *span;
    uint64_t objects, pages;
};

/* Pages that have nothing but free objects. */
static uint64_t free_pages(const struct sa_span *s, size_t size)
{
    uint64_t used = ~s->bits & sa_bits_between(0, s->objects - 1u);

    return ~sa_pages_of(used, size) &
           sa_bits_between(0, (sa_span_bytes(s) >> sa_kernel_page_shift()) - 1);
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
        uint64_t run = sa_bits_between(first, first + n - 1);

        if (!sa_vm_release((void *)(lot->span->start + (first << sa_kernel_page_shift())),
                           n << sa_kernel_page_shift()))
            break;
        left &= ~run;
    }
    lot->pages &= ~left;
    return !left;
}

/* The pages count as memory no more, and the objects are free again. Returns the bytes. */
static size_t put_back(unsigned cls, struct central *c, const struct lot *lot, void *objs[64])
{
    size_t given = (size_t)__builtin_popcountll(lot->pages) << sa_kernel_page_shift(), n = 0;

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

/* What empty_class keeps in scratch memory. */
struct emptying {
    struct lot lots[LOTS];
    void *objs[64];
};

static size_t empty_class(unsigned cls, size_t bytes)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    struct emptying *e = sa_scratch_take();
    bool done = true;
    size_t n, given = 0;

    if (!e) /* what is not given now is given later */
        return 0;
    do {
        sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
        n = take(c, sa_size_classes.of[cls].size, e->lots);
        sa_lock_release(&c->lock, SA_RANK_CENTRAL);
        for (size_t i = 0; i < n; i++) {
            done &= release(&e->lots[i]);
            given += put_back(cls, c, &e->lots[i], e->objs);
        }
    } while (n == LOTS && given < bytes && done);
    sa_scratch_give(e);
    return given;
}

size_t sa_central_empty(size_t bytes)
{
    size_t given = 0;

    if (sa_hardening.on) /* free objects have content */
        return 0;
    sa_store_relaxed(&sa_central_empties, true);
    for (unsigned cls = sa_size_classes.count; --cls && given < bytes;) {
        if (sa_span_can_empty(cls) && sa_class_is_used(cls))
            given += empty_class(cls, bytes - given);
    }
    return given;
}
