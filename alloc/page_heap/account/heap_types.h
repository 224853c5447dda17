/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both kinds of page heap and their interface (page_heap.h) share: heap numbers, counters and
 * the user's options.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_HEAP_TYPES_H
#define SA_PAGE_HEAP_ACCOUNT_HEAP_TYPES_H

#include "pagemap/span.h"

struct sa_page_heap_stats {
    size_t mapped_bytes;   /* address space obtained from the kernel: the sum of the next four */
    size_t in_use_bytes;   /* spans handed out */
    size_t backed_bytes;   /* free and backed */
    size_t released_bytes; /* free and unbacked */
    size_t moving_bytes;   /* free, being released at this moment */
    size_t empty_bytes;    /* of in_use_bytes: spans that are unbacked */
    size_t spans_in_use;   /* records */
    size_t spans_created;
    uint64_t grown, released_ever_bytes, extended;
};

/* The user's choice about the kernel's transparent hugepages. */
enum sa_hugepages {
    SA_HUGEPAGES_AUTO,   /* where they cost almost no additional memory */
    SA_HUGEPAGES_OFF,    /* none */
    SA_HUGEPAGES_ALWAYS, /* wherever the system provides them, although memory that the program
                          * does not touch is lost */
};

/* The numbers of the heaps, which spans carry. */
enum { SA_HEAP_ORDINARY = 1, SA_HEAP_SAMPLED, SA_HEAP_GUARDED /* the number of no page heap */ };

/* Whether the address lies in the window of the sampled heap, which follows the home window. */
SA_INLINE bool sa_page_heap_sampled_address(uintptr_t address)
{
    return address >> SA_HOME_SHIFT == (SA_HOME_START >> SA_HOME_SHIFT) + 1;
}

/* What pages are for. DENSE: many objects, so the pages are likely to stay in use. ZERO: the
 * caller prefers unbacked pages, which read as zero. */
enum sa_pages_use { SA_PAGES_ANY, SA_PAGES_DENSE, SA_PAGES_ZERO };

/* 1 while the ordinary heap keeps more than 24 MiB after all is freed, because the program has
 * freed much and needed it back soon. Atomic, relaxed; written by the heap, and cleared in a child
 * of fork. */
extern unsigned char sa_page_heap_swings;

/* Whether most of the ordinary heap was freed within the last second: caches then keep few objects,
 * because each may keep a page of its own. Atomic, relaxed. The heap begins and ends it, under its
 * lock. Maintenance turns SA_FALL_BEGUN into SA_FALL_ANSWERED when it has emptied the caches. The
 * heap begins it again as more is freed (huge_heap_surplus.c). */
enum sa_fall { SA_FALL_NONE, SA_FALL_BEGUN, SA_FALL_ANSWERED };

extern unsigned char sa_page_heap_fall;

/* Until this time the ordinary heap keeps few free pages, because much memory is wasted: classes
 * take blocks from mixed spans. Atomic, relaxed; in ns of the coarse clock; written by whoever
 * takes such a block. */
extern uint64_t sa_page_heap_lean_ns;
#define SA_LEAN_NS 1000000000ull

/* Free memory that stays unneeded for this long is released. */
#define SA_RELEASE_NS 2000000000ull

#endif
