/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hugepages; see huge_owner.h. */
#include "alloc/page_heap/huge_owner.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"

bool sa_huge_owners_grow(struct sa_huge_owners *owners, size_t hugepage, size_t n)
{
    for (size_t w = hugepage / SA_OWNERS; w <= (hugepage + n - 1) / SA_OWNERS; w++) {
        if (w >= SA_OWNER_WINDOWS)
            return false;
        if (!owners->windows[w])
            owners->windows[w] = w == SA_HOME_START >> SA_HOME_SHIFT
                                     ? owners->home
                                     : sa_vm_map(NULL, sizeof(owners->home), "salloc:metadata");
        if (!owners->windows[w])
            return false;
    }
    owners->first = owners->end ? sa_min(owners->first, hugepage) : hugepage;
    owners->end = sa_max(owners->end, hugepage + n);
    return true;
}

size_t sa_huge_owners_next(const struct sa_huge_owners *owners, size_t hugepage, size_t look)
{
    while (hugepage < owners->end) {
        const uintptr_t *window = owners->windows[hugepage / SA_OWNERS];

        if (!window) {
            hugepage = sa_align_down(hugepage, SA_OWNERS) + SA_OWNERS;
        } else if (window[hugepage % SA_OWNERS] || !look--) {
            return hugepage;
        } else {
            hugepage++;
        }
    }
    return owners->end;
}

uintptr_t sa_huge_owner(const struct sa_huge_owners *owners, size_t hugepage)
{
    const uintptr_t *window;

    if (hugepage / SA_OWNERS >= SA_OWNER_WINDOWS)
        return 0;
    window = owners->windows[hugepage / SA_OWNERS];
    return window ? window[hugepage % SA_OWNERS] : 0;
}

void sa_huge_owner_set(struct sa_huge_owners *owners, size_t hugepage, uintptr_t owner)
{
    owners->windows[hugepage / SA_OWNERS][hugepage % SA_OWNERS] = owner;
}
