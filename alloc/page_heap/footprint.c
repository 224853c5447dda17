/* SPDX-License-Identifier: Apache-2.0 */
/* What salloc uses; see footprint.h. */
#include "alloc/page_heap/footprint.h"

#include "alloc/os/vm.h"

SA_START_DATA struct sa_footprint sa_footprint;

size_t sa_footprint_bytes(void)
{
    uint64_t mapped = sa_load_relaxed(&sa_vm.mapped_bytes);
    uint64_t released = sa_load_relaxed(&sa_vm.reserved_bytes);

    for (unsigned i = 0; i < SA_FOOTPRINT_HEAPS; i++)
        released += sa_load_seq_cst(&sa_footprint.released[i]); /* see sa_limits_over */
    return mapped > released ? mapped - released : 0;
}
