/* SPDX-License-Identifier: Apache-2.0 */
/* The hugepage map; see hugepage_map.h. */
#include "alloc/page_heap/huge/hugepage_map.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"

#define PART_BYTES   4096
#define PART_ENTRIES (PART_BYTES / sizeof(uintptr_t))

SA_STATIC_ASSERT(SA_OWNERS / PART_ENTRIES == 64, "a bit for each part of a window");

#define HOME (SA_HOME_START >> SA_HOME_SHIFT)

/* The table of a window; NULL: it has none. */
static uintptr_t *window_of(const struct sa_hugepage_map *owners, size_t w)
{
    return SA_LIKELY(w == HOME) ? (uintptr_t *)owners->home : owners->windows[w];
}

static bool window_grow(struct sa_hugepage_map *owners, size_t w)
{
    if (w >= SA_OWNER_WINDOWS)
        return false;
    if (!window_of(owners, w))
        owners->windows[w] = sa_vm_map_reserved(sizeof(owners->home), "salloc:metadata");
    return window_of(owners, w) != NULL;
}

/* Counts the part of the window's table that has the hugepage as used, if it is not yet. */
static void part_use(struct sa_hugepage_map *owners, size_t hugepage)
{
    size_t w = hugepage / SA_OWNERS;
    uint64_t bit = 1ull << hugepage % SA_OWNERS / PART_ENTRIES;

    if (w == HOME || owners->used[w] & bit)
        return;
    owners->used[w] |= bit;
    sa_vm_use_reserved(PART_BYTES);
}

bool sa_hugepage_map_grow(struct sa_hugepage_map *owners, size_t hugepage, size_t n)
{
    for (size_t w = hugepage / SA_OWNERS; w <= (hugepage + n - 1) / SA_OWNERS; w++)
        if (!window_grow(owners, w))
            return false;
    for (size_t at = sa_align_down(hugepage, PART_ENTRIES); at < hugepage + n; at += PART_ENTRIES)
        part_use(owners, at);
    return true;
}

SA_RARE size_t sa_hugepage_map_next(const struct sa_hugepage_map *owners, size_t hugepage,
                                    size_t end, size_t look)
{
    while (hugepage < end) {
        const uintptr_t *window = window_of(owners, hugepage / SA_OWNERS);

        if (!window) {
            hugepage = sa_align_down(hugepage, SA_OWNERS) + SA_OWNERS;
        } else if ((window[hugepage % SA_OWNERS] & ~SA_OWNER_ADVICE) || !look--) {
            return hugepage;
        } else {
            hugepage++;
        }
    }
    return end;
}

static uintptr_t owner_entry(const struct sa_hugepage_map *owners, size_t hugepage)
{
    const uintptr_t *window;

    if (hugepage / SA_OWNERS >= SA_OWNER_WINDOWS)
        return 0;
    window = window_of(owners, hugepage / SA_OWNERS);
    return window ? window[hugepage % SA_OWNERS] : 0;
}

uintptr_t sa_hugepage_map_owner(const struct sa_hugepage_map *owners, size_t hugepage)
{
    return owner_entry(owners, hugepage) & ~SA_OWNER_ADVICE;
}

enum sa_thp_policy sa_hugepage_map_advice(const struct sa_hugepage_map *owners, size_t hugepage)
{
    return (owner_entry(owners, hugepage) & SA_OWNER_ADVICE) >> SA_OWNER_ADVICE_SHIFT;
}

void sa_hugepage_map_set(struct sa_hugepage_map *owners, size_t hugepage, uintptr_t owner)
{
    uintptr_t *entry = &window_of(owners, hugepage / SA_OWNERS)[hugepage % SA_OWNERS];

    SA_DCHECK(window_of(owners, hugepage / SA_OWNERS));
    SA_DCHECK((owner & SA_OWNER_ADVICE) == 0);
    *entry = (*entry & SA_OWNER_ADVICE) | owner;
}

SA_RARE void sa_hugepage_map_set_advice(struct sa_hugepage_map *owners, size_t hugepage,
                                        enum sa_thp_policy advice)
{
    uintptr_t *entry = &window_of(owners, hugepage / SA_OWNERS)[hugepage % SA_OWNERS];

    SA_DCHECK(window_of(owners, hugepage / SA_OWNERS));
    *entry = (*entry & ~SA_OWNER_ADVICE) | (uintptr_t)advice << SA_OWNER_ADVICE_SHIFT;
}

struct sa_huge_tracker *sa_hugepage_map_tracker(const struct sa_hugepage_map *owners,
                                                size_t hugepage)
{
    uintptr_t owner = sa_hugepage_map_owner(owners, hugepage);

    return owner & SA_HUGE_OWNER_REGION ? NULL : (struct sa_huge_tracker *)owner;
}

struct sa_huge_region *sa_hugepage_map_region(const struct sa_hugepage_map *owners, size_t hugepage)
{
    uintptr_t owner = sa_hugepage_map_owner(owners, hugepage);

    return owner & SA_HUGE_OWNER_REGION ? (struct sa_huge_region *)(owner & ~SA_HUGE_OWNER_REGION)
                                        : NULL;
}
