/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page heaps of both kinds and their interface (page_heap.h) share: numbers, counters,
 * choices of the user.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_HEAP_TYPES_H
#define SA_PAGE_HEAP_ACCOUNT_HEAP_TYPES_H

#include "pagemap/span.h"

struct sa_page_heap_stats {
    size_t mapped_bytes;   /* address space obtained from the kernel = the four below */
    size_t in_use_bytes;   /* spans handed out */
    size_t backed_bytes;   /* free, holding memory */
    size_t released_bytes; /* free, holding none */
    size_t moving_bytes;   /* free, on its way from backed to released at this moment */
    size_t empty_bytes;    /* of those in use, spans that hold no memory */
    size_t spans_in_use;   /* records */
    size_t spans_created;
    uint64_t grown, released_ever_bytes, extended;
};

/* What the user wants of the kernel's transparent hugepages. */
enum sa_hugepages {
    SA_HUGEPAGES_AUTO,   /* where they cost next to no memory */
    SA_HUGEPAGES_OFF,    /* none */
    SA_HUGEPAGES_ALWAYS, /* wherever the system gives them, though memory that is not touched is
                            lost */
};

/* Their numbers, which spans bear. */
enum { SA_HEAP_ORDINARY = 1, SA_HEAP_SAMPLED, SA_HEAP_GUARDED /* none: no page heap's */ };

/* Whether the address lies in the window of the sampled heap, which follows the home window. */
SA_INLINE bool sa_page_heap_sampled_address(uintptr_t address)
{
    return address >> SA_HOME_SHIFT == (SA_HOME_START >> SA_HOME_SHIFT) + 1;
}

/* What pages are for: DENSE: many objects, so that they are likely to stay in use; ZERO: they had
 * better be zero, and without memory, already. */
enum sa_pages_use { SA_PAGES_ANY, SA_PAGES_DENSE, SA_PAGES_ZERO };

/* The rules for how much demand is expected back; see sa_page_heap_set_skip. */
enum sa_skip { SA_SKIP_PEAK, SA_SKIP_SHORT, SA_SKIP_LONG, SA_SKIPS };

#define SA_SKIP_MAX_S 300

/* Free memory that was not needed for so long is given back. */
#define SA_RELEASE_NS 2000000000ull

#endif
