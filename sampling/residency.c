/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the kernel's page map of the process; see residency.h. No state, no allocation. */
#include "sampling/residency.h"

#include "alloc/base/bits.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <fcntl.h>

#define ENTRIES     512 /* read at a time */
#define BIT_PRESENT (1ull << 63)
#define BIT_SWAPPED (1ull << 62)

void sa_residency_open(struct sa_residency *r)
{
    r->fd = sa_sys_open("/proc/self/pagemap", O_RDONLY, 0);
}

void sa_residency_close(struct sa_residency *r)
{
    if (r->fd >= 0)
        sa_sys_close(r->fd);
    r->fd = -1;
}

bool sa_residency_of(const struct sa_residency *r, uintptr_t start, size_t bytes,
                     struct sa_resident *ret)
{
    size_t page = sa_vm.page_bytes, end = start + bytes;
    uint64_t entry[ENTRIES];

    *ret = (struct sa_resident){0, 0};
    if (r->fd < 0)
        return false;
    for (uintptr_t at = sa_align_down(start, page); at < end;) {
        size_t want = sa_min((end - at + page - 1) / page, ENTRIES);
        long got = sa_sys_pread(r->fd, entry, want * 8, at / page * 8);

        if (got < 8)
            return false;
        for (long i = 0; i < got / 8; i++, at += page) {
            size_t part = sa_min(at + page, end) - sa_max(at, start);

            ret->resident += entry[i] & BIT_PRESENT ? part : 0;
            ret->swapped += entry[i] & BIT_SWAPPED ? part : 0;
        }
    }
    return true;
}
