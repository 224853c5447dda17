/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hugepages; see huge_owner.h. */
#include "alloc/page_heap/huge_owner.h"

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
    return true;
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
