/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of mixed spans, for the files that make them up: mixed_spans.c takes and puts blocks,
 * mixed_pages.c adds and removes pages, mixed_saved.c counts what they save, mixed_validate.c
 * checks. MIXED guards everything here.
 *
 * Invariants: X1  the bits of a mixed span are those of blocks that do not overlap; those of all
 *                 other pages are 0. `used` is the sum of their lengths.
 *             X2  `longest` is the length of the longest free run, and the record is in the bin of
 *                 that length; bit n of `filled` is set if bin n has a record.
 *             X3  no two mixed spans that begin in the same 256 KiB are neighbours, unless the
 *                 page heap could not join them.
 *             X4  the totals are the sums over all records, and `guests` those over all blocks.
 *             X5  `runs` of a page is at least the length of each free run that begins on it. A
 *                 request thus looks at few pages; it makes the number exact where it looks.
 *             X6  the host of a page has as many blocks there as it counts, and at least one if
 *                 any block begins there.
 */
#ifndef SA_MIDDLE_MIXED_INTERNAL_H
#define SA_MIDDLE_MIXED_INTERNAL_H

#include "alloc/middle/mixed_bits.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/hugepage_map.h"

/* The record of a mixed span. */
struct sa_mixed {
    struct sa_span *span;
    struct sa_mixed *next, *prev; /* in the bin; of unused records: next only */
    struct sa_mixed_page *pages;  /* the bitmaps */
    uint32_t *runs;               /* by page; behind the bitmaps of the hugepage */
    uint32_t units;               /* all of the span's */
    uint32_t used, longest;       /* the same */
    uint32_t bin;
};

/* A class that has blocks on a page, and how many: mixed_saved.c. */
struct sa_mixed_host {
    uint16_t cls, blocks;
};

struct mixed_state {
    struct sa_lock lock;
    struct sa_mixed *bins[SA_MIXED_BINS] SA_GUARDED_BY(SA_RANK_MIXED);
    uint64_t filled[SA_MIXED_BIN_WORDS] SA_GUARDED_BY(SA_RANK_MIXED);
    struct sa_mixed *unused SA_GUARDED_BY(SA_RANK_MIXED);
    /* Atomic, relaxed, for readers without the lock. */
    struct sa_mixed_stats stats SA_GUARDED_BY(SA_RANK_MIXED);
    uint32_t objects[SA_CLASSES_MAX] SA_GUARDED_BY(SA_RANK_MIXED);
    /* By class: bytes of its blocks on pages of other hosts, less the bytes of others on pages of
     * which it is the host. saved_bytes is the sum of those that are positive. */
    int64_t guests[SA_CLASSES_MAX] SA_GUARDED_BY(SA_RANK_MIXED);
    /* By hugepages of the home window: SA_HUGE_PAGES bitmaps of pages each, or NULL. Behind them
     * are as many numbers for `runs`, and as many hosts. */
    struct sa_mixed_page *tables[SA_HOME_BYTES >> SA_HUGE_SHIFT] SA_GUARDED_BY(SA_RANK_MIXED);
};

extern struct mixed_state sa_mixed_state;

/* Returns a record; NULL when out of memory. */
struct sa_mixed *sa_mixed_record_new(void) SA_REQUIRES(SA_RANK_MIXED);

/* Returns the bitmaps of the pages from an address on; NULL: there are none, or none could be
 * made. */
struct sa_mixed_page *sa_mixed_table(uintptr_t address, bool make) SA_REQUIRES(SA_RANK_MIXED);

/* Returns the host of a page that has bitmaps. */
struct sa_mixed_host *sa_mixed_host(uintptr_t address) SA_REQUIRES(SA_RANK_MIXED);

/* Count a block that has come to a mixed span, or has gone, for saved_bytes. */
void sa_mixed_saved_come(unsigned cls, uintptr_t block) SA_REQUIRES(SA_RANK_MIXED);
void sa_mixed_saved_go(unsigned cls, uintptr_t block) SA_REQUIRES(SA_RANK_MIXED);

/* Returns the length of the longest free run that begins on a page, and notes it. */
size_t sa_mixed_longest_on(struct sa_mixed *m, size_t page) SA_REQUIRES(SA_RANK_MIXED);

/* Notes that there is a free run. */
SA_INLINE void mixed_note_run(struct sa_mixed *m, size_t begin, size_t end)
    SA_REQUIRES(SA_RANK_MIXED)
{
    uint32_t *run = &m->runs[begin / SA_MIXED_PAGE_UNITS];

    if (end - begin > *run)
        *run = (uint32_t)(end - begin);
}

/* Notes that blocks have come or gone: the length of the longest free run, and units in use. */
void sa_mixed_changed(struct sa_mixed *m, size_t longest) SA_REQUIRES(SA_RANK_MIXED);

/* Makes a span, whose bits the caller has set, a mixed one. */
void sa_mixed_enter(struct sa_mixed *m, struct sa_span *s) SA_REQUIRES(SA_RANK_MIXED);

/* The reverse. The record stays. */
void sa_mixed_leave(struct sa_mixed *m) SA_REQUIRES(SA_RANK_MIXED);

/*
 * Enters a span without its pages that have no block. Those are put in front of the list `empty`.
 * The span is cut before and behind them, from its end on. When there is no memory for a record,
 * what is left stays one span. The record has the span, its bitmaps and its length, and is in no
 * bin.
 */
void sa_mixed_cut(struct sa_mixed *m, struct sa_span **empty) SA_REQUIRES(SA_RANK_MIXED);

/* Joins a mixed span with its neighbours (X3). */
void sa_mixed_join(struct sa_span *s) SA_REQUIRES(SA_RANK_MIXED);

/* Returns the mixed span that an address lies on; NULL: there is none, or it is not to be joined
 * with `s` (X3). */
struct sa_span *sa_mixed_neighbour(const struct sa_span *s, uintptr_t address)
    SA_REQUIRES(SA_RANK_MIXED);

#endif
