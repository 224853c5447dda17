/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed spans: sparse spans that serve blocks of any class.
 *
 * A span of a size class stays in use while one of its objects is. When a program changes the
 * sizes that it uses, the survivors of the old sizes keep their spans, and the free objects beside
 * them serve no other class. Once that costs much memory, the span with the smallest part in use
 * becomes a mixed span: its survivors stay where they are, its free objects merge to free runs, and
 * a class that would need a new span takes blocks from the runs instead.
 *
 * The layers above do not know. A block of a mixed span has a size class, and caches hold it as any
 * object of that class. The pages of a mixed span have no class in the radix map, so a free of such
 * a block leaves the fast path; the slow path finds the class by the bitmap. An allocation never
 * asks.
 *
 * A mixed span of which no block is in use goes back to the page heap. A program that does not
 * waste memory has no mixed span, and neither has the hardened mode, in which objects have
 * canaries.
 */
#ifndef SA_MIDDLE_MIXED_SPANS_H
#define SA_MIDDLE_MIXED_SPANS_H

#include "alloc/os/lock.h"
#include "pagemap/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of more bytes come from spans of their class only. */
#define SA_MIXED_MAX 32768

/* Blocks have the alignment that their class has, but no more than this, unless more is needed.
 * Aligned blocks fit into fewer free runs: at multiples of their size, 0.03 of what is live is lost
 * (perf/fragmentation/search.py). */
#define SA_MIXED_ALIGN 64ul

struct sa_mixed_stats {
    size_t spans, bytes; /* mixed spans, and their pages */
    size_t used_bytes;   /* of these: blocks in use or in caches */
    size_t saved_bytes;  /* of those: what classes would need spans of their own for */
    /* Since the start: */
    uint64_t conversions;    /* spans of a class that became mixed */
    uint64_t returned_bytes; /* pages without a block that went back to the page heap */
    uint64_t taken;          /* blocks that classes took from mixed spans */
    uint64_t taken_bytes;
};

/* When spans become mixed: an option. Set before the first allocation. */
enum sa_mixed_use {
    SA_MIXED_AUTO,   /* when much memory is wasted: alloc/middle/central_mix.c */
    SA_MIXED_OFF,    /* never */
    SA_MIXED_ALWAYS, /* whenever a class would need a span */
};

extern enum sa_mixed_use sa_mixed_use;

/* Atomic: a span became mixed since the start. */
extern bool sa_mixed_any;

/* Takes up to n blocks of a class from mixed spans, and returns how many. They are written before
 * `end`, the first one last. They have the alignment of the class, but no more than most_align: at
 * most a page, usually SA_MIXED_ALIGN. */
size_t sa_mixed_take(unsigned cls, void **end, size_t n, size_t most_align)
    SA_EXCLUDES(SA_RANK_MIXED);

/*
 * Takes a block of a class back. False: it is not one of a mixed span. Pages that have no block
 * any more are put in front of the list of spans `empty`, linked by next. They are MOVING; the
 * caller gives them to the page heap.
 */
bool sa_mixed_put(unsigned cls, void *block, struct sa_span **empty) SA_EXCLUDES(SA_RANK_MIXED);

/* The same for a block that the program frees, and that goes back at once (mixed_returns.h): it is
 * in use no more. False also if another thread has the lock. */
bool sa_mixed_return(unsigned cls, void *block, struct sa_span **empty) SA_EXCLUDES(SA_RANK_MIXED);

/*
 * Makes a mixed span of a span of a class that has objects in use and no pin. The caller holds the
 * lock of the class and has taken the span off it. False: there is no memory, and nothing has
 * changed. empty: as for sa_mixed_put.
 */
bool sa_mixed_begin(struct sa_span *span, struct sa_span **empty) SA_REQUIRES(SA_RANK_CENTRAL);

/* Makes a mixed span of a span from the page heap, for a block of a class, which is returned. NULL:
 * out of memory. */
void *sa_mixed_fresh(unsigned cls) SA_EXCLUDES(SA_RANK_MIXED);

/*
 * Returns the class of the block that begins at an address of a mixed span, in use or in a cache;
 * 0: there is none. Takes no lock. Safe for any address, and true for the owner of the block if the
 * caller has seen that the page has no class, or that its span does not fit the class.
 */
unsigned sa_mixed_class(uintptr_t address);

/*
 * Returns whether a block, in use or in a cache, begins at an address of a mixed span of which less
 * than the mean part of all mixed spans is in use. Takes no lock. Safe for any address, and a hint:
 * true for the owner of the block under the same condition as sa_mixed_class, unless the spans
 * change meanwhile.
 */
bool sa_mixed_is_sparse(uintptr_t address);

/* Returns whether an address lies on a mixed span, but in no block. For reports of bad pointers. */
bool sa_mixed_is_free(uintptr_t address) SA_EXCLUDES(SA_RANK_MIXED);

/* Returns the blocks of a class that lie on mixed spans, in use or in caches. */
size_t sa_mixed_objects(unsigned cls);

/* Return the bytes of free runs, and those of blocks in use or in caches. */
size_t sa_mixed_free_bytes(void);
size_t sa_mixed_used_bytes(void);

void sa_mixed_stats(struct sa_mixed_stats *ret);

/* Ends the program if an invariant of mixed_internal.h does not hold: mixed_validate.c. Debug
 * builds call it at ticks. */
void sa_mixed_validate(void) SA_EXCLUDES(SA_RANK_MIXED);

#endif
