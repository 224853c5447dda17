/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepages of a target's heap: their trackers and regions, as records of this program, entered
 * in its hugepage map; see state.h. The library walks the map by address, from one record to the
 * next, so a record is entered only where it says that it lies.
 */
#include "tool/stats/state.h"

#include "alloc/base/thread_safety.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include <stdlib.h>
#include <string.h>

#define WINDOWS_MAX  64         /* of 64 GiB, beside the home window */
#define TRACKERS_MAX (1u << 20) /* 2 TiB */
#define REGIONS_MAX  1024

#define HEAP  "struct sa_huge_heap"
#define HOME  (SA_HOME_START >> SA_HOME_SHIFT)
#define LIMIT (SA_OWNER_WINDOWS * SA_OWNERS)

static const struct sa_own_field tracker_fields[] = {
    SA_OWN_FIELD(struct sa_huge_tracker, hugepage),
    SA_OWN_FIELD(struct sa_huge_tracker, range.taken),
    SA_OWN_FIELD(struct sa_huge_tracker, range.longest),
    SA_OWN_FIELD(struct sa_huge_tracker, range.allocations),
    SA_OWN_FIELD(struct sa_huge_tracker, since_ns),
    SA_OWN_FIELD(struct sa_huge_tracker, taken),
    SA_OWN_FIELD(struct sa_huge_tracker, unbacked),
    SA_OWN_FIELD(struct sa_huge_tracker, unbacked_pages),
    SA_OWN_FIELD(struct sa_huge_tracker, moving_pages),
    SA_OWN_FIELD(struct sa_huge_tracker, set),
    SA_OWN_FIELD(struct sa_huge_tracker, subreleased),
    SA_OWN_FIELD(struct sa_huge_tracker, eager),
};

static const struct sa_own_field region_fields[] = {
    SA_OWN_FIELD(struct sa_huge_region, hugepage),
    SA_OWN_FIELD(struct sa_huge_region, range.taken),
    SA_OWN_FIELD(struct sa_huge_region, range.longest),
    SA_OWN_FIELD(struct sa_huge_region, range.allocations),
    SA_OWN_FIELD(struct sa_huge_region, eager),
    SA_OWN_FIELD(struct sa_huge_region, moving_pages),
    SA_OWN_FIELD(struct sa_huge_region, unbacked_pages),
    SA_OWN_FIELD(struct sa_huge_region, taken),
    SA_OWN_FIELD(struct sa_huge_region, unbacked_in),
    SA_OWN_FIELD(struct sa_huge_region, since_ns),
    SA_OWN_FIELD(struct sa_huge_region, words),
    SA_OWN_FIELD(struct sa_huge_region, unbacked),
};

#define COUNT(fields) ((unsigned)(sizeof(fields) / sizeof(*(fields))))

struct hugepages {
    struct sa_state *s;
    struct sa_huge_heap *own;
    struct sa_plan tracker;
    uint64_t home, windows; /* places in the target */
    unsigned mapped, trackers;
    bool no_memory;
};

/* This program's table of a window, made where there is none; NULL: there are too many. */
static uintptr_t *own_window(struct hugepages *h, size_t w)
{
    struct sa_hugepage_map *owners = &h->own->owners;

    if (w == HOME)
        return owners->home;
    if (w >= SA_OWNER_WINDOWS || (!owners->windows[w] && h->mapped == WINDOWS_MAX))
        return NULL;
    if (!owners->windows[w]) {
        owners->windows[w] = calloc(SA_OWNERS, sizeof(uintptr_t));
        h->no_memory |= !owners->windows[w];
        h->mapped++;
    }
    return owners->windows[w];
}

static bool read_tracker(struct hugepages *h, uint64_t address, size_t hugepage,
                         struct sa_huge_tracker *ret)
{
    return sa_plan_read(h->s->target, &h->tracker, address, ret) && ret->hugepage == hugepage &&
           ret->set < SA_FILLER_SETS && ret->range.taken <= SA_HUGE_PAGES &&
           ret->range.longest <= SA_HUGE_PAGES && ret->moving_pages <= ret->range.taken &&
           ret->unbacked_pages <= SA_HUGE_PAGES - ret->range.taken;
}

static void take_tracker(struct hugepages *h, uint64_t address, size_t hugepage, uintptr_t *entry)
{
    struct sa_huge_tracker *own;

    if (h->trackers++ >= TRACKERS_MAX) {
        h->s->dropped++;
        return;
    }
    own = aligned_alloc(SA_CACHELINE, sizeof(*own));
    h->no_memory |= !own;
    if (!own)
        return;
    memset(own, 0, sizeof(*own));
    if (!read_tracker(h, address, hugepage, own) && !read_tracker(h, address, hugepage, own)) {
        h->s->dropped++;
        free(own);
        return;
    }
    own->range.words = own->taken;
    own->range.pages = SA_HUGE_PAGES;
    *entry = (uintptr_t)own;
}

/* The trackers of the hugepages [from, to) of a window. */
static void take_window(struct hugepages *h, size_t w, size_t from, size_t to)
{
    uint64_t table = w == HOME ? h->home : sa_state_word(h->s, h->windows + w * sizeof(uint64_t));
    uint64_t *theirs;
    uintptr_t *own;

    if (!table)
        return;
    own = own_window(h, w);
    theirs = calloc(SA_OWNERS, sizeof(*theirs));
    h->no_memory |= !theirs;
    if (own && theirs &&
        sa_target_read(h->s->target, table + from * sizeof(*theirs), theirs + from,
                       (to - from) * sizeof(*theirs))) {
        for (size_t i = from; i < to && !h->no_memory; i++) {
            uint64_t owner = theirs[i] & ~SA_OWNER_ADVICE;

            if (owner && !(owner & SA_HUGE_OWNER_REGION))
                take_tracker(h, owner, w * SA_OWNERS + i, &own[i]);
        }
    } else {
        h->s->dropped++;
    }
    free(theirs);
}

static bool read_region(struct hugepages *h, uint64_t address, struct sa_huge_region *own)
{
    for (unsigned i = 0; i < COUNT(region_fields); i++) {
        const struct sa_own_field *f = &region_fields[i];
        struct sa_field theirs =
            sa_table_field(h->s->table, "struct sa_huge_region", f->name, h->s->e);

        if (h->s->e->code || theirs.bytes != f->bytes ||
            !sa_target_read(h->s->target, address + theirs.offset, (char *)own + f->offset,
                            f->bytes))
            return false;
    }
    return own->hugepage < LIMIT - SA_REGION_HUGEPAGES && own->range.taken <= SA_REGION_PAGES &&
           own->moving_pages <= own->range.taken;
}

/* No analysis here and below: this process has one thread. */
static void enter_region(struct hugepages *h,
                         struct sa_huge_region *own) SA_NO_THREAD_SAFETY_ANALYSIS
{
    for (size_t at = own->hugepage; at < own->hugepage + SA_REGION_HUGEPAGES; at++) {
        uintptr_t *window = own_window(h, at / SA_OWNERS);

        if (window)
            window[at % SA_OWNERS] = (uintptr_t)own | SA_HUGE_OWNER_REGION;
    }
    own->range.words = own->words;
    own->range.pages = SA_REGION_PAGES;
    own->next = h->own->regions;
    h->own->regions = own;
}

static void take_regions(struct hugepages *h) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint64_t address = sa_state_word(h->s, sa_state_place(h->s, "huge", HEAP, "regions"));
    struct sa_field next = sa_table_field(h->s->table, "struct sa_huge_region", "next", h->s->e);

    h->own->regions = NULL;
    for (unsigned i = 0; address && !h->s->e->code; i++) {
        struct sa_huge_region *own = i < REGIONS_MAX ? calloc(1, sizeof(*own)) : NULL;

        h->no_memory |= i < REGIONS_MAX && !own;
        if (!own || !read_region(h, address, own)) {
            h->s->dropped++;
            free(own);
            return;
        }
        enter_region(h, own);
        address = sa_state_word(h->s, address + next.offset);
    }
}

/* The span that was freed last counts as free, as in the target's own report, which first gives it
 * back to its hugepage. */
static void take_recent(struct hugepages *h) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint64_t address = sa_state_word(h->s, sa_state_place(h->s, "huge", HEAP, "recent"));
    struct sa_field start = sa_table_field(h->s->table, "struct sa_span", "start", h->s->e);
    struct sa_field length = sa_table_field(h->s->table, "struct sa_span", "pages", h->s->e);
    struct sa_huge_tracker *t;
    uint64_t at, pages;

    if (h->s->e->code || !address || !sa_field_read(h->s->target, address, start, &at) ||
        !sa_field_read(h->s->target, address, length, &pages) || !pages || pages > SA_HUGE_PAGES)
        return;
    t = sa_hugepage_map_tracker(&h->own->owners, at >> SA_HUGE_SHIFT);
    if (!t || sa_huge_page_in(at) + pages > SA_HUGE_PAGES ||
        sa_bits_count(t->taken, sa_huge_page_in(at), (uint32_t)pages) != pages ||
        t->range.taken < pages)
        return;
    sa_range_put(&t->range, sa_huge_page_in(at), (uint32_t)pages, t->range.allocations != 0);
    h->own->filler.taken_pages -= pages;
}

bool sa_state_take_hugepages(struct sa_state *s) SA_NO_THREAD_SAFETY_ANALYSIS
{
    struct hugepages h = {.s = s, .own = &sa_huge_heap_ordinary};
    size_t first = h.own->first, end = h.own->end;

    h.home = sa_state_place(s, "huge", HEAP, "owners.home");
    h.windows = sa_state_place(s, "huge", HEAP, "owners.windows");
    if (s->e->code || !sa_plan_make(s->table, "struct sa_huge_tracker", tracker_fields,
                                    COUNT(tracker_fields), &h.tracker, s->e))
        return false;
    if (first > end || end > LIMIT)
        return sa_state_damaged(s, "the range of the heap");
    for (size_t w = first / SA_OWNERS; end && w <= (end - 1) / SA_OWNERS && !h.no_memory; w++)
        take_window(&h, w, w == first / SA_OWNERS ? first % SA_OWNERS : 0,
                    w == (end - 1) / SA_OWNERS ? (end - 1) % SA_OWNERS + 1 : SA_OWNERS);
    take_regions(&h);
    if (!s->e->code)
        take_recent(&h);
    if (h.no_memory)
        sa_error_set(s->e, SA_EXIT_FAILED, "there is no memory for its hugepages");
    return !s->e->code;
}
