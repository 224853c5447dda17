/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the permitted mappings out; see map_shares.h. Runs once, before the first allocation. */
#include "alloc/start/map_shares.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/front/large.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "sampling/guard/sample_quarantine.h"

#define BOUND_DEFAULT 65530 /* the kernel's default, where its limit cannot be read */
#define BOUND_MAX     (1ul << 32)

/* The kernel's limit of mappings. */
static size_t read_bound(void)
{
    char text[24];
    size_t bound = 0;

    if (sa_filtered() || sa_sys_read_file("/proc/sys/vm/max_map_count", text, sizeof(text)) <= 0)
        return BOUND_DEFAULT;
    for (const char *c = text; *c >= '0' && *c <= '9' && bound < BOUND_MAX; c++)
        bound = bound * 10 + (size_t)(*c - '0');
    return bound;
}

void sa_map_shares(size_t *slots, size_t *quarantined)
{
    size_t half = read_bound() / 2, others;

    *slots = sa_min(*slots, half / 4);
    if (half < 8 * SA_SAMPLE_QUARANTINE_MAX)
        *quarantined = 0;
    sa_quarantine_max = sa_min(sa_quarantine_max, half / 16);
    /* Half of the slots can be in use, with two mappings each. So can half of the slots for larger
     * blocks, of which there are 1/8 as many. */
    others = 2 * SA_SAMPLE_QUARANTINE_MAX + *slots + *slots / 8 + 4 + 2 * sa_quarantine_max;
    SA_DCHECK(*slots <= half / 4 && sa_quarantine_max <= half / 16);
    sa_large_init(half > others ? (half - others) / 2 : 0);
}
