/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filler: packs spans of up to a hugepage into as few hugepages as possible. Each of its
 * hugepages has a tracker. A request goes to the hugepage with the shortest longest free run that
 * holds it. Among these, it goes to the one with most allocations, so that nearly empty hugepages
 * become empty. Partially released hugepages (`subreleased`) are used last. Spans of many objects
 * (dense) and of few objects (sparse) do not share hugepages, because their lifetimes differ.
 *
 * A page of a hugepage is taken, free and backed, or free and unbacked: then it reads as zero. All
 * pages of a hugepage fresh from the system are unbacked; that does not make it subreleased. If the
 * kernel backs all pages of a hugepage at once (`eager`), the pages noted as unbacked count as free
 * and backed: they still read as zero.
 *
 * No lock of its own, no system call. sa_huge_filler_begin marks pages as taken, the caller
 * releases them, and sa_huge_filler_end notes the result. The time is that of the last
 * sa_huge_filler_tick.
 *
 * Invariants:
 * F1  pages = taken (moving ones among them) + free + unbacked, for each hugepage and in the sums.
 * F2  a tracker is in the list of its kind, density, longest run and allocations, and in the
 *     bucket of its free backed pages.
 * F3  unbacked pages of hugepages that are not subreleased are counted apart.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_FILLER_H
#define SA_PAGE_HEAP_HUGE_HUGE_FILLER_H

#include "alloc/base/bits.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/range_tracker.h"
#include "alloc/page_heap/huge/sliding_window.h"

#define SA_HUGE_WORDS    (SA_HUGE_PAGES / 64)
#define SA_FILLER_CHUNKS 8 /* lists for each longest run, by the number of allocations */
#define SA_FILLER_LISTS  ((SA_HUGE_PAGES + 1) * SA_FILLER_CHUNKS)
#define SA_FILLER_WORDS  ((SA_FILLER_LISTS + 63) / 64)
#define SA_FILLER_SETS   (2 * SA_HUGE_KINDS) /* kind, twice: sparse and dense */
#define SA_FILLER_BUCKETS                                                                          \
    (SA_HUGE_PAGES / 8 + 2) /* free backed pages: none, 1 to 7, 8 to 15, ... */
#define SA_FILLER_SLOT_NS   5000000000ull
#define SA_FILLER_REPORT_NS (SA_FILLER_SLOT_NS * SA_SLIDING_WINDOW_SLOTS) /* five minutes */

struct sa_huge_tracker {
    struct sa_huge_tracker *next, *prev;             /* list; next also links unused records */
    struct sa_huge_tracker *free_next, *free_prev;   /* bucket */
    struct sa_huge_tracker *queue_next, *queue_prev; /* candidates for a collapse */
    size_t hugepage;                                 /* number: address / SA_HUGE_BYTES */
    uint16_t tail_pages; /* pages at the start that belong to a large span that begins before */
    uint16_t abandoned;  /* pages freed by such a span while others are taken */
    uint16_t list;
    uint8_t collapses; /* times that a collapse was tried */
    bool queued;
    /* On the second cache line: the fields that reports read. */
    struct sa_range_tracker range;
    uint64_t since_ns;             /* when pages last became free */
    uint64_t taken[SA_HUGE_WORDS]; /* range's words */
    uint64_t unbacked[SA_HUGE_WORDS];
    uint16_t unbacked_pages, moving_pages;
    uint8_t set, bucket;
    bool dense;
    bool donated;      /* the only allocation is the tail of a large span */
    bool clean;        /* all of it was released while it was empty */
    bool subreleased;  /* pages were released while others were taken */
    bool no_hugepages; /* the kernel was told to keep this range out of hugepages */
    bool eager;        /* the kernel backs all its pages at once, unless subreleased */
    bool probe;        /* left to small pages, to see how much of it the program uses */
} __attribute__((aligned(SA_CACHELINE)));

_Static_assert(offsetof(struct sa_huge_tracker, range) == SA_CACHELINE, "see walk_fetch");

struct sa_filler_set {
    uint64_t summary; /* bit set = word not zero */
    uint64_t filled[SA_FILLER_WORDS];
    struct sa_huge_tracker **first; /* of the filler's lists: each second one, see sa_filler_list */
};

/* The record of one slot of time; zero before the first one. */
struct sa_filler_slot {
    struct sa_huge_moment peak_demand, peak_hugepages;
};

struct sa_huge_filler {
    struct sa_filler_set sets[SA_FILLER_SETS];
    struct sa_huge_tracker *buckets[2][SA_FILLER_BUCKETS]; /* not subreleased, subreleased */
    struct sa_huge_tracker *queue, *queue_last;            /* to be collapsed, the oldest first */
    size_t queued;                                         /* how many */
    bool eager;                                            /* the last value of set_eager */
    size_t hugepages, kinds[SA_HUGE_KINDS];
    size_t taken_pages, moving_pages;
    size_t unbacked_pages[3]; /* of trackers that are neither; subreleased; eager */
    size_t tail_pages;        /* of large spans, among the taken */
    size_t abandoned_pages;   /* of former tails whose hugepage others still use */
    uint64_t now_ns;
    size_t low_water;                              /* least free backed pages since the last tick */
    struct sa_sliding_window free_min, backed_min; /* their slots are those below */
    uint64_t subreleased_pages, subreleased_hugepages;
    /* Last, because they are large and little of them is touched. The list of sparse hugepages
     * lies beside that of dense ones. A page holds those of 32 lengths. */
    struct sa_filler_slot slots[SA_SLIDING_WINDOW_SLOTS];
    struct sa_huge_tracker *lists[SA_HUGE_KINDS][SA_FILLER_LISTS][2] __attribute__((aligned(4096)));
};

/* A set's list: its first hugepage. */
static inline struct sa_huge_tracker **sa_filler_list(const struct sa_filler_set *set, unsigned i)
{
    return &set->first[2 * i];
}

/* A tracker's list among those of its longest run, by the number of its allocations: 7 for one, 6
 * for 2, 5 for 3 and 4, and so on. Fewer allocations are in a later list. */
static inline unsigned sa_filler_chunk(uint32_t allocations)
{
    unsigned log = allocations > 1 ? sa_log2(allocations - 1) + 1 : 0;

    return SA_FILLER_CHUNKS - 1 - (unsigned)sa_min(log, SA_FILLER_CHUNKS - 1);
}

/* The bucket for a number of free backed pages. */
static inline unsigned sa_filler_bucket(uint32_t backed)
{
    return backed ? backed / 8 + 1 : 0;
}

struct sa_filler_place {
    struct sa_huge_tracker *tracker; /* NULL: no room */
    uint32_t at, n;
    uint32_t grows; /* those of the pages that count as unbacked */
    bool zero;
};

void sa_huge_filler_init(struct sa_huge_filler *f);

/* Tells the time. */
void sa_huge_filler_tick(struct sa_huge_filler *f, uint64_t now_ns);

/* Called when it is known whether the kernel backs fresh hugepages eagerly without advice.
 * Applies to the hugepages in the filler. */
void sa_huge_filler_set_eager(struct sa_huge_filler *f, bool eager);

/* Finds n pages at a multiple of align, with n + align <= a hugepage or align = n. The caller then
 * calls commit or cancel. */
struct sa_filler_place sa_huge_filler_find(struct sa_huge_filler *f, uint32_t n, uint32_t align,
                                           bool dense);

/* commit takes the pages; cancel undoes the search. */
void sa_huge_filler_commit(struct sa_huge_filler *f, const struct sa_filler_place *place,
                           bool dense);
void sa_huge_filler_cancel(const struct sa_filler_place *place);

/* Makes the record the tracker of a hugepage whose pages from unbacked_from on are unbacked. eager:
 * the kernel will back all of them at once. */
void sa_huge_filler_prepare(struct sa_huge_tracker *t, size_t hugepage, uint32_t unbacked_from,
                            bool eager);

/* Adds a hugepage whose first n pages one span takes. True if these pages were unbacked. */
bool sa_huge_filler_add(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t n,
                        bool donated, bool dense);

/* Takes pages back; unbacked: says that they are. True if no page of the hugepage is taken any
 * more. The tracker then stays until sa_huge_filler_remove. */
bool sa_huge_filler_put(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                        uint32_t n, bool unbacked);

/* extend takes the pages behind a span that lengthens; trim takes back those of one that shortens.
 */
bool sa_huge_filler_extend(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                           uint32_t n);
void sa_huge_filler_trim(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                         uint32_t n, bool unbacked);

/* A span of the hugepage has become two, or two have become one: change is 1 or -1. */
void sa_huge_filler_joined(struct sa_huge_filler *f, struct sa_huge_tracker *t, int change);

void sa_huge_filler_remove(struct sa_huge_filler *f, struct sa_huge_tracker *t);

/* Notes that the first n pages are the tail of a large span. 0: no longer. */
void sa_huge_filler_set_tail(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t n);

/* The tail is freed, while other spans keep the hugepage. */
void sa_huge_filler_abandon(struct sa_huge_filler *f, struct sa_huge_tracker *t);

/* Free backed pages, as far as is known. */
static inline size_t sa_huge_filler_backed(const struct sa_huge_filler *f)
{
    size_t free_pages = f->hugepages * SA_HUGE_PAGES - f->taken_pages;

    return free_pages - f->unbacked_pages[1] - f->unbacked_pages[0];
}

static inline uint32_t sa_huge_tracker_backed(const struct sa_huge_tracker *t)
{
    uint32_t free_pages = SA_HUGE_PAGES - t->range.taken;

    return t->eager && !t->subreleased ? free_pages : free_pages - t->unbacked_pages;
}

static inline enum sa_huge_kind sa_huge_tracker_kind(const struct sa_huge_tracker *t)
{
    if (t->subreleased)
        return sa_huge_tracker_backed(t) ? SA_HUGE_PARTIAL : SA_HUGE_RELEASED;
    return t->donated ? SA_HUGE_DONATED : SA_HUGE_REGULAR;
}

/* Those of n pages that count as unbacked. */
static inline uint32_t sa_huge_tracker_grows(const struct sa_huge_tracker *t, uint32_t at,
                                             uint32_t n)
{
    return (t->eager && !t->subreleased) || !t->unbacked_pages ? 0
                                                               : sa_bits_count(t->unbacked, at, n);
}

/* The index of sa_huge_filler.unbacked_pages for this tracker. */
static inline unsigned sa_huge_tracker_unbacked_index(const struct sa_huge_tracker *t)
{
    return t->subreleased ? 1 : t->eager ? 2 : 0;
}

/* Parts of this module: huge_filler.c and huge_filler_release.c. */
void sa_huge_filler_place(struct sa_huge_filler *f, struct sa_huge_tracker *t);
void sa_huge_filler_note(struct sa_huge_filler *f);
void sa_huge_filler_changed(struct sa_huge_filler *f, struct sa_huge_tracker *t);

/* Release: huge_filler_release.c. */

struct sa_filler_release {
    struct sa_huge_tracker *tracker;
    /* The pages to release, and the unbacked pages beside them: a run of free pages takes one
     * system call. */
    uint64_t mask[SA_HUGE_WORDS];
    uint64_t backed[SA_HUGE_WORDS]; /* the pages to release */
    uint32_t pages;                 /* of the mask */
};

/* How many free pages a hugepage must have to lose them: one that is subreleased already, and one
 * that is not. */
struct sa_filler_least {
    uint32_t subreleased, other;
};

/*
 * Finds the hugepage with most free pages to release, subreleased ones first. The pages of the mask
 * count as taken until sa_huge_filler_end. False: there is none.
 */
bool sa_huge_filler_begin(struct sa_huge_filler *f, struct sa_filler_least least,
                          struct sa_filler_release *ret);

/* True if sa_huge_filler_begin would find one. */
bool sa_huge_filler_can_release(struct sa_huge_filler *f, struct sa_filler_least least);

/* done: those pages of the mask that were released. Returns how many of them had been backed;
 * *ret_empty: the hugepage is empty now. */
uint32_t sa_huge_filler_end(struct sa_huge_filler *f, struct sa_filler_release *r,
                            const uint64_t *done, bool *ret_empty);

/* A hugepage that is nearly full, to be collapsed; NULL: none. It leaves the queue. */
struct sa_huge_tracker *sa_huge_filler_next_full(struct sa_huge_filler *f);

/* The kernel has backed all its pages. */
void sa_huge_filler_collapsed(struct sa_huge_filler *f, struct sa_huge_tracker *t);

/* report: the numbers that need no look at the trackers. count: adds one tracker to them. */
void sa_huge_filler_report(const struct sa_huge_filler *f, struct sa_huge_filler_stats *ret);
void sa_huge_filler_count(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                          struct sa_huge_filler_stats *ret, struct sa_span_ages *ages);

/* Ends the program if F1 to F3 do not hold: huge_filler_validate.c. */
void sa_huge_filler_validate(const struct sa_huge_filler *f);

#endif
