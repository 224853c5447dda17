/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the state of a target over, and checks it; see state.h. The variables are the library's. */
#include "tool/stats/state.h"

#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/middle/transfer_shards.h"
#include "alloc/os/percpu.h"
#include "alloc/os/pressure.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"

#define PAGE_MAX 65536

static bool window_is_sane(const struct sa_sliding_window *w)
{
    return w->slot_ns && w->at < SA_SLIDING_WINDOW_SLOTS;
}

/* What the library uses as an index, a bound or a divisor. */
static bool numbers_are_sane(void)
{
    const struct sa_huge_heap *h = &sa_huge_heap_ordinary;

    for (unsigned i = 0; i < SA_CLASSES_MAX; i++)
        if (sa_first_use_indexes[i] > SA_CLASSES_MAX || sa_first_use[i] >= sa_size_classes.count)
            return false;
    return sa_cpu_cache_count() >= 0 && sa_cpu_cache_count() <= SA_SLABS &&
           sa_transfer_shard_count() <= SA_SHARDS_MAX && sa_transfer_shards.more < SA_SHARDS_MAX &&
           sa_transfer_domains() <= SA_DOMAINS_MAX &&
           sa_pressure_watched <= SA_PRESSURE_TRIGGERED && window_is_sane(&h->cache.usage_min) &&
           window_is_sane(&h->cache.off_peak_min) && window_is_sane(&h->cache.size_min) &&
           window_is_sane(&h->filler.free_min) && window_is_sane(&h->filler.backed_min);
}

/* The page of the target's kernel decides about the classes. */
static bool page_is_sane(void)
{
    size_t bytes = sa_vm.page_bytes;

    return bytes >= 4096 && bytes <= PAGE_MAX && (bytes & (bytes - 1)) == 0;
}

/* What the library's code has as constants, and the target says of its own. */
static bool same_constants(struct sa_state *s)
{
    static const struct {
        const char *name;
        uint64_t value;
    } constants[] = {{"SA_PAGE_SHIFT", SA_PAGE_SHIFT},
                     {"SA_HOME_START", SA_HOME_START},
                     {"SA_HOME_SHIFT", SA_HOME_SHIFT},
                     {"SA_ADDRESS_BITS", SA_ADDRESS_BITS}};

    for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
        if (sa_table_constant(s->table, constants[i].name, s->e) != constants[i].value)
            sa_error_set(s->e, SA_EXIT_VERSION,
                         "%s of its library is not what this sallocctl has: use the one that comes "
                         "with the library",
                         constants[i].name);
    return !s->e->code;
}

bool sa_state_take(struct sa_state *s)
{
    if (!same_constants(s))
        return false;
    sa_page_heap_init(0);
    if (!sa_state_take_numbers(s))
        return false;
    if (!page_is_sane())
        return sa_state_damaged(s, "the size of a page");
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
    if (!numbers_are_sane())
        return sa_state_damaged(s, "the state");
    return sa_state_take_options(s) && sa_state_take_caches(s) && sa_state_take_hugepages(s) &&
           sa_state_take_ranges(s);
}
