/* SPDX-License-Identifier: Apache-2.0 */
/* The footprint, which is the memory that salloc uses; see footprint.h. */
#include "alloc/page_heap/account/footprint.h"

#include "alloc/base/layout.h"
#include "alloc/os/vm.h"

SA_LAYOUT_USED SA_START_DATA struct sa_footprint sa_footprint;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_footprint", sa_footprint, used),
    SA_LAYOUT_STATE("sa_footprint", sa_footprint, emptied),
};
SA_LAYOUT_ADDRESS(sa_footprint);

size_t sa_footprint_gross_bytes(void)
{
    uint64_t used = sa_load_relaxed(&sa_vm.used_bytes);

    for (unsigned i = 0; i < SA_FOOTPRINT_HEAPS; i++)
        used += sa_load_seq_cst(&sa_footprint.used[i]); /* pairs with the store in sa_limits_over */
    return used;
}

size_t sa_footprint_bytes(void)
{
    size_t used = sa_footprint_gross_bytes();

    /* Last: a span of emptied objects that goes back meanwhile counts twice, not less than none. */
    return used - (size_t)sa_load_relaxed(&sa_footprint.emptied);
}
