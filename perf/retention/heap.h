/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own page heap on memory that is only numbers, and a meter. A trace is replayed
 * against it. Placement, refaults and hugepages are therefore the library's, not a model's.
 *
 * The meter adds up what pages cost (alloc/policy/retention.h): SA_HOLD_NS for each second and free
 * backed page, SA_PRICE_WHOLE_NS for each page that is touched first or again, and
 * SA_PRICE_INSIDE_NS for a page that was released inside of a hugepage in use. As where the system
 * makes hugepages always, the first touch of a fresh hugepage backs all of it.
 *
 * One heap for a process.
 */
#ifndef PERF_RETENTION_HEAP_H
#define PERF_RETENTION_HEAP_H

#include "alloc/policy/retention.h"

struct sa_span;

struct heap_meter {
    uint64_t now_ns;
    double hold_ns, touch_ns; /* the costs */
    double free_page_s;       /* free backed page-seconds */
    size_t peak;              /* most backed pages, free ones among them */
    uint64_t whole, inside;   /* pages touched at either price */
    uint64_t released;
};

extern struct heap_meter meter;

/* own_rules: the heap releases as the library does. Else only the functions below release. */
void heap_begin(bool own_rules);

struct heap_take {
    size_t pages, align;
    bool dense;
};

struct sa_span *heap_take(const struct heap_take *what);
void heap_give(struct sa_span *span, bool zero);
/* False: there is no room behind the span. */
bool heap_resize(struct sa_span *span, size_t pages);
struct sa_span *heap_split(struct sa_span *span, size_t pages);
/* False: they lie apart here, or cannot be joined. */
bool heap_join(struct sa_span *span, struct sa_span *next);

/* Time passes: what is free costs. */
void heap_pass(uint64_t now_ns);

/* The library's maintenance: time for the components, and its own rules. wasteful: mixed spans said
 * lately that much memory is wasted. */
void heap_tick(bool wasteful);

/* What the library's slow paths do between ticks: a step in releasing what is due. */
void heap_step(void);

void heap_sums(struct sa_retention_sums *ret);

/* Releases as many pages if there are. inside: of hugepages with at least 32 free ones, or of such
 * that have lost some before. Returns how many. */
size_t heap_release_whole(size_t pages);
size_t heap_release_inside(size_t pages);

#endif
