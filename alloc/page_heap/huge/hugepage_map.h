/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which component a hugepage belongs to: an entry for each hugepage of the address space, empty
 * unless it is set. Entries of the home window are part of the table; others are mapped for 64 GiB
 * at a time, and count as reserved (sa_vm) as far as no entry was ever needed. No lock of its own;
 * entries are pointers whose lowest bit belongs to the user. The next two hold the advice about
 * hugepages that stands with the kernel, which is the range's and not the owner's.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGEPAGE_MAP_H
#define SA_PAGE_HEAP_HUGE_HUGEPAGE_MAP_H

#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_HUGE_SHIFT    21
#define SA_OWNERS        (1ul << (SA_HOME_SHIFT - SA_HUGE_SHIFT)) /* of a window */
#define SA_OWNER_WINDOWS (1ul << (SA_ADDRESS_BITS - SA_HOME_SHIFT))

enum sa_thp_policy {
    SA_ADVICE_NONE,
    SA_ADVICE_ON,    /* MADV_HUGEPAGE */
    SA_ADVICE_OFF,   /* MADV_NOHUGEPAGE */
    SA_ADVICE_MIXED, /* not the same everywhere, or not known */
};

#define SA_OWNER_ADVICE_SHIFT 1
#define SA_OWNER_ADVICE       (3ul << SA_OWNER_ADVICE_SHIFT)

struct sa_huge_owners {
    uintptr_t home[SA_OWNERS];
    /* Few programs have entries of other windows; the home window's place stays empty in these. */
    uintptr_t *windows[SA_OWNER_WINDOWS];
    uint64_t used[SA_OWNER_WINDOWS]; /* parts that have come to use */
};

/* Makes entries for n hugepages exist. False when out of memory. */
bool sa_huge_owners_grow(struct sa_huge_owners *owners, size_t hugepage, size_t n);

/* The first hugepage from the given one on whose entry is set, or where to go on if none of the
 * next `look` entries is; not below `end`: there is none before it. */
size_t sa_huge_owners_next(const struct sa_huge_owners *owners, size_t hugepage, size_t end,
                           size_t look);

/* The entry, or 0 where none exists. */
uintptr_t sa_hugepage_map(const struct sa_huge_owners *owners, size_t hugepage);

/* In an entry: it is a region, else a tracker. */
#define SA_HUGE_OWNER_REGION 1ul

/* Who owns a hugepage: at most one of the two. */
struct sa_huge_tracker;
struct sa_huge_region;
struct sa_huge_tracker *sa_hugepage_map_tracker(const struct sa_huge_owners *owners,
                                                size_t hugepage);
struct sa_huge_region *sa_hugepage_map_region(const struct sa_huge_owners *owners, size_t hugepage);

/* Requires: the entry exists. */
void sa_hugepage_map_set(struct sa_huge_owners *owners, size_t hugepage, uintptr_t owner);

/* The advice: NONE where no entry exists. To set it, it must. */
enum sa_thp_policy sa_hugepage_map_advice(const struct sa_huge_owners *owners, size_t hugepage);
void sa_hugepage_map_set_advice(struct sa_huge_owners *owners, size_t hugepage,
                                enum sa_thp_policy advice);

#endif
