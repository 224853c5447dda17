/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepage map: which component owns a hugepage. It has an entry for each hugepage of the
 * address space, empty unless it is set. Entries of the home window are part of the table. Others
 * are mapped for 64 GiB at a time; what was never needed of these counts as reserved (sa_vm). No
 * lock of its own.
 *
 * An entry is a pointer to the owner. Its lowest bit tells regions from trackers. The next two bits
 * hold the advice about hugepages that stands with the kernel. It belongs to the addresses and not
 * to the owner.
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
    SA_ADVICE_MIXED, /* differs between its pages, or is not known */
};

#define SA_OWNER_ADVICE_SHIFT 1
#define SA_OWNER_ADVICE       (3ul << SA_OWNER_ADVICE_SHIFT)

struct sa_hugepage_map {
    uintptr_t home[SA_OWNERS];
    /* Few programs use other windows. The home window's place stays empty here. */
    uintptr_t *windows[SA_OWNER_WINDOWS];
    uint64_t used[SA_OWNER_WINDOWS]; /* bit set = this 1/64 of the window's table was needed */
};

/* Makes entries for n hugepages exist. False when out of memory. */
bool sa_hugepage_map_grow(struct sa_hugepage_map *owners, size_t hugepage, size_t n);

/* The first hugepage from the given one on that has an owner. Passes at most `look` entries without
 * one, and then returns where to go on. `end` or above: there is none before `end`. */
size_t sa_hugepage_map_next(const struct sa_hugepage_map *owners, size_t hugepage, size_t end,
                            size_t look);

/* The entry without the advice, or 0 where none exists. */
uintptr_t sa_hugepage_map_owner(const struct sa_hugepage_map *owners, size_t hugepage);

/* Set in an entry: the owner is a region. Otherwise it is a tracker. */
#define SA_HUGE_OWNER_REGION 1ul

/* The owner of a hugepage: at most one of the two functions returns one. */
struct sa_huge_tracker;
struct sa_huge_region;
struct sa_huge_tracker *sa_hugepage_map_tracker(const struct sa_hugepage_map *owners,
                                                size_t hugepage);
struct sa_huge_region *sa_hugepage_map_region(const struct sa_hugepage_map *owners,
                                              size_t hugepage);

/* Requires: the entry exists. */
void sa_hugepage_map_set(struct sa_hugepage_map *owners, size_t hugepage, uintptr_t owner);

/* The advice; NONE where no entry exists. Requires of set_advice: the entry exists. */
enum sa_thp_policy sa_hugepage_map_advice(const struct sa_hugepage_map *owners, size_t hugepage);
void sa_hugepage_map_set_advice(struct sa_hugepage_map *owners, size_t hugepage,
                                enum sa_thp_policy advice);

#endif
